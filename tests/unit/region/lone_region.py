"""A region without a server, on a log of its own: the test holds its parts, and may act when a call comes to a step."""

from __future__ import annotations

import contextlib
import enum
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from rowlock_regionserver.catalog.catalog import CatalogState
from rowlock_regionserver.cells import Cell, Durability, Family, ReadPoint
from rowlock_regionserver.clock import Clock
from rowlock_regionserver.commit.gate import Gate
from rowlock_regionserver.commit.mvcc import Mvcc
from rowlock_regionserver.config import Config
from rowlock_regionserver.errors import RegionTooBusyError, StoppingError
from rowlock_regionserver.files import Files
from rowlock_regionserver.ledger import Ledger
from rowlock_regionserver.region.apply import Applier
from rowlock_regionserver.region.bulk.bulk_load import BulkNumbers
from rowlock_regionserver.region.flush import FlushResult
from rowlock_regionserver.region.idempotency.idempotency_table import IdempotencyTable
from rowlock_regionserver.region.memory import MemoryGauge
from rowlock_regionserver.region.new_region import make_region_folder
from rowlock_regionserver.region.region import Region
from rowlock_regionserver.region.region_parts import RegionParts, open_parts
from rowlock_regionserver.region.shared_parts import SharedParts
from rowlock_regionserver.table import Table
from rowlock_regionserver.wal.batch import Complete
from rowlock_regionserver.wal.log import Log
from rowlock_regionserver.wal.recovery import recover

from .region_calls import RegionCalls

REGION_ID = 7
HOUR_MS = 3600 * 1000


class Step(enum.Enum):
    """Where a call of the region is."""

    ENTER = enum.auto()  # before it waits for the gate, to hold it shared
    LEAVE = enum.auto()  # after it left the gate
    ALONE = enum.auto()  # before it waits for the gate, to hold it alone
    BEGIN = enum.auto()  # after COMPARE, before it has a write number
    APPLY = enum.auto()  # of a row, which the log has
    READ_POINT = enum.auto()  # before a get has one
    REPLAYED = enum.auto()  # a record of the log, while the region opens
    FREED = enum.auto()  # what a flush wrote


class Steps:
    """What the test does at the steps."""

    def __init__(self) -> None:
        self._once: dict[Step, Callable[[], object]] = {}
        self._always: dict[Step, Callable[[], object]] = {}

    def at_next(self, step: Step, action: Callable[[], object]) -> None:
        """The first call that comes to the step does this, and no other one."""
        self._once[step] = action

    def at_each(self, step: Step, action: Callable[[], object]) -> None:
        self._always[step] = action

    def reach(self, step: Step) -> None:
        always = self._always.get(step)
        if always is not None:
            always()
        once = self._once.pop(step, None)
        if once is not None:
            once()


class SteppedGate(Gate):
    """A gate that tells the steps."""

    def __init__(self, region_id: int, clock: Clock, steps: Steps) -> None:
        super().__init__(region_id, clock)
        self._steps = steps

    def enter(self, deadline: float) -> None:
        self._steps.reach(Step.ENTER)
        super().enter(deadline)

    def leave(self) -> None:
        super().leave()
        self._steps.reach(Step.LEAVE)

    def enter_exclusive(self, deadline: float = float("inf")) -> None:
        self._steps.reach(Step.ALONE)
        super().enter_exclusive(deadline)


class SteppedMvcc(Mvcc):
    """Write numbers and read points that tell the steps."""

    def __init__(self, last_write_number: int, clock: Clock, steps: Steps) -> None:
        super().__init__(last_write_number, clock)
        self._steps = steps

    def begin(self) -> int:
        self._steps.reach(Step.BEGIN)
        return super().begin()

    def open_read_point(self) -> ReadPoint:
        self._steps.reach(Step.READ_POINT)
        return super().open_read_point()


class SteppedApplier(Applier):
    """An applier that tells the steps."""

    def __init__(self, parts: RegionParts, steps: Steps) -> None:
        shared = parts.shared
        super().__init__(parts.stores, shared.memory, parts.mvcc.protected_read_points, shared.on_fatal)
        self._steps = steps

    def apply_row(self, row: bytes, cells: Sequence[tuple[int, Sequence[Cell]]]) -> None:
        self._steps.reach(Step.APPLY)
        super().apply_row(row, cells)


class SteppedGauge(MemoryGauge):
    """A gauge that tells the steps."""

    def __init__(self, config: Config, clock: Clock, steps: Steps) -> None:
        super().__init__(Ledger(config).memstores, config, clock, lambda: None)
        self._steps = steps

    def flushed(self, byte_count: int) -> None:
        self._steps.reach(Step.FREED)
        super().flushed(byte_count)


class RefusingLog(Log):
    """A log that is closed, or has no room, when the test says so."""

    refuses = False
    room: int | None = None

    def append(
        self,
        region_id: int,
        write_number: int,
        kind: int,
        payload: bytes,
        durability: Durability,
        complete: Complete,
    ) -> None:
        if self.refuses:
            raise StoppingError("closed")
        super().append(region_id, write_number, kind, payload, durability, complete)

    def check_space(self, byte_count: int) -> None:
        if self.room is not None and byte_count > self.room:
            raise RegionTooBusyError(f"no room for {byte_count} bytes", retry_after_ms=1)
        super().check_space(byte_count)


class LoneRegion(RegionCalls):
    """The only region of table `t`, with families f (1 version) and g (3 versions). Nothing flushes it by itself."""

    parts: RegionParts
    log: RefusingLog
    memory: MemoryGauge
    _region: Region

    def __init__(
        self,
        folder: Path,
        config: Config | None = None,
        clock: Clock | None = None,
        files: Files | None = None,
        durability: Durability = Durability.OS,
        answer_cell_bytes_max: int | None = None,
        region_id: int = REGION_ID,
    ) -> None:
        """`answer_cell_bytes_max`: of the large cells of kept answers, until it is opened again."""
        self.folder = folder
        self._id = region_id
        self._region_folder = folder / "regions" / str(region_id)
        self.config = config or Config(log_segment_bytes=1 << 20, bulk_file_bytes_min=4096)
        self.clock = clock or Clock()
        self.files = files or Files()
        self.fatal: list[BaseException] = []
        self.steps = Steps()
        self._state = CatalogState().with_new_table("t", [Family(0, b"f"), Family(0, b"g", versions=3)], durability)
        for name in ("bulk", "regions"):
            (folder / name).mkdir()
        make_region_folder(self.files, self._region_folder, region_id, self.table, self.config)
        self._open(answer_cell_bytes_max)

    @property
    def region(self) -> Region:
        return self._region

    @property
    def table(self) -> Table:
        return self._state.entry("t").table

    def _open(self, answer_cell_bytes_max: int | None = None) -> None:
        config, clock, files = self.config, self.clock, self.files
        self.memory = SteppedGauge(config, clock, self.steps)
        shared = SharedParts.of(self.folder / "bulk", config, clock, files, self.memory, self.fatal.append)
        parts = open_parts(self._id, (b"", b""), self.table, self._region_folder, shared)
        mvcc = SteppedMvcc(parts.found.flushed_write_number, clock, self.steps)
        parts = replace(parts, mvcc=mvcc, gate=SteppedGate(self._id, clock, self.steps))
        if answer_cell_bytes_max is not None:
            idempotency = IdempotencyTable(clock, shared.request_ids, HOUR_MS, 1000, answer_cell_bytes_max)
            parts = replace(parts, idempotency=idempotency)
        self.parts = replace(parts, applier=SteppedApplier(parts, self.steps))
        self._region = Region(self.parts)
        replay = self._region.replay

        def apply(region_id: int, write_number: int, kind: int, payload: bytes) -> None:
            replay.apply(write_number, kind, payload)
            self.steps.reach(Step.REPLAYED)

        recovered = recover(
            self.folder / "log",
            files,
            apply,
            flushed={self._id: parts.found.flushed_write_number},
        )
        assert not recovered.damaged
        self.log = RefusingLog.open(self.folder / "log", files, config, clock, recovered, self.fatal.append)
        known = recovered.regions.get(self._id)
        bulk_numbers = BulkNumbers(1 + max(self._region.bulk_files, default=0))
        if known is None:
            self._region.serve(self.log, bulk_numbers)
        else:
            self._region.serve(self.log, bulk_numbers, known.numbers_until, known.stamps_until)

    def alter(self, set_families: Sequence[Family] = (), drop_families: Sequence[bytes] = ()) -> None:
        self._state = self._state.with_altered_table("t", set_families, drop_families, None)
        self._region.altering.alter(self.table)

    def flush(self) -> FlushResult:
        return self._region.flush()

    @contextlib.contextmanager
    def held_gate(self) -> Iterator[None]:
        """Holds the gate as a write does. Leaves it also if the block fails: `stop` waits for that without a limit."""
        assert self.parts.gate.try_enter()
        try:
            yield
        finally:
            self.parts.gate.leave()

    def crash(self) -> None:
        """Ends as a kill would and opens again: what was in memory, only the log can bring back."""
        self.log.close()
        self._close_files()
        self._open()

    def stop(self) -> None:
        self._region.close()
        self.log.close()
        self._close_files()

    def _close_files(self) -> None:
        self.parts.shared.open_files.close_idle()
