"""The engine: everything that front ends share. A second front end is built on the same one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from rowlock_regionserver.clock import Clock
from rowlock_regionserver.config import Config
from rowlock_regionserver.engine.bulk_streams import BulkStreams
from rowlock_regionserver.engine.flushes import Flushes
from rowlock_regionserver.engine.interfaces import BulkRegion, PointRegion
from rowlock_regionserver.engine.points import Points, PointStatistics
from rowlock_regionserver.engine.scan_openings import NamedRegion, ScanHost, ScanOpenings
from rowlock_regionserver.engine.scans import Scans, ScanStatistics
from rowlock_regionserver.engine.workers import Workers
from rowlock_regionserver.ledger import Ledger
from rowlock_regionserver.operations import RequestId
from rowlock_regionserver.procedures.runner import ProcedureRunner
from rowlock_regionserver.region.bulk.bulk_load import BulkResult
from rowlock_regionserver.region.bulk.row_batch import BulkBatch
from rowlock_regionserver.region.flush import FlushResult
from rowlock_regionserver.sessions.session import SessionRef


class EngineRegion(PointRegion, NamedRegion, BulkRegion, Protocol):
    """A region as the engine sees it."""


class EngineHost(ScanHost, Protocol):
    """The host of regions as the engine sees it. Thread-safe."""

    def region(self, region_id: int) -> EngineRegion:
        """Raises NotServingRegionError if the region is not here."""

    def successor(self, region_id: int, rows: Sequence[bytes]) -> PointRegion | None:
        """Returns the region that has taken over all of these rows of a region; None if there is none."""

    def flush(self, name: str) -> FlushResult:
        """Writes a table's memstores to store files; blocks."""

    def stage(self, session: SessionRef, region_id: int, batch: BulkBatch, request: RequestId | None) -> BulkResult:
        """Stages a batch for a session's bulk write; returns when it is durable."""


@dataclass(frozen=True, slots=True)
class EngineStatistics:
    """What the engine is doing."""

    points: PointStatistics
    scans: ScanStatistics


class Engine:
    """Admits requests of all front ends of one server. Built and used on the event loop."""

    def __init__(
        self,
        host: EngineHost,
        workers: Workers,
        config: Config,
        clock: Clock,
        ledger: Ledger,
        open_calls: Callable[[], int],
        procedures: ProcedureRunner | None = None,
    ) -> None:
        """`open_calls`: how many calls of any kind the server is serving. `procedures`: None: there are none."""
        self.workers = workers
        self.points = Points(host.region, workers, config, clock, ledger, open_calls, procedures, host.successor)
        self.scans = Scans(workers, self.points.slow_calls, config, clock, ledger)
        self.openings = self.points.openings = ScanOpenings(host, self.scans)
        self.flushes = Flushes(host.flush, workers.tables)
        self.bulk = BulkStreams(host.region, self.points.slow_calls, workers, ledger, config, clock, host.stage)

    def statistics(self) -> EngineStatistics:
        """From any thread."""
        return EngineStatistics(self.points.statistics(), self.scans.statistics())

    def stop(self) -> None:
        """Ends scans and begins no bulk batch. What was begun is answered."""
        self.scans.stop()
        self.bulk.stop()
