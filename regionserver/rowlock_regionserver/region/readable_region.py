"""The reading half of a region: look-ups, gets, scans, and read points."""

from __future__ import annotations

import contextlib
import enum
from collections.abc import Callable, Iterator, Sequence

from rowlock_regionserver.cells import ReadPoint
from rowlock_regionserver.errors import InvalidRequestError, NotServingRegionError
from rowlock_regionserver.operations import AnswerCell, ScanPlan, Selection
from rowlock_regionserver.region.read_path import ReadPath
from rowlock_regionserver.region.region_parts import RegionParts
from rowlock_regionserver.region.region_statistics import RegionStatistics, region_statistics
from rowlock_regionserver.region.stores import Stores
from rowlock_regionserver.scan.ranges import RowsAt
from rowlock_regionserver.scan.scanner import Scan
from rowlock_regionserver.scan.split_points import Part
from rowlock_regionserver.sources import Reading
from rowlock_regionserver.table import Table


class State(enum.Enum):
    """The life cycle: OPENING becomes SERVING, READING or CLOSED, and these two become CLOSED."""

    OPENING = enum.auto()
    SERVING = enum.auto()
    READING = enum.auto()  # of a named snapshot, which nothing changes
    CLOSED = enum.auto()


# Python 3.11 finds a global ten times as fast as a member in its enum.
_READING = State.READING
_SERVES_READS = (State.SERVING, State.READING)


class ReadableRegion:
    """What readers need of a region. Thread-safe while SERVING or READING, and after."""

    def __init__(self, parts: RegionParts) -> None:
        """`parts`: see open_parts. The region is OPENING, and only one thread may use it."""
        self._parts = parts
        self._read_path = ReadPath(parts)
        self._pacing = parts.shared.pacing
        self._state = State.OPENING

    @property
    def region_id(self) -> int:
        return self._parts.region_id

    @property
    def start(self) -> bytes:
        return self._parts.start

    @property
    def stop(self) -> bytes:
        return self._parts.stop

    def has(self, row: bytes) -> bool:
        """Whether the row is in its range."""
        return self.start <= row and (not self.stop or row < self.stop)

    @property
    def table(self) -> Table:
        """The table as this region currently serves it."""
        return self._parts.stores.served.table

    @property
    def table_name(self) -> str:
        return self.table.name

    @property
    def stores(self) -> Stores:
        """Its sources, for a holder of the gate, or of a read point."""
        return self._parts.stores

    def get(
        self,
        rows: Sequence[bytes],
        selection: Selection,
        *,
        may_wait: bool,
        reached: Callable[[int], None] = lambda byte_count: None,
    ) -> list[Sequence[AnswerCell]] | None:
        """Reads rows at one read point; see ReadPath.get."""
        self._check_serving()
        self._pacing.note_request()
        return self._read_path.get(rows, selection, may_wait=may_wait, reached=reached)

    def scan(
        self,
        plan: ScanPlan,
        rows_at: Sequence[RowsAt] = (),
        past_table: Table | None = None,
        *,
        is_slice_over: Callable[[], bool] = lambda: False,
        reading: Callable[[], Reading] = lambda: Reading.BULK,
    ) -> contextlib.AbstractContextManager[tuple[int, Scan]]:
        """Scans at one read point, or at several; see ReadPath.scan. Blocking."""
        self._check_serving()
        return self._read_path.scan(plan, rows_at, past_table, is_slice_over=is_slice_over, reading=reading)

    def parts(self, plan: ScanPlan, part_bytes: int) -> list[Part]:
        """Returns the parts into which a scan may be split; see ReadPath.parts."""
        self._check_serving()
        return self._read_path.parts(plan, part_bytes)

    @contextlib.contextmanager
    def without_writes(self, deadline: float) -> Iterator[None]:
        """Returns a context that holds the gate exclusively: no write is under way, and none begins. Blocks.

        Raises DeadlineError and NotServingRegionError.
        """
        self._check_serving()
        with self._parts.gate.exclusive(deadline):
            yield

    def open_read_point(self) -> ReadPoint:
        """Registers the current read point; see Mvcc. `close_read_point` must follow."""
        return self._parts.mvcc.open_read_point()

    def reopen_read_point(self, read_point: ReadPoint) -> None:
        """Registers an already registered read point a second time; `close_read_point` must follow."""
        self._parts.mvcc.reopen_read_point(read_point)

    def adopt_read_point(self, read_point: ReadPoint) -> None:
        """Registers a read point of a predecessor of this region; `close_read_point` must follow."""
        self._parts.mvcc.adopt_read_point(read_point)

    def close_read_point(self, read_point: ReadPoint) -> None:
        """Ends one registration."""
        self._parts.mvcc.close_read_point(read_point)

    def statistics(self) -> RegionStatistics:
        """Returns counts for operators and tests."""
        return region_statistics(self._parts)

    def _check_serving(self) -> None:
        if self._state not in _SERVES_READS:
            raise NotServingRegionError(
                f"region {self.region_id} of table {self.table.name!r} is closed here; look the region up again",
                table=self.table.name,
            )

    def _check_writable(self) -> None:
        self._check_serving()
        if self._state is _READING:
            raise InvalidRequestError(
                f"{self.table.name!r} is a named snapshot and can't be changed; restore it to a table and change that",
                table=self.table.name,
            )
