# Made from client/rowlock/aio/typed_batch.py by tools/async_to_sync.py: change that, then `make faces`.
"""Batches of a typed table (threads)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from types import TracebackType
from typing import Generic, TypeVar

from rowlock._codec.columns import Value
from rowlock._codec.key_scalars import Key
from rowlock._core.batch_lines import MAX_BYTES_DEFAULT, SIZE_DEFAULT
from rowlock._core.table_mapping import TableMapping
from rowlock._core.typed_changes import changes_of, encoded_changes
from rowlock._core.typed_rows import Row, RowCodec
from rowlock._core.view import View
from rowlock._transport.kept_mapping import encoded_by_mapping
from rowlock._transport.servers import Servers
from rowlock.batch import Batch
from rowlock.changes import Append, Change, Increment

T = TypeVar("T")


class TypedBatch(Generic[Row]):
    """Collects changes of typed rows; sends them together when it is full and at the end of the block. Not thread-safe.

        with features.batch() as batch:
            batch.put("alice", {"orders": 7})

    A batch is not a transaction, see Batch. Rows in a BatchError are bytes.
    """

    def __init__(
        self,
        servers: Servers,
        view: View[bytes],
        mapping: TableMapping,
        size: int = SIZE_DEFAULT,
        max_bytes: int = MAX_BYTES_DEFAULT,
    ) -> None:
        self._servers = servers
        self._view = view
        self._mapping = mapping
        self._batch = Batch(servers, view, size, max_bytes)

    @property
    def applied_count(self) -> int:
        """Rows changed so far; a row counts once per send."""
        return self._batch.applied_count

    def put(self, key: Key, data: Row, *, timestamp: int | None = None) -> None:
        """Adds a TypedTable.put to the batch."""
        row, encoded = self._encoded(lambda codec: (codec.key.encode(key), codec.encoded(data, timestamp)))
        self._batch.mutate_row(row, changes_of(encoded))

    def delete(
        self, key: Key, columns: Sequence[str] | None = None, *, timestamp: int | None = None, exact: bool = False
    ) -> None:
        """Adds a TypedTable.delete to the batch."""
        row, targets = self._encoded(
            lambda codec: (codec.key.encode(key), None if columns is None else codec.targets(columns))
        )
        self._batch.delete(row, targets, timestamp=timestamp, exact=exact)

    def increment(self, key: Key, column: str, amount: int = 1) -> None:
        """Adds a TypedTable.increment to the batch; its new number is not returned."""
        self.mutate_row(key, [Increment(column, amount)])

    def append(self, key: Key, column: str, suffix: Value) -> None:
        """Adds a TypedTable.append to the batch; its new value is not returned."""
        self.mutate_row(key, [Append(column, suffix)])

    def mutate_row(self, key: Key, changes: Iterable[Change]) -> None:
        """Adds a TypedTable.mutate_row to the batch. Its results are not returned."""
        given = changes if isinstance(changes, Change) else list(changes)
        row, encoded = self._encoded(lambda codec: (codec.key.encode(key), encoded_changes(codec, given)))
        self._batch.mutate_row(row, encoded)

    def send(self) -> None:
        """Sends the collected changes now and blocks until they are applied. Raises BatchError unless all rows were."""
        self._batch.send()

    def _encoded(self, encode: Callable[[RowCodec], T]) -> T:
        return encoded_by_mapping(self._servers, self._view, self._mapping, encode)

    def __enter__(self) -> TypedBatch[Row]:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._batch.__exit__(kind, error, trace)
