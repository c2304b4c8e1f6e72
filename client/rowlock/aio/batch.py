"""Batches (asyncio): many changes, sent together."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Sequence
from types import TracebackType
from typing import Generic

from rowlock._codec.columns import Name, Text, Value
from rowlock._core.batch_lines import BatchLines
from rowlock._core.batch_send import BatchSend
from rowlock._core.point import ColumnName, Data
from rowlock._core.view import View
from rowlock.aio._transport.servers import Servers
from rowlock.changes import Change
from rowlock.errors import RowlockError


class Batch(Generic[Text]):
    """Collects changes and sends them together, when enough are there and at the end of the block. For one task.

    Not a transaction: each row's changes within one send are made together, in order, but sends and rows are not. An
    exception in the block drops what is unsent. A send that was not applied whole raises BatchError.
    """

    def __init__(self, servers: Servers, view: View[Text], size: int, max_bytes: int) -> None:
        self._servers = servers
        self._view: View[Text] = view
        self._lines = BatchLines(size, max_bytes)
        self.applied_count = 0
        """Rows changed so far, counted once a send."""

    async def put(self, row: Name, data: Data[ColumnName], *, timestamp: int | None = None) -> None:
        """As Table.put, later."""
        self._lines.put(row, data, timestamp)
        await self._send_if_full()

    async def delete(
        self, row: Name, columns: Sequence[Name] | None = None, *, timestamp: int | None = None, exact: bool = False
    ) -> None:
        """As Table.delete, later."""
        self._lines.delete(row, columns, timestamp, exact)
        await self._send_if_full()

    async def increment(self, row: Name, column: Name, amount: int = 1) -> None:
        """As Table.increment, later and without an answer."""
        self._lines.increment(row, column, amount)
        await self._send_if_full()

    async def append(self, row: Name, column: Name, suffix: Value) -> None:
        """As Table.append, later and without an answer."""
        self._lines.append(row, column, suffix)
        await self._send_if_full()

    async def mutate_row(self, row: Name, changes: Iterable[Change]) -> None:
        """As Table.mutate_row, later and without answers: batch.mutate_row("row", [rowlock.Put("f:z", b"1")])."""
        self._lines.mutate(row, changes)
        await self._send_if_full()

    async def send(self) -> None:
        """Sends what is there now and waits until it is applied; raises BatchError unless all of it was."""
        mutations = self._lines.take()
        if not mutations:
            return
        with self._servers.sequences.taken(len(mutations)) as sequence:
            send = BatchSend(
                self._view.table,
                mutations,
                sequence,
                self._view.durability,
                time.monotonic(),
                self._view.timeout_s,
                self._servers.repeated_for_s,
            )
            while not send.is_done:
                await self._send_once(send)
                await asyncio.sleep(send.pause_s)
                send.set_ages()
        self.applied_count += send.finish()

    async def _send_once(self, send: BatchSend) -> None:
        try:
            region = await self._servers.region_of(send.table, send.first_row, send.deadline)
        except RowlockError as error:
            send.not_located(error, time.monotonic())
            return
        request = send.request_for(region)
        failure = await self._servers.attempt_in(region, request, send.deadline)
        send.absorb(request, failure, time.monotonic())

    async def _send_if_full(self) -> None:
        if self._lines.is_full:
            await self.send()

    async def __aenter__(self) -> Batch[Text]:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            await self.send()
        else:
            self._lines.take()
