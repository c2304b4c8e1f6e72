# Made from client/rowlock/aio/change_feed.py by tools/async_to_sync.py: change that, then `make faces`.
"""A change feed (threads): the changes of a table, region by region, in order of write number."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pyarrow as pa

from rowlock._core.change_progress import ChangeProgress
from rowlock._core.retry import TABLE_OPERATION_S
from rowlock._transport import methods
from rowlock._transport.servers import Servers


class ChangeFeed:
    """Iterates Arrow record batches of changes, returned by `Client.changes`. For one task at a time.

    The columns are row, family, qualifier, timestamp, write_number, kind and value; docs/changes.md. A batch is of one
    region, in order of write number, and has all cells of each number. No request is sent before the first batch is
    read. After an error the feed may be read on: nothing was skipped.
    """

    def __init__(
        self, servers: Servers, table: str, since: Mapping[int, int] | Mapping[str, int] | None, timeout_s: float
    ) -> None:
        self._servers = servers
        self._progress = ChangeProgress(table, since)
        self._timeout_s = timeout_s

    def __repr__(self) -> str:
        return f"<rowlock.ChangeFeed of {self._progress.table!r}>"

    @property
    def offset(self) -> dict[int, int]:
        """How far the batches go that were yielded so far: {region: write number}. Pass it as `since` to go on.

        Raises InvalidArgumentError if the feed began without one and nothing was read yet.
        """
        return self._progress.offset

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        return self

    def __next__(self) -> pa.RecordBatch:
        progress = self._progress
        while (batch := progress.next_batch()) is None:
            if progress.is_done:
                raise StopIteration
            progress.take(
                self._servers.call(methods.READ_CHANGES, progress.request(), self._timeout_s, work_s=TABLE_OPERATION_S)
            )
        return batch
