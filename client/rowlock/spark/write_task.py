"""What one task of a writing job does: its part of the rows becomes cells, and these go to the server in batches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import cast

import pyarrow as pa

from rowlock._core.bulk_input import CellBatch, cut_batches
from rowlock.errors import BulkError, MappingError, RowlockError
from rowlock.spark.connections import client_of, patience_s
from rowlock.spark.write_plan import UNREACHED, WritePlan

# put_arrow cuts batches of cells between any two of them. What it is given here was cut between rows, and stays so:
# no row is ever written in part.
_UNCUT_BYTES = 1 << 40


class WriteFailedError(RowlockError):
    """A task could not write all of its rows. What it had written stays."""


@dataclass(frozen=True, slots=True)
class Written:
    """What a task wrote."""

    row_count: int
    cell_count: int


def write_task(plan: WritePlan, batches: Iterable[pa.RecordBatch], part: str) -> Written:
    """Writes all rows and returns when they are durable; `part` is what errors call them. Raises WriteFailedError.

    What the batches raise is raised as it is.
    """
    options = plan.options
    waits_s = patience_s(options.timeout_s)
    rows = _Rows(plan, part)
    try:
        client = client_of(options.server, waits_s)
        table = client.table(options.table, durability=options.durability, timeout=waits_s)
        result = table.put_arrow(rows.cells(batches), batch_bytes=_UNCUT_BYTES, busy_timeout=options.busy_timeout_s)
    except RowlockError as error:
        if isinstance(error, BulkError) and error.__cause__ and not isinstance(error.__cause__, RowlockError):
            raise error.__cause__ from None  # What the rows come from has failed, and says itself with what.
        raise WriteFailedError(_told(plan, part, error, waits_s), table=options.table) from None
    return Written(rows.count, result.cell_count)


class _Rows:
    """The rows of one task on their way to being cells."""

    def __init__(self, plan: WritePlan, part: str) -> None:
        self.count = 0
        self._batch_count = 0
        self._plan = plan
        self._part = part
        self._seen: set[bytes] = set()

    def cells(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Batches of cells, each of whole rows."""
        plan = self._plan

        def as_cells(rows: pa.RecordBatch) -> pa.RecordBatch:
            return plan.form.cells(rows, plan.timestamp_of(self._batch_count))

        for made in cut_batches(self._counted(batches), as_cells, plan.form.mapping, plan.options.batch_bytes):
            self._check_families(made)
            # Before the next one is made: it has a timestamp of its own.
            self._batch_count += 1
            yield made.cells

    def _counted(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            if self._plan.options.duplicates == "fail":
                self._check_duplicates(batch)
            self.count += batch.num_rows
            yield batch

    def _check_families(self, made: CellBatch) -> None:
        """Those of a mapping were checked by the driver; those of maps are in the data."""
        if self._plan.form.mapping is not None:
            return
        there = self._plan.families
        found = cast(list[bytes], made.cells.column("family").unique().to_pylist())  # never null
        for family in found:
            if family not in there:
                raise MappingError(
                    f"a map in rows {made.rows.start} to {made.rows.stop - 1} has a column of the family {family!r}, "
                    f"and the table {self._plan.options.table!r} has {', '.join(map(repr, sorted(there)))}",
                    family=family,
                )

    def _check_duplicates(self, batch: pa.RecordBatch) -> None:
        """Raises MappingError for a key that this task has met before. Holds all of its keys in memory."""
        keys = cast(list[bytes], self._plan.form.keys(batch).to_pylist())  # never null
        for index, key in enumerate(keys):
            if key in self._seen:
                raise MappingError(f"row {self.count + index} has the key {key!r} of a row before it", row=key)
            self._seen.add(key)


def _told(plan: WritePlan, part: str, error: RowlockError, waited_s: float) -> str:
    cause = error.__cause__ if isinstance(error, BulkError) and error.__cause__ is not None else error
    options = plan.options
    if isinstance(cause, UNREACHED):
        what = (
            f"the rowlock server at {options.server} did not take the rows of {part} within {waited_s:g} s "
            f"({cause}); see that it runs, and run the job again"
        )
    elif isinstance(cause, MappingError):
        what = f"a row of {part} can't be written: {cause}"
    else:
        what = f"the rows of {part} were not all written into the table {options.table!r}: {cause}"
    return f"{what}. What the job had written stays; running it again writes the same rows anew"
