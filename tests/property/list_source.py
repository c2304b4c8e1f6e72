"""A source of cells in a list, for tests of reads: it only sorts, and shares no rule with the code under test."""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
from rowlock_regionserver.arrow.columns import binary_array, cells_table, empty_cells
from rowlock_regionserver.arrow.line_values import fixed_size, is_present, spread_values
from rowlock_regionserver.arrow.lines import Lines, compact_numbers
from rowlock_regionserver.cells import DELETE_FAMILY, NEWEST, PUT, TIMESTAMP_MAX, Cell
from rowlock_regionserver.few_rows import FewRows, LineFacts, LineValues
from rowlock_regionserver.found_cells import NO_LIMIT, AwayValue, FoundCell, LongRowError
from rowlock_regionserver.row_groups import NO_ROW_GROUPS, RowGroups
from rowlock_regionserver.sources import Chunk, FewWanted, LinesWanted, Reading


@dataclass(frozen=True, slots=True)
class Write:
    """One cell as written."""

    row: bytes
    family: bytes
    qualifier: bytes
    timestamp: int
    write_number: int
    kind: int
    value: bytes

    def cell(self) -> Cell:
        return (self.qualifier, -self.timestamp, -self.write_number, self.kind, self.value)


class ListSource:
    """A source with its cells in a dictionary; `bytes_max` counts cells, so that windows of few cells can be requested.

    With `in_chunks` the tables have chunks of two cells, which may part a row; `is_eager` frontiers stand right behind
    the last row given, others at the next row that there is. Values longer than `away_from` bytes are away. However
    much is asked for, no more than `cells_at_once` are given. What is read is counted; `asked` has the sizes. With
    `has_lines` it gives lines to those who take them.
    """

    def __init__(
        self,
        writes: Sequence[Write],
        *,
        in_chunks: bool = False,
        is_eager: bool = False,
        away_from: int = 1 << 30,
        cells_at_once: int = 1 << 30,
        has_lines: bool = False,
    ) -> None:
        assert not has_lines or all(write.kind == PUT for write in writes), "lines are puts"
        self._has_lines = has_lines
        self._in_chunks = in_chunks
        self._is_eager = is_eager
        self.away_from = away_from
        self._cells_at_once = cells_at_once
        self._rows: dict[bytes, list[Cell]] = {}
        for write in writes:
            self._rows.setdefault(write.row, []).append(write.cell())
        self._rows = {row: sorted(cells) for row, cells in sorted(self._rows.items())}
        self._numbers = [write.write_number for write in writes]
        self.cells_read = 0
        self.values_loaded = 0
        self.asked: list[int] = []

    @property
    def write_number_min(self) -> int:
        return min(self._numbers, default=NEWEST)

    @property
    def write_number_max(self) -> int:
        return max(self._numbers, default=0)

    def row_cells(self, row: bytes, cells_max: int = NO_LIMIT) -> Sequence[FoundCell]:
        cells = self._rows.get(row, [])
        if len(cells) > cells_max:
            raise LongRowError
        return [(*cell[:4], self._away(cell[4])) for cell in cells]

    def columns_cells(self, row: bytes, qualifiers: Sequence[bytes], cells_max: int = NO_LIMIT) -> Sequence[FoundCell]:
        wanted = [cell for cell in self.row_cells(row) if cell[0] in qualifiers or cell[3] == DELETE_FAMILY]
        if len(wanted) > cells_max:
            raise LongRowError
        return wanted

    @property
    def has_tombstones(self) -> bool:
        return any(cell[3] != PUT for cells in self._rows.values() for cell in cells)

    @property
    def line_timestamp_min(self) -> int | None:
        if not self._has_lines:
            return None
        return min((-cell[1] for cells in self._rows.values() for cell in cells), default=TIMESTAMP_MAX)

    @property
    def timestamp_max(self) -> int:
        return max((-cell[1] for cells in self._rows.values() for cell in cells), default=0)

    @property
    def row_groups(self) -> RowGroups:
        """Groups that begin where rows say, so that those of sources with the same rows are equal."""
        if not self._has_lines or not self._rows:
            return NO_ROW_GROUPS
        groups: list[list[bytes]] = []
        for row in self._rows:
            if not groups or zlib.crc32(row) % 3 == 0:
                groups.append([])
            groups[-1].append(row)
        digests = [hashlib.sha256(repr(rows).encode()).digest() for rows in groups]
        cells = [cell for of_row in self._rows.values() for cell in of_row]
        complete = [
            frozenset.intersection(*[frozenset([cell[0] for cell in self._rows[row]]) for row in rows])
            for rows in groups
        ]
        timestamp_max = max(-cell[1] for cell in cells)
        return RowGroups([rows[0] for rows in groups], digests, complete, list(self._rows)[-1], 1, timestamp_max)

    def row_cell_count(self, row: bytes) -> int:
        return len(self._rows.get(row, []))

    def row_source(self, row: bytes) -> ListSource:
        return self

    def _away(self, value: bytes) -> bytes | AwayValue:
        def load() -> bytes:
            self.values_loaded += 1
            return value

        return AwayValue(len(value), load) if len(value) > self.away_from else value

    def _rows_of(self, start: bytes, stop: bytes) -> list[bytes]:
        return [row for row in self._rows if row >= start and (not stop or row < stop)]

    def empty_until(self, start: bytes, stop: bytes, *, reverse: bool = False) -> bytes | None:
        rows = self._rows_of(start, stop)
        if not rows:
            return None
        if self._is_eager:  # It knows no more than that there are some.
            return stop or rows[-1] + b"\x00" if reverse else start
        return rows[-1] + b"\x00" if reverse else rows[0]

    def read_rows(
        self,
        start: bytes,
        stop: bytes,
        bytes_max: int,
        row_bytes_max: int = NO_LIMIT,
        *,
        reverse: bool = False,
        lines: LinesWanted | None = None,
        reading: Reading = Reading.BULK,
    ) -> Chunk:
        self.asked.append(bytes_max)
        rows = self._rows_of(start, stop)
        taken: list[bytes] = []
        count = 0
        wide_row = None
        for row in reversed(rows) if reverse else rows:
            if taken and count >= min(bytes_max, self._cells_at_once):
                break
            if len(self._rows[row]) > row_bytes_max:
                wide_row = row
                break
            taken.append(row)
            count += len(self._rows[row])
        self.cells_read += count
        frontier = None
        if wide_row is not None:
            frontier = wide_row + b"\x00" if reverse else wide_row
        elif len(taken) < len(rows):
            if reverse:
                frontier = taken[-1]
            else:
                frontier = taken[-1] + b"\x00" if self._is_eager else rows[len(taken)]
        cells_by_row = [self._rows[row] for row in sorted(taken)]
        chunk = self._chunk(sorted(taken), cells_by_row, frontier, wide_row)
        if lines is None or not self._has_lines or not taken:
            return chunk
        formed = lines_from(sorted(taken), cells_by_row)
        formed.check()
        if lines.columns is not None:
            formed = marked(formed, lines.columns) if lines.marks_others else formed.select(lines.columns)
        return replace(chunk, table=empty_cells(), lines=formed, away=())

    def few_rows(self, start: bytes, stop: bytes, wanted: FewWanted) -> FewRows | None:
        """Like read_rows: the bytes wanted count cells. None if a value is away."""
        rows = self._rows_of(start, stop)
        taken: list[bytes] = []
        for row in rows:
            if len(taken) == wanted.rows_max:
                break
            if taken and self._cells_of(taken) >= min(wanted.bytes_max, self._cells_at_once):
                break
            taken.append(row)
        cells: list[Sequence[FoundCell]] = [self._rows[row] for row in taken]
        if any(len(cell[4]) > self.away_from for of_row in cells for cell in of_row):
            return None
        self.cells_read += self._cells_of(taken)
        frontier = None
        if len(taken) < len(rows):
            frontier = taken[-1] + b"\x00" if self._is_eager else rows[len(taken)]
        few = FewRows(taken, frontier, cells.__getitem__)
        has_versions = any(len({cell[0] for cell in of_row}) < len(of_row) for of_row in cells)
        if not self._has_lines or not taken or has_versions:
            return few
        numbers = [(-cell[2], -cell[1]) for of_row in cells for cell in of_row]
        facts = LineFacts(max(number for number, _ in numbers), min(timestamp for _, timestamp in numbers))
        return replace(few, lines_of=lambda count: self._line_values(taken[:count], wanted), facts=facts)

    def _cells_of(self, rows: Sequence[bytes]) -> int:
        return sum(len(self._rows[row]) for row in rows)

    def _line_values(self, rows: Sequence[bytes], wanted: FewWanted) -> LineValues:
        columns = wanted.columns
        cells = [[cell for cell in self._rows[row] if columns is None or cell[0] in columns] for row in rows]
        qualifiers = sorted({cell[0] for of_row in cells for cell in of_row})
        values = [{cell[0]: cell[4] for cell in of_row} for of_row in cells]
        of_rows = [tuple(of_row.get(qualifier) for qualifier in qualifiers) for of_row in values]
        return LineValues(tuple(qualifiers), of_rows, any(None in of_row for of_row in of_rows))

    def row_parts(self, row: bytes, bytes_max: int, start: bytes = b"", stop: bytes = b"") -> Iterator[Chunk]:
        cells = [cell for cell in self._rows.get(row, []) if cell[0] >= start and (not stop or cell[0] < stop)]
        for first in range(0, len(cells), max(1, bytes_max)):
            part = cells[first : first + max(1, bytes_max)]
            self.cells_read += len(part)
            yield self._chunk([row], [part], None, None)

    def _chunk(
        self, rows: list[bytes], cells_by_row: list[list[Cell]], frontier: bytes | None, wide_row: bytes | None
    ) -> Chunk:
        cells = [cell for cells in cells_by_row for cell in cells]
        values = [self._away(cell[4]) for cell in cells]
        away = tuple((place, value) for place, value in enumerate(values) if isinstance(value, AwayValue))
        far = {place for place, _ in away}
        columns = [(row, cell[0]) for row, of_row in zip(rows, cells_by_row, strict=True) for cell in of_row]
        given = iter([(*cell[:4], b"") if place in far else cell for place, cell in enumerate(cells)])
        table = cells_table(rows, [[next(given) for _ in of_row] for of_row in cells_by_row])
        if self._in_chunks and rows:
            table = pa.concat_tables([table.slice(start, 2) for start in range(0, table.num_rows, 2)])
        return Chunk(
            table,
            frontier,
            has_tombstones=any(cell[3] != PUT for cell in cells),
            has_versions=len(set(columns)) < len(columns),
            write_number_max=max((-cell[2] for cell in cells), default=0),
            timestamp_min=min((-cell[1] for cell in cells), default=TIMESTAMP_MAX),
            away=away,
            wide_row=wide_row,
            bytes_held=table.nbytes,
        )


def marked(lines: Lines, columns: frozenset[bytes]) -> Lines:
    """Returns the lines with empty values in all other columns."""
    kept = [
        column if qualifier in columns else fixed_size(0, len(lines), is_present(column), pa.py_buffer(b""))
        for qualifier, column in zip(lines.qualifiers, lines.columns, strict=True)
    ]
    return replace(lines, values=tuple(kept))


def lines_from(rows: Sequence[bytes], cells_by_row: Sequence[Sequence[Cell]]) -> Lines:
    """Returns puts as lines: one a row, or one for each timestamp and write number if some row has versions."""
    has_versions = any(len({cell[0] for cell in cells}) < len(cells) for cells in cells_by_row)
    keys = sorted(
        {
            (row, cell[1], cell[2]) if has_versions else (row, 0, 0)
            for row, cells in zip(rows, cells_by_row, strict=True)
            for cell in cells
        }
    )
    qualifiers = sorted({cell[0] for cells in cells_by_row for cell in cells})
    found: dict[tuple[bytes, bytes, int, int], Cell] = {
        (cell[0], row, *(cell[1:3] if has_versions else (0, 0))): cell
        for row, cells in zip(rows, cells_by_row, strict=True)
        for cell in cells
    }
    columns = []
    numbers = np.zeros((2, len(qualifiers), len(keys)), np.int64)
    for place, qualifier in enumerate(qualifiers):
        cells = [found.get((qualifier, *key)) for key in keys]
        lines = [line for line, cell in enumerate(cells) if cell is not None]
        values = [cell[4] for cell in cells if cell is not None]
        columns.append(spread_values(binary_array(values), np.array(lines, np.int64), len(keys)))
        for line in lines:
            numbers[:, place, line] = [-each for each in (cells[line] or ())[1:3]]
    present = np.stack([is_present(column) for column in columns])
    timestamps, write_numbers = (compact_numbers(each, present) for each in numbers)
    return Lines(binary_array([key[0] for key in keys]), timestamps, write_numbers, tuple(qualifiers), tuple(columns))
