"""Bulk writes of typed tables (asyncio)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Generic, TypeVar

from rowlock._codec.columns import listed
from rowlock._codec.key_scalars import Key
from rowlock._core.bulk_input import ArrowInput
from rowlock._core.bulk_write_requests import BulkWriteResult, WriteOptions
from rowlock._core.defaults import BATCH_BYTES_DEFAULT, BUSY_TIMEOUT_S_DEFAULT
from rowlock._core.lock_requests import LockPolicy
from rowlock._core.table_mapping import TableMapping
from rowlock._core.typed_rows import Row, RowCodec
from rowlock._core.view import View
from rowlock.aio._transport.kept_mapping import encoded_by_mapping, mapping_in_use
from rowlock.aio._transport.servers import Servers
from rowlock.aio.bulk_write import BulkWrite, open_bulk_write
from rowlock.aio.session import Session

if TYPE_CHECKING:
    from rowlock.aio.typed_table import TypedTable

T = TypeVar("T")


class TypedBulkWrite(Generic[Row]):
    """A bulk write of typed rows, returned by `Client.bulk_write` for a TypedTable. For one task at a time.

        async with db.bulk_write(features, replace=True) as write:
            await write.put("alice", {"orders": 7})

    Keys and columns are those of the TypedTable; for everything else see BulkWrite. Rows in errors are bytes.
    """

    def __init__(self, write: BulkWrite, servers: Servers, view: View[bytes], mapping: TableMapping) -> None:
        self._bulk = write
        self._servers = servers
        self._view = view
        self._mapping = mapping

    def __repr__(self) -> str:
        return f"<rowlock.aio.TypedBulkWrite of {self._view.table!r}>"

    @property
    def session(self) -> Session:
        """The session that holds it: its own, or the one that was passed."""
        return self._bulk.session

    @property
    def result(self) -> BulkWriteResult | None:
        """The result of the commit; None before."""
        return self._bulk.result

    async def write(
        self,
        data: ArrowInput,
        *,
        timestamp: int | None = None,
        batch_bytes: int = BATCH_BYTES_DEFAULT,
        busy_timeout: float = BUSY_TIMEOUT_S_DEFAULT,
    ) -> int:
        """Stages an Arrow table, batch, reader or iterable of batches, or a DataFrame, as TypedTable.put_arrow does.

        Returns the number of its rows when all are durable; see BulkWrite.write.
        """
        mapping = (await mapping_in_use(self._servers, self._view, self._mapping)).mapping
        return await self._bulk._write_rows(data, mapping, timestamp, batch_bytes, busy_timeout)

    async def put(self, key: Key, data: Row, *, timestamp: int | None = None) -> None:
        """Adds columns of a row, as TypedTable.put: None deletes the cell. They are sent when enough are gathered."""
        row, encoded = await self._encoded(lambda codec: (codec.key.encode(key), codec.encoded(data, timestamp)))
        await self._bulk._put_and_delete(row, encoded.puts, encoded.deletes, encoded.timestamp)

    async def delete(self, key: Key, columns: Sequence[str], *, timestamp: int | None = None) -> None:
        """Adds deletes of these columns of a row, by their names."""
        names = list(listed("columns", "names", columns))
        row, targets = await self._encoded(lambda codec: (codec.key.encode(key), codec.targets(names)))
        await self._bulk.delete(row, targets, timestamp=timestamp)

    async def commit(self) -> BulkWriteResult:
        """Makes all of it visible at once; returns when it is durable. See BulkWrite.commit."""
        return await self._bulk.commit()

    async def abort(self) -> None:
        """Removes what was staged. Idempotent."""
        await self._bulk.abort()

    async def _encoded(self, encode: Callable[[RowCodec], T]) -> T:
        return await encoded_by_mapping(self._servers, self._view, self._mapping, encode)

    async def __aenter__(self) -> TypedBulkWrite[Row]:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._bulk.__aexit__(kind, error, trace)


def encoded_range(
    table: TypedTable[Row], start: Key | None, stop: Key | None, prefix: Key | None
) -> tuple[bytes | None, bytes | None, bytes | None]:
    """Returns the rows of keys: start, stop and prefix. Raises MappingError and TypeError."""
    key = table._mapping.in_use.codec.key
    return key.bound(start), key.bound(stop), key.prefix(prefix)


async def open_typed_bulk_write(
    servers: Servers,
    table: TypedTable[Row],
    options: WriteOptions,
    purpose: str,
    session: Session | None,
    policy: LockPolicy,
    timeout_s: float,
) -> TypedBulkWrite[Row]:
    """See Client.bulk_write."""
    write = await open_bulk_write(servers, options, purpose, session, policy, timeout_s)
    return TypedBulkWrite(write, servers, table._view, table._mapping)
