"""The sources of a read: memstore segments and store files behind one interface.

Point reads take the cells of a row as tuples (found_cells.py); scans take chunks of rows as Arrow tables.

Some sources have rows in wide form (arrow/lines.py). They return lines to a scan that takes them, else cells.

A row may be larger than a reader wants to hold. Such a row is long to a point read (LongRowError) and wide to a scan
(Chunk.wide_row); both then read it in parts.
"""

from __future__ import annotations

import enum
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol

import pyarrow as pa

from rowlock_regionserver.arrow.cell_columns import first_not_below
from rowlock_regionserver.arrow.lines import Lines, cells_of
from rowlock_regionserver.arrow.merge import first_at_or_after, row_at
from rowlock_regionserver.arrow.sorted_run import SortedRun
from rowlock_regionserver.few_rows import FewRows
from rowlock_regionserver.found_cells import NO_LIMIT, AwayValue, FoundCell
from rowlock_regionserver.row_groups import RowGroups

# Lines of a common table take up to this many times their bytes as cells.
CELLS_OF_LINES = 8


class RowPlace(enum.Enum):
    """Where a source has a row's cells, if they are not in memory."""

    NOWHERE = enum.auto()  # it has none, for certain
    DISK = enum.auto()


# Python 3.11 finds a global ten times as fast as a member in its enum, and a get asks each source.
NOWHERE, DISK = RowPlace


class RowSource(Protocol):
    """What a point read needs of a source: the cells of a row."""

    def row_cells(self, row: bytes, cells_max: int = NO_LIMIT) -> Sequence[FoundCell]:
        """All cells of the row, tombstones and old versions too, in store order; empty when there are none.

        Raises LongRowError, early, when there are more than `cells_max`.
        """

    def columns_cells(self, row: bytes, qualifiers: Sequence[bytes], cells_max: int = NO_LIMIT) -> Sequence[FoundCell]:
        """The cells of some columns of the row, which ascend, and the row's family tombstones, which may hide them.

        The cost is that of the result, and little for other cells of the row.
        """


@dataclass(frozen=True, slots=True)
class LinesWanted:
    """Says that a scan takes rows in wide form, and what it needs of them.

    columns: those whose values it needs; None: all.
    marks_others: it needs to know which cells there are of other columns, and their numbers. Their values may be empty.
    compressed: lines may be in stored blocks (arrow/block_lines.py), their values compressed.
    without_rows: then nothing needs the rows, unless lines are merged.
    counts_cells: the lines become cells, here or at the client, so `bytes_max` bounds their bytes as cells.

    Else lines with all columns may have to be merged as cells, of which each repeats its row's key. So as cells they
    take at most CELLS_OF_LINES * `bytes_max`, or are those of one block.

    unread_columns_max: lines with at most so many columns may stay unread until they are answered, if their values are
    stored as they are. Of those the source returns several times `bytes_max`. 0: none may.
    """

    columns: frozenset[bytes] | None = None
    marks_others: bool = False
    compressed: bool = False
    without_rows: bool = False
    counts_cells: bool = False
    unread_columns_max: int = 0

    @property
    def has_every_cell(self) -> bool:
        """Whether the lines have the cells of all columns, perhaps without their values."""
        return self.columns is None or self.marks_others


EVERY_LINE = LinesWanted()


class Reading(enum.Enum):
    """How a scan reads the blocks of store files.

    BULK: past the block cache, neighbours together: a long scan must not evict what others use. The cache gets no more
    than keys and directories, if those of a file are few.
    CACHED: from the cache and into it, as gets do: a scan that will probably end after a few blocks.
    AT_ONCE: the same on the event loop. Raises WouldWaitError if a block has to come from the disk.
    """

    BULK = enum.auto()
    CACHED = enum.auto()
    AT_ONCE = enum.auto()


class FewWanted(NamedTuple):
    """What a short scan needs of a source: at most `rows_max` rows of about `bytes_max`; `reading` is not BULK.

    columns: those that it needs; None: all. Lines are returned without others, and cells may be.
    """

    rows_max: int
    bytes_max: int
    reading: Reading
    columns: Collection[bytes] | None = None


class WouldWaitError(Exception):
    """A read AT_ONCE would wait for a disk or take long. It is repeated by a worker, as if it had not begun."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """Cells of one source in store order: of whole rows, or a part of one row.

    For whole rows `frontier` is their end. Read forwards, every cell of the range with row < `frontier` is in `table`
    or `lines`; read backwards, every cell with row >= `frontier` (the rows still ascend); and no other cell is.
    None: the range is exhausted. The flags may be pessimistic, never optimistic.
    """

    table: pa.Table  # CELL_SCHEMA; empty if the chunk has lines
    frontier: bytes | None
    has_tombstones: bool
    has_versions: bool  # a column of a row may occur more than once, or a row may have several lines
    write_number_max: int
    timestamp_min: int
    # Values that are away, by their places in the table, ascending; the table has an empty value there.
    away: tuple[tuple[int, AwayValue], ...] = ()
    # The row at the frontier, when it is too large to be read whole: the next one, or backwards the one before.
    wide_row: bytes | None = None
    # Memory that only this chunk keeps alive.
    bytes_held: int = 0
    # Every line of the rows. None: the chunk has cells.
    lines: Lines | None = None
    # The lines have only the columns that were wanted, so a line may have no cell here.
    is_narrow: bool = False

    def __len__(self) -> int:
        """The number of cells in the table, or of lines."""
        return int(self.table.num_rows) if self.lines is None else len(self.lines)

    def row(self, place: int) -> bytes:
        """Returns the row of the cell or line at `place`; -1 is the last one."""
        return row_at(self.table, place) if self.lines is None else self.lines.row(place)

    def first_at_or_after(self, row: bytes) -> int:
        """Returns the place of the first cell or line with a row >= `row`; the length if there is none. O(log n)."""
        if self.lines is not None:
            return first_not_below(self.lines.rows, row)
        return first_at_or_after(self.table, row)

    def run(self) -> SortedRun:
        """Returns the cells, those of the lines too."""
        return SortedRun.of_table(self.table if self.lines is None else cells_of(self.lines), self.away)

    def slice(self, start: int, stop: int) -> Chunk:
        """Returns the cells or lines [start, stop) as a chunk."""
        if self.lines is not None:
            return replace(self, lines=self.lines.slice(start, stop))
        table = self.table.slice(start, stop - start)
        away = tuple([(place - start, value) for place, value in self.away if start <= place < stop])
        held = self.bytes_held
        if held and self.table.column(0).num_chunks > 1:  # A slice of one Arrow chunk keeps all its memory alive.
            held = table.get_total_buffer_size()
        return replace(self, table=table, away=away, bytes_held=held)


class Source(RowSource, Protocol):
    """One family's cells, sorted, from one place. Safe to read from many threads."""

    @property
    def write_number_min(self) -> int:
        """Least write number in it; NEWEST when empty."""

    @property
    def write_number_max(self) -> int:
        """Greatest write number in it; 0 when empty."""

    @property
    def has_tombstones(self) -> bool:
        """Whether it has had a tombstone; it may be one that no read can see."""

    @property
    def line_timestamp_min(self) -> int | None:
        """The least timestamp of its lines; None if it returns cells only."""

    @property
    def timestamp_max(self) -> int:
        """The greatest timestamp in it, of a tombstone too; TIMESTAMP_MAX if it is not known."""

    @property
    def row_groups(self) -> RowGroups:
        """The groups of the rows of its lines; NO_ROW_GROUPS if they are not known."""

    def row_cell_count(self, row: bytes) -> int:
        """An estimate, without reading, of the cells that a read of the row takes; 0: few or none."""

    def row_source(self, row: bytes) -> RowSource | RowPlace:
        """What has the row's cells in memory, this source or a part of it; else where they are.

        The result serves for this row only. May load blocks from the page cache, and never waits for a disk.
        """

    def empty_until(self, start: bytes, stop: bytes, *, reverse: bool = False) -> bytes | None:
        """A row before which the range [start, stop) is empty; with `reverse`, a row from which on it is empty.

        None: the whole range is empty. Known without reading, so the row need not exist; `start` excludes nothing.
        """

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
        """Whole rows of [start, stop), the first ones or with `reverse` the last ones; an empty stop means no bound.

        About `bytes_max` of cells or lines, but at least one row unless the range is empty, or unless the first row has
        more than `row_bytes_max`: then the chunk is empty and has it as its `wide_row`. A source that has lines returns
        them if `lines` is given, else it returns their cells.
        """

    def few_rows(self, start: bytes, stop: bytes, wanted: FewWanted) -> FewRows | None:
        """The first whole rows of [start, stop); an empty stop means no bound.

        At least one row unless the range is empty. None: a row is too large, or the source can't; read_rows can. Reads
        blocks by way of the cache.
        """

    def row_parts(self, row: bytes, bytes_max: int, start: bytes = b"", stop: bytes = b"") -> Iterator[Chunk]:
        """All cells of the row with qualifiers of [start, stop), in store order, in parts that may end anywhere.

        A part has at least one cell, and about `bytes_max` at most if it has several. An empty stop means no bound.
        """
