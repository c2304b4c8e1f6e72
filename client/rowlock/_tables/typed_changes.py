# Made from client/rowlock/aio/_tables/typed_changes.py by tools/async_to_sync.py: change that, then `make faces`.
"""The changes of a typed table (threads)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Generic, TypeVar

from rowlock_proto.v1 import region_pb2

from rowlock._codec.columns import Value
from rowlock._codec.key_scalars import Key
from rowlock._core import point
from rowlock._core.batch_lines import MAX_BYTES_DEFAULT, SIZE_DEFAULT
from rowlock._core.bulk_input import ArrowInput
from rowlock._core.defaults import BATCH_BYTES_DEFAULT, BUSY_TIMEOUT_S_DEFAULT
from rowlock._core.table_mapping import TableMapping
from rowlock._core.typed_changes import (
    TypedCheckAnswer,
    appendable,
    appended,
    changes_of,
    counter_of,
    deletes_of,
    encoded_changes,
    encoded_checks,
    typed_results,
)
from rowlock._core.typed_rows import Row, RowCodec
from rowlock._core.view import View
from rowlock._transport.bulk import put_arrow
from rowlock._transport.kept_mapping import compare_again, encoded_by_mapping, mapping_in_use, read_by_mapping
from rowlock._transport.servers import Servers
from rowlock.bulk_outcome import BulkResult
from rowlock.changes import Change, TypedValue
from rowlock.checks import Check, CompareOp
from rowlock.errors import InvalidArgumentError
from rowlock.filters import Filter
from rowlock.table import Table
from rowlock.typed_batch import TypedBatch
from rowlock.typed_checks import TypedCheckResult

T = TypeVar("T")


class TypedTableChanges(Generic[Row]):
    """The changes of a TypedTable."""

    def __init__(self, servers: Servers, view: View[bytes], mapping: TableMapping) -> None:
        self._servers = servers
        self._view = view
        self._mapping = mapping
        self._table: Table[bytes] = Table(servers, view)

    @property
    def name(self) -> str:
        """The table's name."""
        return self._view.table

    def put(self, key: Key, data: Row, *, timestamp: int | None = None) -> None:
        """Sets columns of one row atomically: {name: value}, at least one. None deletes the cell.

        timestamp: milliseconds, of all of them; None: the mapping's timestamp column, or the server's clock.
        """
        row, encoded = self._encoded(lambda codec: (codec.key.encode(key), codec.encoded(data, timestamp)))
        if encoded.deletes:
            self._table.mutate_row(row, changes_of(encoded))
        else:
            self._table.put(row, encoded.puts, timestamp=encoded.timestamp)

    def create(self, key: Key, data: Row, *, timestamp: int | None = None) -> bool:
        """Sets columns if the row does not exist. Returns whether they were set. Arguments as in `put`."""
        row, encoded = self._encoded(lambda codec: (codec.key.encode(key), codec.encoded(data, timestamp)))
        if not encoded.puts:
            raise InvalidArgumentError("all columns are None; a new row needs at least one value")
        return self._table.create(row, encoded.puts, timestamp=encoded.timestamp)

    def update(self, key: Key, data: Row, *, timestamp: int | None = None) -> bool:
        """Sets columns if the row exists. Returns whether they were set. Arguments as in `put`."""
        row, encoded = self._encoded(lambda codec: (codec.key.encode(key), codec.encoded(data, timestamp)))
        existence = region_pb2.Condition.EXISTENCE_PRESENT
        return self._table._put_if(existence, row, encoded.puts, encoded.timestamp, encoded.deletes)

    def delete(
        self, key: Key, columns: Sequence[str] | None = None, *, timestamp: int | None = None, exact: bool = False
    ) -> None:
        """Deletes columns by their names, or the whole row with all of its cells if columns is None.

        timestamp, exact: as in Table.delete.
        """
        row, targets = self._encoded(
            lambda codec: (codec.key.encode(key), None if columns is None else codec.targets(columns))
        )
        self._table.delete(row, targets, timestamp=timestamp, exact=exact)

    def mutate_row(self, key: Key, changes: Iterable[Change]) -> list[Any]:
        """Applies changes to one row atomically and in order; each sees the effect of those before it.

        A change is a rowlock.Put, Delete, Increment or Append with a name of the mapping:
        [rowlock.Put("score", 0.5), rowlock.Increment("orders")]. Returns one result per change: an increment's new
        number, an append's new value, None for puts and deletes.
        """
        given = changes if isinstance(changes, Change) else list(changes)
        codec, request = self._encoded(
            lambda codec: (
                codec,
                point.mutate(self.name, codec.key.encode(key), encoded_changes(codec, given), self._view.durability),
            )
        )
        answer = self._servers.point(request, self._view.timeout_s)
        return typed_results(codec, request.point.mutate.mutations[0].changes, answer)

    def check_and_put(
        self,
        key: Key,
        column: str,
        expected: TypedValue,
        data: Row,
        *,
        op: CompareOp = "=",
        timestamp: int | None = None,
    ) -> TypedCheckResult:
        """Sets columns of a row if "stored op expected" holds for one of its columns, in one atomic step.

        expected: compared as the column's type; None: the cell is absent (op "=") or present ("!="). op: =, !=, <, <=,
        > or >=. data, timestamp: as in `put`. Returns a TypedCheckResult, which is true if the check held.
        """
        return self._changed_if(
            key,
            [Check(column, expected, op)],
            lambda codec: changes_of(codec.encoded(data, timestamp)),
            lambda codec: [],
        )

    def check_and_delete(
        self,
        key: Key,
        column: str,
        expected: TypedValue,
        columns: Sequence[str] | None = None,
        *,
        op: CompareOp = "=",
        timestamp: int | None = None,
    ) -> TypedCheckResult:
        """Deletes columns, or the row if columns is None, if "stored op expected" holds for one column.

        expected, op: as in `check_and_put`. columns, timestamp: as in `delete`. Returns a TypedCheckResult.
        """
        return self._changed_if(
            key,
            [Check(column, expected, op)],
            lambda codec: deletes_of(codec, columns, timestamp),
            lambda codec: [],
        )

    def check_and_mutate(
        self,
        key: Key,
        checks: Iterable[Check | Filter],
        then: Iterable[Change],
        otherwise: Iterable[Change] = (),
    ) -> TypedCheckResult:
        """Applies the changes of `then` if all checks hold, else those of `otherwise`, in one atomic step.

        A check is a rowlock.Check of one column, [rowlock.Check("orders", 7)], or a filter over the row, as in
        [table.column("orders") > 5]. Changes are those of `mutate_row`. Returns a TypedCheckResult.
        """
        met = then if isinstance(then, Change) else list(then)
        unmet = otherwise if isinstance(otherwise, Change) else list(otherwise)
        return self._changed_if(
            key,
            checks,
            lambda codec: encoded_changes(codec, met, "then"),
            lambda codec: encoded_changes(codec, unmet, "otherwise"),
        )

    def increment(self, key: Key, column: str, amount: int = 1) -> int:
        """Adds an amount, which may be negative, to a BIGINT in `binary`. Returns the new number.

        An absent cell counts as 0. Raises NotACounterError if the cell is not 8 bytes, CounterOverflowError if the sum
        does not fit.
        """
        row, target = self._encoded(lambda codec: (codec.key.encode(key), counter_of(codec, column).target))
        return self._table.increment(row, target, amount)

    def append(self, key: Key, column: str, suffix: Value) -> Any:
        """Appends to a STRING or BINARY; an absent cell counts as empty. Returns the new value."""
        row, cell, data = self._encoded(
            lambda codec: (
                codec.key.encode(key),
                appendable(codec, column),
                appendable(codec, column).encode(suffix),
            )
        )
        return appended(cell, self._table.append(row, cell.target, data))

    def batch(self, size: int = SIZE_DEFAULT, max_bytes: int = MAX_BYTES_DEFAULT) -> TypedBatch[Row]:
        """Returns a TypedBatch, which sends changes when it holds `size` of them or about max_bytes bytes."""
        return TypedBatch(self._servers, self._view, self._mapping, size, max_bytes)

    def put_arrow(
        self,
        data: ArrowInput,
        *,
        timestamp: int | None = None,
        batch_bytes: int = BATCH_BYTES_DEFAULT,
        busy_timeout: float = BUSY_TIMEOUT_S_DEFAULT,
        on_progress: Callable[[int], None] | None = None,
    ) -> BulkResult:
        """Writes an Arrow table, batch, reader or iterable of batches, or a DataFrame, by the mapping.

        A null writes nothing, and so does a column of the mapping that the data lacks. A column of the data that the
        mapping does not name is a MappingError. timestamp: of rows without a time of their own, by the mapping's
        timestamp column. The other arguments, the result and the errors are those of Table.put_arrow.
        """
        in_use = mapping_in_use(self._servers, self._view, self._mapping)
        return put_arrow(
            self._servers,
            self._view,
            data,
            in_use.mapping,
            timestamp,
            batch_bytes,
            busy_timeout,
            on_progress,
            is_partial=True,
        )

    def call(self, key: Key, name: str, argument: Value = b"") -> bytes:
        """Calls a row procedure for the row with this key; see Table.call."""
        return self._table.call(self._encoded(lambda codec: codec.key.encode(key)), name, argument)

    # Calls

    def _changed_if(
        self,
        key: Key,
        checks: Iterable[Check | Filter],
        then: Callable[[RowCodec], list[Change]],
        otherwise: Callable[[RowCodec], list[Change]],
    ) -> TypedCheckResult:
        given = checks if isinstance(checks, Check | Filter) else list(checks)
        changed = read_by_mapping(
            self._servers, self._view, self._mapping, lambda codec: self._checked(codec, key, given, then, otherwise)
        )
        if changed.is_unfit:
            # It was compared as bytes of the earlier type, and may be equal by the mapping that is kept now.
            compare_again(self._servers, self._view, self._mapping)
            if mapping_in_use(self._servers, self._view, self._mapping).codec is not changed.codec:
                return self._changed_if(key, given, then, otherwise)
        return changed.result()

    def _checked(
        self,
        codec: RowCodec,
        key: Key,
        checks: Check | Filter | list[Check | Filter],
        then: Callable[[RowCodec], list[Change]],
        otherwise: Callable[[RowCodec], list[Change]],
    ) -> TypedCheckAnswer:
        row, encoded = codec.key.encode(key), encoded_checks(codec, checks)
        request = point.check_and_mutate(
            self.name,
            row,
            encoded,
            then(codec),
            otherwise(codec),
            self._view.durability,
            return_filtered=self._servers.returns_filtered,
        )
        answer = self._servers.point(request, self._view.timeout_s)
        return TypedCheckAnswer(codec, encoded, row, request, answer)

    def _encoded(self, encode: Callable[[RowCodec], T]) -> T:
        return encoded_by_mapping(self._servers, self._view, self._mapping, encode)
