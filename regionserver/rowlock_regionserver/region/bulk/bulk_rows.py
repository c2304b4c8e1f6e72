"""Arranges a bulk batch of rows: checks it, sorts it by row, and splits it into lines and cells by family.

Most rows become lines, whose columns are those of the message, uncopied. The following become cells, and are handled
like a batch of cells (bulk_cells.py), so the result is the same:

- rows that occur several times: they collapse cell by cell, the later first, nulls aside;
- deletes, which nulls are if `nulls_delete` is set; the row's values stay a line;
- large rows, sparse columns, and families with very many columns, see arrow/line_forming.py.

Otherwise a null means no cell, and a row without a cell writes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rowlock_regionserver.arrow.columns import (
    Column,
    Mask,
    binary_array,
    equals_previous,
    integer_array,
    offsets,
)
from rowlock_regionserver.arrow.line_forming import COLUMNS_MAX, ROW_CELL_BYTES_MAX, SPARSE_LINES
from rowlock_regionserver.arrow.line_values import (
    as_binary,
    cell_bytes,
    is_present,
    may_be_fixed_size,
    spread_values,
    value_lengths,
    with_few_bytes_of_nulls,
)
from rowlock_regionserver.cells import CELL_BYTES_BESIDE, Family
from rowlock_regionserver.config import Config
from rowlock_regionserver.errors import LimitExceededError
from rowlock_regionserver.region.bulk.arranged import ArrangedBatch, FamilyPart
from rowlock_regionserver.region.bulk.bulk_cells import ascends, check_timestamps, in_order
from rowlock_regionserver.region.bulk.check_rows import check_rows
from rowlock_regionserver.region.bulk.family_lines import FamilyLines
from rowlock_regionserver.region.bulk.row_batch import RowBatch
from rowlock_regionserver.table import Table


def arrange_rows(
    batch: RowBatch,
    table: Table,
    config: Config,
    timestamp_max: int,
    stamp_at_least: int,
    between: Callable[[], None] = lambda: None,
) -> ArrangedBatch:
    """Arranges a batch that was validated as Arrow; see bulk_cells.arrange for the arguments and the errors."""
    check_rows(batch, table, config)
    check_timestamps(batch.timestamps, config, timestamp_max)
    between()
    batch, same_as_previous = _sorted(batch, between)
    repeated = same_as_previous.copy()
    repeated[:-1] |= same_as_previous[1:]
    has_cell = np.zeros(len(batch), np.bool_)
    ahead: list[int] = []
    parts: dict[int, FamilyPart] = {}
    for family, of_family in _by_family(batch, table):
        split = _Split.of(of_family, repeated)
        between()
        lines = split.lines(between)
        between()
        cells = split.cells(config.request_bytes_max)
        if lines is not None or cells is not None:
            arranged = None if cells is None else in_order(cells, stamp_at_least, ahead, between)
            parts[family.number] = FamilyPart(lines, arranged)
        has_cell |= split.has_cell
    present = np.flatnonzero(has_cell)
    return ArrangedBatch(
        parts=parts,
        row_count=int(np.logical_or.reduceat(has_cell, np.flatnonzero(~same_as_previous)).sum()),
        first_row=batch.rows[int(present[0])].as_py() if len(present) else b"",
        last_row=batch.rows[int(present[-1])].as_py() if len(present) else b"",
        is_stamped=bool((has_cell & ~is_present(batch.timestamps)).any()),
        stamp_at_least=stamp_at_least,
        timestamp_ahead=min(ahead, default=None),
    )


def _sorted(batch: RowBatch, between: Callable[[], None]) -> tuple[RowBatch, Mask]:
    """Returns the batch by row, rows of one key in their order, and which rows have the key of the previous one."""
    same = equals_previous(batch.rows)
    if ascends(batch.rows, same):
        return batch, same
    # Not pc.sort_indices of a table, which is slower; both are stable.
    places = pc.call_function("array_sort_indices", [batch.rows])
    between()
    batch = batch.take(places, between)
    return batch, equals_previous(batch.rows)


def _by_family(batch: RowBatch, table: Table) -> Iterator[tuple[Family, RowBatch]]:
    """Yields each family with its columns, ascending."""
    for name in sorted({family for family, _ in batch.names}):
        yield (
            table.by_name[name],
            batch.select(
                sorted(
                    [place for place, (family, _) in enumerate(batch.names) if family == name],
                    key=lambda place: batch.names[place],
                )
            ),
        )


class _Split:
    """One family's columns of a batch that is sorted by row: which values become lines, and which cells."""

    def __init__(self, batch: RowBatch, present: list[Mask | None], in_line: list[bool], by_cells: Mask) -> None:
        self._batch = batch
        self._present = present  # by column; None: everywhere
        self._in_line = in_line  # by column
        self._by_cells = by_cells  # the rows all of whose values become cells
        self._line_rows = self._rows_with_line()
        self.has_cell = self._line_rows | self._rows_with_cells()

    @classmethod
    def of(cls, batch: RowBatch, repeated: Mask) -> _Split:
        present = [is_present(column) if column.null_count else None for column in batch.columns]
        counts = np.array([len(column) - column.null_count for column in batch.columns])
        in_line = (counts > 0) & (counts * SPARSE_LINES >= counts.max())
        if in_line.sum() > COLUMNS_MAX:
            in_line[:] = False
        return cls(batch, present, in_line.tolist(), repeated | _large_rows(batch))

    def _rows_with_line(self) -> Mask:
        of_lines = [present for present, in_line in zip(self._present, self._in_line, strict=True) if in_line]
        return _any(of_lines, len(self._batch)) & ~self._by_cells

    def _rows_with_cells(self) -> Mask:
        if self._batch.nulls_delete:
            return np.ones(len(self._batch), np.bool_)
        of_cells = [present for present, in_line in zip(self._present, self._in_line, strict=True) if not in_line]
        return _any(of_cells, len(self._batch)) | (self._by_cells & _any(self._present, len(self._batch)))

    def lines(self, between: Callable[[], None]) -> FamilyLines | None:
        """Returns the lines, uncopied if all rows are lines; None without one. Calls `between` after each column."""
        if not self._line_rows.any():
            return None
        columns = [place for place, in_line in enumerate(self._in_line) if in_line]
        batch = self._batch.select(columns)
        if not self._line_rows.all():
            batch = batch.take(integer_array(np.flatnonzero(self._line_rows), pa.int64()), between)
            batch = batch.select([at for at, column in enumerate(batch.columns) if column.null_count < len(column)])
        compacted: list[Column] = []
        for column in batch.columns:
            compacted.append(_compact(column))
            between()
        return FamilyLines(
            batch.rows,
            None if batch.timestamps.null_count == len(batch) else batch.timestamps,
            tuple([qualifier for _, qualifier in batch.names]),
            tuple(compacted),
        )

    def cells(self, bytes_max: int) -> pa.Table | None:
        """Returns (row, qualifier, timestamp, value nullable) of what is not in lines; None if there is nothing.

        Each cell repeats its row's key, so a few bytes of a batch may be very many as cells. Raises LimitExceededError
        if they are more than `bytes_max`, before they are made.
        """
        masks = [self._becomes_cell(place) for place in range(len(self._batch.columns))]
        counts = [int(np.count_nonzero(mask)) for mask in masks]
        if not any(counts):
            return None
        self._check_size(masks, bytes_max)
        rows_of_columns = [np.flatnonzero(mask) for mask in masks]
        rows = np.concatenate(rows_of_columns)
        codes = np.repeat(np.arange(len(counts)), counts)
        # By row and column: in store order, unless rows repeat.
        order = np.lexsort((codes, rows))
        of_rows = integer_array(rows[order], pa.int64())
        values = [
            as_binary(column.take(integer_array(of_column, pa.int64())))
            for column, of_column in zip(self._batch.columns, rows_of_columns, strict=True)
        ]
        names = binary_array([qualifier for _, qualifier in self._batch.names])
        return pa.Table.from_arrays(
            [
                self._batch.rows.take(of_rows),
                names.take(integer_array(codes[order], pa.int64())),
                self._batch.timestamps.take(of_rows),
                pa.concat_arrays(values).take(integer_array(order, pa.int64())),
            ],
            names=["row", "qualifier", "timestamp", "value"],
        )

    def _becomes_cell(self, place: int) -> Mask:
        """Returns in which rows the column's value, or its delete, becomes a cell."""
        count = len(self._batch)
        present = self._present[place]
        becomes_cell = self._by_cells if self._in_line[place] else np.ones(count, np.bool_)
        if present is None:
            return becomes_cell
        return becomes_cell | ~present if self._batch.nulls_delete else becomes_cell & present

    def _check_size(self, masks: list[Mask], bytes_max: int) -> None:
        row_bytes = np.diff(offsets(self._batch.rows))
        byte_count = 0
        for (_, qualifier), column, mask in zip(self._batch.names, self._batch.columns, masks, strict=True):
            beside = (len(qualifier) + CELL_BYTES_BESIDE) * np.count_nonzero(mask)
            byte_count += int(beside + row_bytes[mask].sum() + value_lengths(column)[mask].sum())
        if byte_count > bytes_max:
            raise LimitExceededError(
                f"the bulk batch's deletes and repeated rows have {byte_count} bytes as cells, more than "
                f"request_bytes_max = {bytes_max}; send smaller batches",
                limit="request_bytes_max",
                limit_value=bytes_max,
                found=byte_count,
            )


def _any(present: list[Mask | None], count: int) -> Mask:
    """Returns where at least one of the columns has a value."""
    if any(mask is None for mask in present):
        return np.ones(count, np.bool_)
    found = np.zeros(count, np.bool_)
    for mask in present:
        if mask is not None:
            found |= mask
    return found


def _large_rows(batch: RowBatch) -> Mask:
    """Returns which rows are too large for a line."""
    qualifiers = [qualifier for _, qualifier in batch.names]
    beside = sum(map(len, qualifiers)) + (_length_max(batch.rows) + CELL_BYTES_BESIDE) * len(qualifiers)
    if beside + sum(map(_length_max, batch.columns)) <= ROW_CELL_BYTES_MAX:
        return np.zeros(len(batch), np.bool_)
    large: Mask = cell_bytes(batch.rows, qualifiers, batch.columns) > ROW_CELL_BYTES_MAX
    return large


def _length_max(column: Column) -> int:
    """Returns a bound of the lengths of the column's values."""
    if pa.types.is_fixed_size_binary(column.type):
        return int(column.type.byte_width)
    return int(np.diff(offsets(column)).max())


def _compact(column: Column) -> Column:
    """Returns the column as fixed-size binary if all values have one length, unless nulls would take too much."""
    if pa.types.is_fixed_size_binary(column.type):
        return with_few_bytes_of_nulls(column)
    count = len(column) - column.null_count
    lengths = np.diff(offsets(column))
    if not column.null_count:
        return spread_values(column, np.arange(count), count) if (lengths == lengths[0]).all() else column
    present = is_present(column)
    of_values = lengths[present]
    width = int(of_values[0])
    if not width or (of_values != width).any() or not may_be_fixed_size(width, count, len(column)):
        return column
    return spread_values(column.drop_null(), np.flatnonzero(present), len(column))
