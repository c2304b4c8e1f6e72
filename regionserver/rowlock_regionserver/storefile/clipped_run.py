"""A run of a store file of which only the rows [start, stop) count: a Source without the others.

When a region is split, each daughter gets the parent's files, and its manifest says which rows of each file count
(info.py). Until a compaction has rewritten the file, its runs are clipped. Nothing is copied or read for that: each
question about rows is cut to the clip before the run answers it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rowlock_regionserver.arrow.columns import empty_cells
from rowlock_regionserver.cells import TIMESTAMP_MAX
from rowlock_regionserver.few_rows import NO_FEW_ROWS, FewRows
from rowlock_regionserver.found_cells import NO_LIMIT, FoundCell
from rowlock_regionserver.sources import NOWHERE, Chunk, FewWanted, LinesWanted, Reading, RowPlace, RowSource
from rowlock_regionserver.storefile.block_file import StoreFileStatistics
from rowlock_regionserver.storefile.cell_run import CellRun
from rowlock_regionserver.storefile.clip import Clip
from rowlock_regionserver.storefile.row_filter import RowFilter
from rowlock_regionserver.storefile.wide_run import WideRun


class ClippedRun:
    """The rows of a run that are in the clip. Safe to use from many threads.

    Write numbers, timestamps and flags are those of the whole run, so they may be pessimistic.
    """

    def __init__(self, run: CellRun | WideRun, clip: Clip) -> None:
        """The row groups of the run are those of its rows in the clip (Clip.of_groups)."""
        self._run = run
        self._clip = clip
        self.rows = _ClippedFilter(run.rows, clip)
        self.row_groups = run.row_groups
        self.write_number_min = run.write_number_min
        self.write_number_max = run.write_number_max
        self.has_tombstones = run.has_tombstones
        self.line_timestamp_min = run.line_timestamp_min
        self.timestamp_max = run.timestamp_max

    # ---- points

    def row_cells(self, row: bytes, cells_max: int = NO_LIMIT) -> Sequence[FoundCell]:
        """See Source."""
        return self._run.row_cells(row, cells_max) if row in self._clip else ()

    def columns_cells(self, row: bytes, qualifiers: Sequence[bytes], cells_max: int = NO_LIMIT) -> Sequence[FoundCell]:
        """See Source."""
        return self._run.columns_cells(row, qualifiers, cells_max) if row in self._clip else ()

    def row_cell_count(self, row: bytes) -> int:
        """See Source."""
        return self._run.row_cell_count(row) if row in self._clip else 0

    def row_source(self, row: bytes) -> RowSource | RowPlace:
        """See Source."""
        return self._run.row_source(row) if row in self._clip else NOWHERE

    # ---- scans

    def empty_until(self, start: bytes, stop: bytes, *, reverse: bool = False) -> bytes | None:
        """See Source. A bound of the clip, where it is inside a block."""
        within = self._clip.within(start, stop)
        return None if within is None else self._run.empty_until(*within, reverse=reverse)

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
        """See Source. A range that is exhausted in the clip is exhausted: there are no rows outside of it."""
        within = self._clip.within(start, stop)
        if within is None:
            return Chunk(empty_cells(), None, False, False, 0, TIMESTAMP_MAX)
        return self._run.read_rows(*within, bytes_max, row_bytes_max, reverse=reverse, lines=lines, reading=reading)

    def few_rows(self, start: bytes, stop: bytes, wanted: FewWanted) -> FewRows | None:
        """See Source."""
        within = self._clip.within(start, stop)
        return NO_FEW_ROWS if within is None else self._run.few_rows(*within, wanted)

    def row_parts(self, row: bytes, bytes_max: int, start: bytes = b"", stop: bytes = b"") -> Iterator[Chunk]:
        """See Source."""
        return self._run.row_parts(row, bytes_max, start, stop) if row in self._clip else iter(())

    # ---- what else readers ask of a run

    @property
    def cell_block_count(self) -> int:
        """The number of cell blocks that may have rows of the clip."""
        return self._run.cell_blocks_of_range(*self._clip) if isinstance(self._run, CellRun) else 0

    def statistics(self) -> StoreFileStatistics:
        """Returns what was read from the disk since the file was opened, of all its runs."""
        return self._run.statistics()

    def row_weights(self) -> list[tuple[bytes, int]]:
        """Returns the weights of the run in the clip; those of the blocks at its bounds are not divided."""
        return self._clip.of_weights(self._run.row_weights())


class _ClippedFilter:
    """Says which rows a clipped run may have."""

    def __init__(self, rows: RowFilter, clip: Clip) -> None:
        self._rows = rows
        self._clip = clip

    def may_hold(self, row: bytes) -> bool:
        """See RowFilter."""
        return row in self._clip and self._rows.may_hold(row)
