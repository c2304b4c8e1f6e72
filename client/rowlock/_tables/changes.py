# Made from client/rowlock/aio/_tables/changes.py by tools/async_to_sync.py: change that, then `make faces`.
"""The changes of a table: single rows, batches and bulk writes (threads)."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Generic

from rowlock_proto.v1 import region_pb2

from rowlock._codec.columns import Name, Text, Value
from rowlock._core import point
from rowlock._core.batch_lines import MAX_BYTES_DEFAULT, SIZE_DEFAULT
from rowlock._core.conversation import Request
from rowlock._core.defaults import BATCH_BYTES_DEFAULT, BUSY_TIMEOUT_S_DEFAULT
from rowlock._core.point import ColumnName, Data
from rowlock._core.view import View
from rowlock._transport.servers import Servers
from rowlock._uninterrupted import Uninterrupted
from rowlock.batch import Batch
from rowlock.changes import Change
from rowlock.checks import Check, CheckResult, CompareOp
from rowlock.errors import InvalidArgumentError
from rowlock.filters import Filter

if TYPE_CHECKING:
    from rowlock._core.bulk_input import ArrowInput
    from rowlock.bulk_outcome import BulkResult
    from rowlock.mapping import Mapping


class TableChanges(Generic[Text]):
    """The changes of a Table."""

    def __init__(self, servers: Servers, view: View[Text]) -> None:
        self._servers = servers
        self._view: View[Text] = view

    def put(self, row: Name, data: Data[ColumnName], *, timestamp: int | None = None) -> None:
        """Sets columns of one row atomically: {column: value}, at least one.

        timestamp: of all of them; None: the server's clock.
        """
        view = self._view
        takes_values = timestamp is None and self._servers.takes_values
        if takes_values:
            with contextlib.suppress(InvalidArgumentError):
                self._call(point.put_values(view.table, row, data, view.durability))
                return
        self._call(point.put(view.table, row, data, timestamp, view.durability))
        if takes_values:  # It refused a put that was valid, so it is of an earlier version now.
            self._servers.protocols.pop(self._servers.catalog_address, None)

    def create(self, row: Name, data: Data[ColumnName], *, timestamp: int | None = None) -> bool:
        """Sets columns if the row does not exist. Returns whether they were set. Arguments as in `put`."""
        return self._put_if(region_pb2.Condition.EXISTENCE_ABSENT, row, data, timestamp)

    def update(self, row: Name, data: Data[ColumnName], *, timestamp: int | None = None) -> bool:
        """Sets columns if the row exists. Returns whether they were set. Arguments as in `put`."""
        return self._put_if(region_pb2.Condition.EXISTENCE_PRESENT, row, data, timestamp)

    def delete(
        self, row: Name, columns: Sequence[Name] | None = None, *, timestamp: int | None = None, exact: bool = False
    ) -> None:
        """Deletes columns (`family:qualifier`), whole families (`family`), or the row if columns is None.

        timestamp: deletes the versions at or before it; None: the server's clock, so versions that were put at a later
        timestamp stay. exact: deletes one version only, the one at the timestamp, or the newest if there is no
        timestamp; only columns can be deleted so.
        """
        self._call(point.delete(self._view.table, row, columns, timestamp, exact, self._view.durability))

    def mutate_row(self, row: Name, changes: Iterable[Change]) -> list[int | Text | None]:
        """Applies changes to one row atomically and in order; each sees the effect of those before it.

        A change is a rowlock.Put, Delete, Increment or Append: [rowlock.Put("f:z", b"1"), rowlock.Delete("f:y")].
        Returns one result per change: an increment's new number, an append's new value, None for puts and deletes.
        Raises NotACounterError or CounterOverflowError if an increment can't be made; then no change is.
        """
        request = point.mutate(self._view.table, row, changes, self._view.durability)
        return point.mutate_results(request, self._call(request), self._view.decode)

    def check_and_put(
        self,
        row: Name,
        column: Name,
        expected: Value | None,
        data: Data[ColumnName],
        *,
        op: CompareOp = "=",
        timestamp: int | None = None,
    ) -> CheckResult[Text]:
        """Sets columns of a row if "stored op expected" holds for one of its columns, in one atomic step.

        expected: compared as bytes with the newest value; None: the column is absent (op "=") or present ("!="); b"":
        an empty value. op: =, !=, <, <=, > or >=. data, timestamp: as in `put`. Returns a CheckResult, which is true
        if the check held; a check that fails is not an error.
        """
        puts = point.puts_of(data, timestamp)
        return self.check_and_mutate(row, [Check(column, expected, op)], puts)

    def check_and_delete(
        self,
        row: Name,
        column: Name,
        expected: Value | None,
        columns: Sequence[Name] | None = None,
        *,
        op: CompareOp = "=",
        timestamp: int | None = None,
    ) -> CheckResult[Text]:
        """Deletes columns, or the row if columns is None, if "stored op expected" holds for one column.

        expected, op: as in `check_and_put`. columns, timestamp: as in `delete`. Returns a CheckResult.
        """
        deletes = point.deletes_of(columns, timestamp)
        return self.check_and_mutate(row, [Check(column, expected, op)], deletes)

    def check_and_mutate(
        self,
        row: Name,
        checks: Iterable[Check | Filter],
        then: Iterable[Change],
        otherwise: Iterable[Change] = (),
    ) -> CheckResult[Text]:
        """Applies the changes of `then` if all checks hold, else those of `otherwise`, in one atomic step.

        A check is a rowlock.Check of one column, [rowlock.Check("f:z", b"1")], or a filter over the row, which does not
        hold if the row is absent. Changes are those of `mutate_row`: [rowlock.Put("f:z", b"2")]. Returns a CheckResult,
        which is true if all checks held.
        """
        request = point.check_and_mutate(
            self._view.table,
            row,
            checks,
            then,
            otherwise,
            self._view.durability,
            return_filtered=self._servers.returns_filtered,
        )
        return point.check_result(request, self._call(request), self._view.decode)

    def increment(self, row: Name, column: Name, amount: int = 1) -> int:
        """Adds an amount, which may be negative, to a signed 64-bit counter. Returns the new number.

        A missing counter counts as 0. Raises NotACounterError if the value is not 8 bytes, CounterOverflowError if the
        sum does not fit.
        """
        return point.new_number(
            self._call(point.increment(self._view.table, row, column, amount, self._view.durability))
        )

    def append(self, row: Name, column: Name, suffix: Value) -> Text:
        """Appends to a column's value; a missing value counts as empty. Returns the new value."""
        request = point.append(self._view.table, row, column, suffix, self._view.durability)
        return point.new_text(self._call(request), self._view.decode)

    def call(self, row: Name, name: str, argument: Value = b"") -> bytes:
        """Calls a row procedure, which the server's operator has installed. Returns its answer. docs/procedures.md.

        It reads and changes this row under the row's lock; its changes are made all together, or none. It runs once,
        also if the client has to repeat the call. argument: for the procedure to understand.

        Raises ProcedureNotFoundError, and ProcedureFailedError if it raised an error or took too long; then nothing
        was changed.
        """
        request = point.call(self._view.table, row, name, argument, self._view.durability)
        return self._call(request).call.answer

    def batch(self, size: int = SIZE_DEFAULT, max_bytes: int = MAX_BYTES_DEFAULT) -> Batch[Text]:
        """Returns a Batch, which sends changes when it holds `size` of them or about max_bytes bytes."""
        return Batch(self._servers, self._view, size, max_bytes)

    def put_arrow(
        self,
        data: ArrowInput,
        mapping: Mapping | str | None = None,
        *,
        timestamp: int | None = None,
        batch_bytes: int = BATCH_BYTES_DEFAULT,
        busy_timeout: float = BUSY_TIMEOUT_S_DEFAULT,
        on_progress: Callable[[int], None] | None = None,
    ) -> BulkResult:
        """Writes an Arrow table, batch, reader or iterable of batches, or an object that exports an Arrow stream.

        A pandas DataFrame is such an object. With a mapping, rows of the data become cells. Without one the data is
        cells: the columns row, family, qualifier, value and, optionally, timestamp; or else rows of the mapping that
        the table keeps, which may lack some of its columns. A null timestamp means the server's clock, a null value of
        a cell deletes the column. Of rows with the same key the later one wins.

        timestamp: of all cells; None: the server's clock, or the cells' own.
        batch_bytes: about the size of a batch. Each batch is atomic, the call as a whole is not.
        busy_timeout: seconds to retry while the server answers that it is busy; the logger `rowlock` reports it every
            ten seconds. The table's timeout is for a server that does not answer.
        on_progress: called with the number of rows written so far, from the first one on: those before it need not
            be written again. An exception that it raises ends the call; the outcome of rows in flight is then unknown.

        Returns a BulkResult. Raises BulkError if some rows were not written, or may not have been; also if the data
        raises after rows were sent. Raises MappingError if the first batch does not fit the mapping.
        """
        # Here, because pyarrow is slow to import.
        with Uninterrupted():
            from rowlock._transport.bulk import put_arrow

        return put_arrow(self._servers, self._view, data, mapping, timestamp, batch_bytes, busy_timeout, on_progress)

    # Calls

    def _call(self, request: Request) -> region_pb2.PointAnswer:
        return self._servers.point(request, self._view.timeout_s)

    def _put_if(
        self,
        existence: region_pb2.Condition.Existence,
        row: Name,
        data: Data[ColumnName],
        timestamp: int | None,
        deletes: Sequence[Name] = (),
    ) -> bool:
        request = point.put(self._view.table, row, data, timestamp, self._view.durability, existence, deletes)
        return self._call(request).mutate.results[0].condition_met
