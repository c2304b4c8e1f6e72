"""Batches (asyncio): many changes, sent together."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from types import TracebackType
from typing import Generic

from rowlock._codec.columns import Name, Text, Value
from rowlock._core.batch_lines import BatchLines
from rowlock._core.point import ColumnName, Data
from rowlock._core.view import View
from rowlock.aio._tables.sending import send_lines
from rowlock.aio._transport.servers import Servers
from rowlock.changes import Change


class Batch(Generic[Text]):
    """Collects changes and sends them together when it is full and at the end of the block. For one task.

        async with table.batch() as batch:
            await batch.put(b"row", {b"info:delay": b"5"})

    A batch is not a transaction. Within one send, the changes of one row are applied atomically and in order; different
    rows, and different sends, are not. An exception in the block drops the changes that are not sent yet. Any method
    may send; it raises BatchError unless all rows of the send were changed.
    """

    def __init__(self, servers: Servers, view: View[Text], size: int, max_bytes: int) -> None:
        self._servers = servers
        self._view: View[Text] = view
        self._lines = BatchLines(size, max_bytes)
        self._applied_count = 0

    @property
    def applied_count(self) -> int:
        """Rows changed so far; a row counts once per send."""
        return self._applied_count

    async def put(self, row: Name, data: Data[ColumnName], *, timestamp: int | None = None) -> None:
        """Adds a Table.put to the batch."""
        self._lines.put(row, data, timestamp)
        await self._send_if_full()

    async def delete(
        self, row: Name, columns: Sequence[Name] | None = None, *, timestamp: int | None = None, exact: bool = False
    ) -> None:
        """Adds a Table.delete to the batch."""
        self._lines.delete(row, columns, timestamp, exact)
        await self._send_if_full()

    async def increment(self, row: Name, column: Name, amount: int = 1) -> None:
        """Adds a Table.increment to the batch; its new number is not returned."""
        self._lines.increment(row, column, amount)
        await self._send_if_full()

    async def append(self, row: Name, column: Name, suffix: Value) -> None:
        """Adds a Table.append to the batch; its new value is not returned."""
        self._lines.append(row, column, suffix)
        await self._send_if_full()

    async def mutate_row(self, row: Name, changes: Iterable[Change]) -> None:
        """Adds a Table.mutate_row to the batch, as in `batch.mutate_row("row", [rowlock.Put("f:z", b"1")])`.

        Its results are not returned.
        """
        self._lines.mutate(row, changes)
        await self._send_if_full()

    async def send(self) -> None:
        """Sends the collected changes now and waits until they are applied. Raises BatchError unless all rows were."""
        lines = self._lines.take()
        if not lines:
            return
        send = await send_lines(self._servers, self._view, lines)
        self._applied_count += send.finish()

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
