"""The read path: rows and ranges at one read point.

Order matters: a reader first takes and registers the read point in one step, then takes the view. Code that drops cells
asks for the registered read points first, so the view has every cell that this reader may see.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import cast

from rowlock_proto.shown_names import name_text

from rowlock_regionserver.cells import Compression, Family, ReadPoint
from rowlock_regionserver.config import KIB
from rowlock_regionserver.errors import FamilyNotFoundError
from rowlock_regionserver.found_cells import AWAY_BYTES_MIN, FoundAnswer, LongRowError, loaded
from rowlock_regionserver.memstore.memstore import Segment
from rowlock_regionserver.operations import AnswerCell, ScanPlan, Selection
from rowlock_regionserver.region.check import check_answer, check_in_region, check_row, unknown_family
from rowlock_regionserver.region.region_parts import RegionParts
from rowlock_regionserver.region.stores import INLINE_CELLS_MAX, Lookups, RowView, Served, View, view_in_memory
from rowlock_regionserver.row_ranges import EVERYTHING
from rowlock_regionserver.scan.filters import required_columns
from rowlock_regionserver.scan.point import read_line, read_row
from rowlock_regionserver.scan.ranges import RowsAt, joined
from rowlock_regionserver.scan.row_answers import point_answer
from rowlock_regionserver.scan.row_form import check_row_form
from rowlock_regionserver.scan.scanner import ROW_BYTES_ASSUMED, Scan, scan
from rowlock_regionserver.scan.selection import check_plan, check_selection
from rowlock_regionserver.scan.split_points import Part, RowWeights, parts, scaled
from rowlock_regionserver.scan.wide_rows import RowReading
from rowlock_regionserver.sources import Reading, WouldWaitError
from rowlock_regionserver.storefile.cell_run import CellRun
from rowlock_regionserver.storefile.clipped_run import ClippedRun
from rowlock_regionserver.storefile.reader import Run
from rowlock_regionserver.table import Table

# A row of more cells is read in parts: by vector operations, and only until its answer exceeds the limit.
_LONG_ROW_CELLS = 10_000
# The size of one such part.
_PART_BYTES = 256 * KIB
# How long a get may load the blocks of its rows from the page cache on the event loop; a block takes some 100 µs.
_LOADING_SECONDS_MAX = 0.003


class ReadPath:
    """Reads one region. Thread-safe; takes no lock that a writer holds while the writer waits."""

    def __init__(self, parts: RegionParts) -> None:
        self._region_id = parts.region_id
        self._start, self._stop = parts.start, parts.stop
        self._stores = parts.stores
        self._mvcc = parts.mvcc
        self._config = parts.shared.config
        self._monotonic = parts.shared.clock.monotonic
        self._open_files = parts.shared.open_files
        # What a row of the last scan had; a guess for the next one. Any thread sets it.
        self._row_bytes = ROW_BYTES_ASSUMED

    def get(
        self,
        rows: Sequence[bytes],
        selection: Selection,
        *,
        may_wait: bool,
        reached: Callable[[int], None] = lambda byte_count: None,
    ) -> list[Sequence[AnswerCell]] | None:
        """Returns the cells of each row, in the order of `rows`, all at one read point; an absent row has none.

        Returns None if `may_wait` is False and it would have to read a block from the disk, or more cells than the
        event loop has time for. Raises LimitExceededError if the answer would be larger than a message may be.
        `reached` is called after each row with the bytes of all rows so far, and may raise.
        """
        table = self._stores.served.table
        try:
            check_selection(selection, table.by_name, self._config)
        except FamilyNotFoundError as error:
            raise unknown_family(error.family, table.by_name, table.name) from None
        for row in rows:
            check_row(row, self._config)
            check_in_region(row, self._start, self._stop, self._region_id)
        read_point = self._mvcc.open_read_point()
        try:
            served = self._stores.served
            if served.table is table:
                return self._get(served, rows, selection, read_point, reached, may_wait=may_wait)
        finally:
            self._mvcc.close_read_point(read_point)
        # The table was altered meanwhile: check against its new families.
        return self.get(rows, selection, may_wait=may_wait, reached=reached)

    def _get(
        self,
        served: Served,
        rows: Sequence[bytes],
        selection: Selection,
        read_point: ReadPoint,
        reached: Callable[[int], None],
        *,
        may_wait: bool,
    ) -> list[Sequence[AnswerCell]] | None:
        if may_wait:
            view = served.view
            return self._read([view] * len(rows), rows, selection, read_point, _LONG_ROW_CELLS, reached, view)
        views = self._views_in_memory(served.lookups, rows, selection)
        try:
            return self._read(views, rows, selection, read_point, INLINE_CELLS_MAX, reached, None)
        except (LongRowError, WouldWaitError):
            return None

    def _views_in_memory(self, lookups: Lookups, rows: Sequence[bytes], selection: Selection) -> Iterator[RowView]:
        """Yields what is needed of the view for each row, when the row before has been read. Raises WouldWaitError."""
        families = _families_read(selection)
        seconds_left = _LOADING_SECONDS_MAX if self._stores.has_files else math.inf
        for row in rows:
            if seconds_left < 0:
                raise WouldWaitError
            began = self._monotonic()
            needed = view_in_memory(lookups, row, families)
            if needed is None:
                raise WouldWaitError
            seconds_left -= self._monotonic() - began
            yield needed

    def _read(
        self,
        views: Iterable[RowView],
        rows: Sequence[bytes],
        selection: Selection,
        read_point: ReadPoint,
        cells_max: int,
        reached: Callable[[int], None],
        whole: View | None,
    ) -> list[Sequence[AnswerCell]]:
        """Reads each row in its view, and stops when the answer becomes too large, so that it holds no more than that.

        A row of more cells than `cells_max` is read in parts, in the `whole` view. Without it, raises LongRowError when
        the rows have more than that together.
        """
        answer: list[Sequence[AnswerCell]] = []
        byte_count = 0  # Without lengths and timestamps, so never more than the message will have.
        for view, row in zip(views, rows, strict=True):
            try:
                found, row_bytes = _found(view, row, selection, read_point, cells_max)
            except LongRowError:
                if whole is None:
                    raise
                cells, byte_count = self._read_long(whole, row, selection, read_point, byte_count, rows[0])
            else:
                byte_count += row_bytes
                check_answer(byte_count, rows[0], self._config)
                if whole is None:
                    cells_max -= len(found)
                cells = _with_values(found, row_bytes)
            reached(byte_count)
            answer.append(cells)
        return answer

    def _read_long(
        self,
        view: View,
        row: bytes,
        selection: Selection,
        read_point: ReadPoint,
        byte_count: int,
        first_row: bytes,
    ) -> tuple[Sequence[AnswerCell], int]:
        """Returns the cells of a long row, and the bytes of all rows' cells so far, this row included."""
        cells: list[AnswerCell] = []
        as_of = read_point.write_number
        by_name = sorted(
            ((family.as_of(as_of), sources) for family, sources in view.values()), key=lambda store: store[0].name
        )
        for some in point_answer(RowReading(row, by_name, read_point, selection, _PART_BYTES)):
            byte_count += sum([len(family) + len(qualifier) + len(value) for family, qualifier, _, value in some])
            check_answer(byte_count, first_row, self._config)
            cells += some
        return cells, byte_count

    @contextlib.contextmanager
    def scan(
        self,
        plan: ScanPlan,
        rows_at: Sequence[RowsAt] = (),
        past_table: Table | None = None,
        *,
        is_slice_over: Callable[[], bool] = lambda: False,
        reading: Callable[[], Reading] = lambda: Reading.BULK,
    ) -> Iterator[tuple[int, Scan]]:
        """Returns a context with the read point and the answers of a scan. Leaving it closes the read point. Blocking.

        Reads `rows_at` read points that the caller keeps registered, or else all rows at the current one. The plan's
        family names refer to `past_table`, the table as it was at those read points. `is_slice_over` is called after
        each window; when it returns True, the scan yields an answer at once. `reading` says how blocks are read; see
        scanner.scan. While it says AT_ONCE, neither entering the context nor leaving it blocks.
        Each window takes the current view, so a long scan moves from a flushed segment to its file. The families that
        the plan names must exist to the end: if one is dropped, the scan ends with FamilyNotFoundError.
        """
        try:
            with (
                self._stores.pinned(),
                contextlib.nullcontext(rows_at[-1].read_point) if rows_at else self._mvcc.reading() as at,
            ):
                table = self._checked_table(plan)
                numbers = {name: table.number_by_name[name] for name in _families_named(plan)}
                _check_same_families(numbers, table if past_table is None else past_table)
                answers = scan(
                    lambda: self._sources_of(numbers),
                    plan,
                    rows_at or (RowsAt((self._start, self._stop), at),),
                    window_bytes=self._config.scan_window_bytes,
                    merge_bytes_max=self._config.merge_window_bytes_max,
                    line_bytes_max=self._config.request_bytes_max,
                    is_slice_over=is_slice_over,
                    reading=reading,
                    row_bytes=self._row_bytes,
                )
                with contextlib.closing(answers):
                    yield at.write_number, answers
                self._row_bytes = answers.row_bytes
        finally:
            # Closes or removes the files whose last reader was this scan. On the loop it leaves that to others.
            if reading() is not Reading.AT_ONCE:
                self._open_files.close_released()

    def _sources_of(self, numbers: Mapping[bytes, int]) -> Sequence[tuple[Family, Sequence[Segment | Run]]]:
        """Returns the current sources. Raises FamilyNotFoundError if one of these families was dropped.

        A new family with the same name does not replace the dropped one.
        """
        table, view, _ = self._stores.served
        for name, number in numbers.items():
            if number not in view:
                raise FamilyNotFoundError(
                    f"column family {name_text(name)} of table {table.name!r} was dropped during a scan that names it; "
                    "the scan did not return all rows",
                    table=table.name,
                    family=name,
                )
        return tuple(view.values())

    def parts(self, plan: ScanPlan, part_bytes: int) -> list[Part]:
        """Returns the parts into which the scan may be split; see split_points.parts. Reads nothing from the disk."""
        table = self._checked_table(plan)
        served = self._stores.served
        if served.table is not table:
            return self.parts(plan, part_bytes)
        families = _families_read(plan.selection)
        weights = [
            _row_weights(family, source)
            for family, sources in served.view.values()
            if families is None or family.name in families
            for source in sources
        ]
        return parts(weights, joined(plan.ranges or (EVERYTHING,), (self._start, self._stop)), part_bytes)

    def _checked_table(self, plan: ScanPlan) -> Table:
        """Returns the current table, after checking the plan against it."""
        table = self._stores.served.table
        try:
            check_plan(plan, table.by_name, self._config)
            if plan.row_form is not None:
                check_row_form(plan.row_form, plan.selection.columns, table.by_name, self._config)
        except FamilyNotFoundError as error:
            raise unknown_family(error.family, table.by_name, table.name) from None
        return table


def _found(
    view: RowView, row: bytes, selection: Selection, read_point: ReadPoint, cells_max: int
) -> tuple[Sequence[FoundAnswer], int]:
    """Returns the row's cells, and the bytes of their names and values. Raises LongRowError if they are too many."""
    line = read_line(view, row, selection, read_point)
    if line is not None:
        if len(line) > cells_max:
            raise LongRowError
        return line, line.byte_count
    found = read_row(view, row, selection, read_point, cells_max)
    return found, sum([len(family) + len(qualifier) + len(value) for family, qualifier, _, value in found])


def _with_values(found: Sequence[FoundAnswer], byte_count: int) -> Sequence[AnswerCell]:
    """Returns the cells with all values loaded. Only large values are not in memory, so a small row is not copied."""
    if byte_count > AWAY_BYTES_MIN:
        return [(family, qualifier, timestamp, loaded(value)) for family, qualifier, timestamp, value in found]
    return cast("Sequence[AnswerCell]", found)  # checking each value's type would cost as much as the copy


def _check_same_families(numbers: Mapping[bytes, int], past_table: Table) -> None:
    """Raises FamilyNotFoundError if one of these names belonged to another family at the snapshot."""
    for name, number in numbers.items():
        if past_table.number_by_name.get(name, number) != number:
            raise FamilyNotFoundError(
                f"column family {name_text(name)} of table {past_table.name!r} was dropped since the snapshot was "
                "made; the current family of that name is a new one, of which the snapshot has no cells",
                table=past_table.name,
                family=name,
            )


def _row_weights(family: Family, source: Segment | Run) -> RowWeights:
    weights = source.row_weights()
    is_compressed = family.compression is not Compression.NONE
    if is_compressed and isinstance(source, CellRun | ClippedRun) and source.cell_block_count > 1:
        # A block has between half of block_bytes and all of it, before compression.
        return scaled(weights, source.cell_block_count * family.block_bytes * 3 // 4)
    return weights


def _families_read(selection: Selection) -> Collection[bytes] | None:
    """Returns the names of the families that are returned or filtered by; None means all."""
    return _families_of(selection) if selection.columns else None


def _families_named(plan: ScanPlan) -> Collection[bytes]:
    """Returns the names of the families that a scan names, to return them or to filter by them."""
    return _families_of(plan.selection).union(column.family for column in plan.row_form or ())


def _families_of(selection: Selection) -> set[bytes]:
    filtered = {family for family, _ in required_columns(selection.where)}
    return filtered.union(column.family for column in selection.columns)
