"""The read path: rows and ranges at one read point.

Order matters: first the read point, registered in the same step; then the view. Whoever drops cells asks for the
registered read points, so what this reader may see is in the view that it takes afterwards.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterator, Sequence

from rowlock_regionserver.cells import Compression, Family, ReadPoint
from rowlock_regionserver.errors import FamilyNotFoundError
from rowlock_regionserver.memstore.memstore import Segment
from rowlock_regionserver.operations import AnswerCell, ScanPlan, Selection
from rowlock_regionserver.region.check import check_answer, check_in_region, check_row, unknown_family
from rowlock_regionserver.region.contents import RegionContents
from rowlock_regionserver.region.stores import View, is_row_in_memory
from rowlock_regionserver.scan.filters import required_columns
from rowlock_regionserver.scan.point import read_row
from rowlock_regionserver.scan.ranges import EVERYTHING, joined
from rowlock_regionserver.scan.row_form import check_row_form
from rowlock_regionserver.scan.scanner import ScanAnswer, scan
from rowlock_regionserver.scan.selection import check_plan, check_selection
from rowlock_regionserver.scan.split_points import Part, RowWeights, parts, scaled
from rowlock_regionserver.storefile.reader import StoreFile


class ReadPath:
    """Reads one region. Thread-safe; takes no lock that a writer holds while it waits for anything."""

    def __init__(self, contents: RegionContents) -> None:
        self._region_id = contents.region_id
        self._start, self._stop = contents.start, contents.stop
        self.table = contents.table  # Replaced whole by an alter.
        self._stores = contents.stores
        self._mvcc = contents.mvcc
        self._config = contents.shared.config

    def get(
        self,
        rows: Sequence[bytes],
        selection: Selection,
        *,
        may_wait: bool,
        reached: Callable[[int], None] = lambda byte_count: None,
    ) -> list[Sequence[AnswerCell]] | None:
        """The cells of each row, in the order asked, all at one read point; an absent row has none.

        None: a block would have to be read from the disk, and `may_wait` is False. Raises LimitExceededError when the
        answer would be larger than a message may be. `reached` is told after each row how many bytes they are by now,
        and may raise.
        """
        table = self.table
        try:
            check_selection(selection, table.by_name, self._config)
        except FamilyNotFoundError as error:
            raise unknown_family(error.family, table.by_name, table.name) from None
        for row in rows:
            check_row(row, self._config)
            check_in_region(row, self._start, self._stop, self._region_id)
        read_point = self._mvcc.open_read_point()
        try:
            view = self._stores.view
            if not may_wait and self._stores.has_files:
                families = _families_read(selection)
                if not all(is_row_in_memory(view, row, families) for row in rows):
                    return None
            return self._read(view, rows, selection, read_point, reached)
        finally:
            self._mvcc.close_read_point(read_point)

    def _read(
        self,
        view: View,
        rows: Sequence[bytes],
        selection: Selection,
        read_point: ReadPoint,
        reached: Callable[[int], None],
    ) -> list[Sequence[AnswerCell]]:
        """Stops at the row with which the answer becomes too large: what was read until then is all that is held."""
        answer: list[Sequence[AnswerCell]] = []
        byte_count = 0  # Without lengths and timestamps, so never more than the message will have.
        for row in rows:
            cells = read_row(view, row, selection, read_point)
            byte_count += sum([len(family) + len(qualifier) + len(value) for family, qualifier, _, value in cells])
            check_answer(byte_count, rows[0], self._config)
            reached(byte_count)
            answer.append(cells)
        return answer

    @contextlib.contextmanager
    def scan(
        self, plan: ScanPlan, read_point: ReadPoint | None = None, *, is_turn_over: Callable[[], bool] = lambda: False
    ) -> Iterator[tuple[int, Iterator[ScanAnswer]]]:
        """The read point and the answers of a scan. Blocking; leaving the context frees the read point.

        With a read point it reads at that one, which the caller keeps registered; else at the current one.
        When is_turn_over(), which is asked after each window, an answer comes at once; see scanner.scan.
        The view is taken anew for each window, so that a long scan moves from a flushed segment to its file.
        """
        self._check_plan(plan)
        with self._mvcc.reading() if read_point is None else contextlib.nullcontext(read_point) as at:
            answers = scan(
                lambda: tuple(self._stores.view.values()),
                plan,
                self._start,
                self._stop,
                at,
                window_bytes=self._config.scan_window_bytes,
                merge_bytes_max=self._config.merge_window_bytes_max,
                line_bytes_max=self._config.request_bytes_max,
                is_turn_over=is_turn_over,
            )
            yield at.write_number, answers

    def parts(self, plan: ScanPlan, part_bytes: int) -> list[Part]:
        """Where the scan may be cut; see split_points.parts. Reads nothing from the disk."""
        self._check_plan(plan)
        families = _families_read(plan.selection)
        weights = [
            _row_weights(family, source)
            for family, sources in self._stores.view.values()
            if families is None or family.name in families
            for source in sources
        ]
        return parts(weights, joined(plan.ranges or (EVERYTHING,), (self._start, self._stop)), part_bytes)

    def _check_plan(self, plan: ScanPlan) -> None:
        table = self.table
        try:
            check_plan(plan, table.by_name, self._config)
            if plan.row_form is not None:
                check_row_form(plan.row_form, plan.selection.columns, table.by_name, self._config)
        except FamilyNotFoundError as error:
            raise unknown_family(error.family, table.by_name, table.name) from None


def _row_weights(family: Family, source: Segment | StoreFile) -> RowWeights:
    weights = source.row_weights()
    if isinstance(source, StoreFile) and family.compression is not Compression.NONE and source.info.block_count > 1:
        # A block is cut when it has between half of block_bytes and all, before it is compressed.
        return scaled(weights, source.info.block_count * family.block_bytes * 3 // 4)
    return weights


def _families_read(selection: Selection) -> Collection[bytes] | None:
    """Names of the families that are answered or judged; None: all that there are."""
    if not selection.columns:
        return None
    judged = {family for family, _ in required_columns(selection.where)}
    return judged.union(column.family for column in selection.columns)
