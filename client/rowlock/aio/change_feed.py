"""A change feed (asyncio): the changes of a table, region by region, in order of write number."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Mapping

import pyarrow as pa
from rowlock_proto.v1 import region_pb2

from rowlock._core.change_progress import ChangeProgress
from rowlock._core.change_requests import newest_request, offset_of
from rowlock._core.change_waiting import ChangeWaiting
from rowlock._core.retry import TABLE_OPERATION_S
from rowlock._transport import methods
from rowlock.aio._transport.servers import Servers


class ChangeFeed:
    """Iterates Arrow record batches of changes, returned by `Client.changes`. For one task at a time.

    The columns are row, family, qualifier, timestamp, write_number, kind and value; docs/changes.md. A batch is of one
    region, in order of write number, and has all cells of each number, unless these are too many for a batch. No
    request is sent before the first batch is read. After an error the feed may be read on: nothing was skipped.
    """

    def __init__(
        self,
        servers: Servers,
        table: str,
        since: Mapping[int, int] | Mapping[str, int] | None,
        follow_s: float,
        timeout_s: float,
    ) -> None:
        self._servers = servers
        self._progress = ChangeProgress(table, since)
        self._waiting = ChangeWaiting(follow_s)
        self._timeout_s = timeout_s

    def __repr__(self) -> str:
        return f"<rowlock.aio.ChangeFeed of {self._progress.table!r}>"

    @property
    def offset(self) -> dict[int, int]:
        """How far the batches go that were yielded so far: {region: write number}. Pass it as `since` to go on.

        Raises InvalidArgumentError if the feed began without one and nothing was read yet.
        """
        return self._progress.offset

    @property
    def is_partial(self) -> bool:
        """Whether the last batch ends within a write number that is too large for it; the next one continues it.

        The offset is one from before that number. A reader whose effects must not happen twice does not store it now.
        """
        return self._progress.is_partial

    def __aiter__(self) -> AsyncIterator[pa.RecordBatch]:
        return self

    async def __anext__(self) -> pa.RecordBatch:
        progress = self._progress
        while (batch := progress.next_batch()) is None:
            if progress.is_done and not await self._is_followed_by_more():
                raise StopAsyncIteration
            began = time.monotonic()
            progress.take(await self._call(progress.request()))
            self._waiting.has_read(time.monotonic() - began)
        return batch

    async def _is_followed_by_more(self) -> bool:
        """Waits for changes beyond those that were read. Returns False if none came for `follow_s`."""
        progress, waiting = self._progress, self._waiting
        waiting.begin(time.monotonic())
        while (pause_s := waiting.pause_s(time.monotonic())) is not None:
            await asyncio.sleep(pause_s)
            newest = await self._call(newest_request(progress.table))
            if progress.begin_again(offset_of(newest)):
                return True
        return False

    async def _call(self, request: region_pb2.ReadChangesRequest) -> region_pb2.ReadChangesResponse:
        return await self._servers.call(methods.READ_CHANGES, request, self._timeout_s, work_s=TABLE_OPERATION_S)
