"""The read path: rows and ranges at one read point.

Order matters: first the read point, registered in the same step; then the view. Whoever drops cells asks for the
registered read points, so what this reader may see is in the view that it takes afterwards.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import cast

from rowlock_regionserver.cells import Compression, Family, ReadPoint
from rowlock_regionserver.config import KIB
from rowlock_regionserver.errors import FamilyNotFoundError
from rowlock_regionserver.memstore.memstore import Segment
from rowlock_regionserver.operations import AnswerCell, ScanPlan, Selection
from rowlock_regionserver.region.mutate.check import check_answer, check_in_region, check_row, unknown_family
from rowlock_regionserver.region.region_parts import RegionParts
from rowlock_regionserver.region.stores import INLINE_CELLS_MAX, View, is_row_in_memory
from rowlock_regionserver.scan.filters import required_columns
from rowlock_regionserver.scan.point import read_row
from rowlock_regionserver.scan.ranges import EVERYTHING, joined
from rowlock_regionserver.scan.row_answers import point_answer
from rowlock_regionserver.scan.row_form import check_row_form
from rowlock_regionserver.scan.scanner import Scan, scan
from rowlock_regionserver.scan.selection import check_plan, check_selection
from rowlock_regionserver.scan.split_points import Part, RowWeights, parts, scaled
from rowlock_regionserver.scan.wide_rows import RowReading
from rowlock_regionserver.sources import AWAY_BYTES_MIN, FoundAnswer, LongRowError, loaded
from rowlock_regionserver.storefile.reader import StoreFile
from rowlock_regionserver.table import Table

# A row of more cells is read in parts: by vector operations, and no further than its answer may be large.
_LONG_ROW_CELLS = 10_000
# What such a row is read by at once.
_PART_BYTES = 256 * KIB


class ReadPath:
    """Reads one region. Thread-safe; takes no lock that a writer holds while it waits for anything."""

    def __init__(self, parts: RegionParts) -> None:
        self._region_id = parts.region_id
        self._start, self._stop = parts.start, parts.stop
        self._stores = parts.stores
        self._mvcc = parts.mvcc
        self._config = parts.shared.config
        self._open_files = parts.shared.open_files

    def get(
        self,
        rows: Sequence[bytes],
        selection: Selection,
        *,
        may_wait: bool,
        reached: Callable[[int], None] = lambda byte_count: None,
    ) -> list[Sequence[AnswerCell]] | None:
        """The cells of each row, in the order asked, all at one read point; an absent row has none.

        None: a block would have to be read from the disk, or more cells than the event loop has time for, and
        `may_wait` is False. Raises LimitExceededError when the answer would be larger than a message may be. `reached`
        is called after each row with the bytes of all rows so far, and may raise.
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
                return self._get(served.view, rows, selection, read_point, reached, may_wait=may_wait)
        finally:
            self._mvcc.close_read_point(read_point)
        # Altered just now: judge by the families that there are.
        return self.get(rows, selection, may_wait=may_wait, reached=reached)

    def _get(
        self,
        view: View,
        rows: Sequence[bytes],
        selection: Selection,
        read_point: ReadPoint,
        reached: Callable[[int], None],
        *,
        may_wait: bool,
    ) -> list[Sequence[AnswerCell]] | None:
        if may_wait:
            return self._read(view, rows, selection, read_point, _LONG_ROW_CELLS, reached)
        if self._stores.has_files:
            families = _families_read(selection)
            if not all(is_row_in_memory(view, row, families) for row in rows):
                return None
        try:
            return self._read(view, rows, selection, read_point, INLINE_CELLS_MAX, reached, is_inline=True)
        except LongRowError:
            return None

    def _read(
        self,
        view: View,
        rows: Sequence[bytes],
        selection: Selection,
        read_point: ReadPoint,
        cells_max: int,
        reached: Callable[[int], None],
        *,
        is_inline: bool = False,
    ) -> list[Sequence[AnswerCell]]:
        """Stops where the answer becomes too large: what was read until then is all that is held.

        Raises LongRowError when a row has more than `cells_max`, or all together, and it `is_inline`.
        """
        answer: list[Sequence[AnswerCell]] = []
        byte_count = 0  # Without lengths and timestamps, so never more than the message will have.
        for row in rows:
            try:
                found = read_row(view, row, selection, read_point, cells_max)
            except LongRowError:
                if is_inline:
                    raise
                cells, byte_count = self._read_long(view, row, selection, read_point, byte_count, rows[0])
            else:
                row_bytes = sum([len(family) + len(qualifier) + len(value) for family, qualifier, _, value in found])
                byte_count += row_bytes
                check_answer(byte_count, rows[0], self._config)
                if is_inline:
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
    ) -> tuple[list[AnswerCell], int]:
        """The cells of a long row, and what all rows' cells take up to it."""
        cells: list[AnswerCell] = []
        by_name = sorted(view.values(), key=lambda store: store[0].name)
        for some in point_answer(RowReading(row, by_name, read_point, selection, _PART_BYTES)):
            byte_count += sum([len(family) + len(qualifier) + len(value) for family, qualifier, _, value in some])
            check_answer(byte_count, first_row, self._config)
            cells += some
        return cells, byte_count

    @contextlib.contextmanager
    def scan(
        self,
        plan: ScanPlan,
        read_point: ReadPoint | None = None,
        table_then: Table | None = None,
        *,
        is_slice_over: Callable[[], bool] = lambda: False,
    ) -> Iterator[tuple[int, Scan]]:
        """The read point and the answers of a scan. Blocking; leaving the context frees the read point.

        With a read point it reads at that one, which the caller keeps registered; else at the current one. What the
        plan calls by a name is the family that had it in `table_then`, the table as it was at that read point.
        When is_slice_over(), which is asked after each window, an answer comes at once; see scanner.scan.
        The view is taken anew for each window, so that a long scan moves from a flushed segment to its file. Families
        that the plan names must be there to the end: if one is dropped, the scan ends with FamilyNotFoundError.
        """
        try:
            with (
                self._stores.held(),
                self._mvcc.reading() if read_point is None else contextlib.nullcontext(read_point) as at,
            ):
                table = self._checked_table(plan)
                numbers = {name: table.number_by_name[name] for name in _families_named(plan)}
                _check_same_families(numbers, table if table_then is None else table_then)
                answers = scan(
                    lambda: self._sources_of(numbers),
                    plan,
                    self._start,
                    self._stop,
                    at,
                    window_bytes=self._config.scan_window_bytes,
                    merge_bytes_max=self._config.merge_window_bytes_max,
                    line_bytes_max=self._config.request_bytes_max,
                    is_slice_over=is_slice_over,
                )
                with contextlib.closing(answers):
                    yield at.write_number, answers
        finally:
            # What the scan was the last to read can be closed, or removed.
            self._open_files.close_released()

    def _sources_of(self, numbers: Mapping[bytes, int]) -> Sequence[tuple[Family, Sequence[Segment | StoreFile]]]:
        """All that is served now. FamilyNotFoundError when one of these is not, be there another of its name."""
        table, view = self._stores.served
        for name, number in numbers.items():
            if number not in view:
                raise FamilyNotFoundError(
                    f"column family {name!r} of table {table.name!r} was dropped while a scan that names it was under "
                    "way; the rows that it gave are not all",
                    table=table.name,
                    family=name,
                )
        return tuple(view.values())

    def parts(self, plan: ScanPlan, part_bytes: int) -> list[Part]:
        """Where the scan may be cut; see split_points.parts. Reads nothing from the disk."""
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
        """The table that is served now, which can answer the plan."""
        table = self._stores.served.table
        try:
            check_plan(plan, table.by_name, self._config)
            if plan.row_form is not None:
                check_row_form(plan.row_form, plan.selection.columns, table.by_name, self._config)
        except FamilyNotFoundError as error:
            raise unknown_family(error.family, table.by_name, table.name) from None
        return table


def _with_values(found: list[FoundAnswer], byte_count: int) -> list[AnswerCell]:
    """The cells with all values. Only a large value is ever away, so of a small row nothing is copied."""
    if byte_count > AWAY_BYTES_MIN:
        return [(family, qualifier, timestamp, loaded(value)) for family, qualifier, timestamp, value in found]
    return cast("list[AnswerCell]", found)  # looking at each value to prove it would cost as much as the copy


def _check_same_families(numbers: Mapping[bytes, int], table_then: Table) -> None:
    """FamilyNotFoundError when another family had one of these names."""
    for name, number in numbers.items():
        if table_then.number_by_name.get(name, number) != number:
            raise FamilyNotFoundError(
                f"column family {name!r} of table {table_then.name!r} was dropped since the snapshot was made; the "
                "family of that name now is another one, of which the snapshot has nothing",
                table=table_then.name,
                family=name,
            )


def _row_weights(family: Family, source: Segment | StoreFile) -> RowWeights:
    weights = source.row_weights()
    if isinstance(source, StoreFile) and family.compression is not Compression.NONE and source.info.block_count > 1:
        # A block is cut when it has between half of block_bytes and all, before it is compressed.
        return scaled(weights, source.info.block_count * family.block_bytes * 3 // 4)
    return weights


def _families_read(selection: Selection) -> Collection[bytes] | None:
    """Names of the families that are answered or judged; None: all that there are."""
    return _families_of(selection) if selection.columns else None


def _families_named(plan: ScanPlan) -> Collection[bytes]:
    """Names of the families that a scan names, to answer or to judge by them."""
    return _families_of(plan.selection).union(column.family for column in plan.row_form or ())


def _families_of(selection: Selection) -> set[bytes]:
    judged = {family for family, _ in required_columns(selection.where)}
    return judged.union(column.family for column in selection.columns)
