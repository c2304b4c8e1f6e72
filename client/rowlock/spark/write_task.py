"""One task of a write job: encodes its rows and sends them to the server in batches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import cast

import pyarrow as pa
from rowlock_proto.shown_names import name_text, row_text

from rowlock._codec.bulk_rows import BulkData
from rowlock._codec.key_scalars import KeyCodec
from rowlock._core.bulk_input import Piece, cut_batches
from rowlock._core.bulk_parts import Stage
from rowlock._transport.bulk import put_pieces
from rowlock.errors import BulkError, MappingError, RowlockError
from rowlock.spark.connections import client_of, patience_s
from rowlock.spark.write_plan import UNREACHED, WritePlan


class WriteFailedError(RowlockError):
    """A task could not write all of its rows; those that it wrote stay. Or a job could not replace the rows."""


@dataclass(frozen=True, slots=True)
class Written:
    """How many rows and cells a task wrote, and the numbers of the batches that it staged."""

    row_count: int
    cell_count: int
    staged_batches: frozenset[int] = frozenset()


def write_task(plan: WritePlan, batches: Iterable[pa.RecordBatch], part: str) -> Written:
    """Writes all rows, or stages them, and returns when they are durable. `part` is the name of the rows in errors.

    Raises WriteFailedError. An error of the iterator `batches` is raised as it is.
    """
    options = plan.options
    wait_s = patience_s(options.timeout_s)
    rows = _Rows(plan, part)
    try:
        client = client_of(options.server, wait_s)
        table = client.table(options.table, durability=options.durability, timeout=wait_s)
        # Their servers and views are private to the package.
        stage = None if plan.job is None else Stage(plan.job.session)
        result = put_pieces(client._servers, table._view, rows.pieces(batches), options.busy_timeout_s, None, stage)
    except RowlockError as error:
        if isinstance(error, BulkError) and error.__cause__ and not isinstance(error.__cause__, RowlockError):
            raise error.__cause__ from None  # the error of the iterator
        raise WriteFailedError(_failure_message(plan, part, error, wait_s), table=options.table) from None
    return Written(rows.count, result.cell_count, frozenset() if stage is None else frozenset(stage.numbers))


class _Rows:
    """Encodes the rows of one task."""

    def __init__(self, plan: WritePlan, part: str) -> None:
        self.count = 0
        self._batch_count = 0
        self._plan = plan
        self._part = part
        self._seen: set[bytes] = set()

    def pieces(self, batches: Iterable[pa.RecordBatch]) -> Iterator[Piece]:
        """Yields the batches to send, each of complete rows."""
        plan = self._plan

        def encoded(rows: pa.RecordBatch) -> BulkData:
            return plan.form.encoded(rows, plan.timestamp_of(self._batch_count))

        collected = collected_batches(self._counted(batches), plan.sizes.batch)
        for piece in cut_batches(collected, encoded, plan.form.mapping, plan.sizes):
            self._check_families(piece)
            # Before the iterator makes the next batch, which has its own timestamp.
            self._batch_count += 1
            yield piece

    def _counted(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            if self._plan.options.duplicates == "fail":
                self._check_duplicates(batch)
            self.count += batch.num_rows
            yield batch

    def _check_families(self, piece: Piece) -> None:
        """Checks the families of maps, which are in the data. The driver has checked those of a mapping."""
        if self._plan.form.mapping is not None:
            return
        families = self._plan.families
        found = cast(list[bytes], piece.data.batch.column("family").unique().to_pylist())  # never null
        for family in found:
            if family not in families:
                known = ", ".join(map(name_text, sorted(families)))
                raise MappingError(
                    f"a map in rows {piece.rows.start} to {piece.rows.stop - 1} has a column of the family "
                    f"{name_text(family)}; the families of table {self._plan.options.table!r} are {known}",
                    family=family,
                )

    def _check_duplicates(self, batch: pa.RecordBatch) -> None:
        """Raises MappingError for a key that this task has written before. Keeps all of its keys in memory."""
        keys = cast(list[bytes], self._plan.form.keys(batch).to_pylist())  # never null
        for index, key in enumerate(keys):
            if key in self._seen:
                mapping = self._plan.form.mapping
                shown = row_text(key) if mapping is None else KeyCodec(mapping).shown(key)
                raise MappingError(
                    f"row {self.count + index} has the same key {shown} as an earlier row; drop duplicates first, or "
                    "set the option duplicates to last",
                    row=key,
                )
            self._seen.add(key)


def collected_batches(batches: Iterable[pa.RecordBatch], bytes_max: int) -> Iterator[pa.RecordBatch]:
    """Combines consecutive batches as long as they have at most bytes_max together.

    Spark's batches have 10,000 rows, however short these are, and each batch that is sent costs the server a sync.
    """
    collected: list[pa.RecordBatch] = []
    byte_count = 0
    for batch in batches:
        if collected and byte_count + batch.nbytes > bytes_max:
            yield _combined(collected)
            collected, byte_count = [], 0
        if batch.num_rows:
            collected.append(batch)
            byte_count += batch.nbytes
    if collected:
        yield _combined(collected)


def _combined(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    [combined] = pa.Table.from_batches(batches).combine_chunks().to_batches()
    return combined


def _failure_message(plan: WritePlan, part: str, error: RowlockError, waited_s: float) -> str:
    cause = error.__cause__ if isinstance(error, BulkError) and error.__cause__ is not None else error
    options = plan.options
    if isinstance(cause, UNREACHED):
        what = (
            f"the rowlock server at {options.server} did not accept the rows of {part} within {waited_s:g} s "
            f"({cause}); make sure that it runs, and run the job again"
        )
    elif isinstance(cause, MappingError):
        what = f"a row of {part} can't be written: {cause}"
    else:
        what = f"not all rows of {part} were written to table {options.table!r}: {cause}"
    if plan.job is not None:
        return f"{what}. Nothing that the job has staged is seen; if it fails, the table stays as it was"
    return f"{what}. The rows that the job has written stay; running the job again overwrites them"
