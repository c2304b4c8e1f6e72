"""A region server on a folder of the test's own, called without a network."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pytest
from rowlock_regionserver.cells import Durability, Family
from rowlock_regionserver.clock import Clock
from rowlock_regionserver.config import Config
from rowlock_regionserver.errors import RegionServerError
from rowlock_regionserver.files import Files
from rowlock_regionserver.host.region_server import RegionServer
from rowlock_regionserver.operations import (
    AnswerCell,
    Change,
    Condition,
    RequestId,
    RowMutation,
    RowOutcome,
    RowResult,
    ScanPlan,
    Selection,
    WriteOptions,
)
from rowlock_regionserver.region.bulk.bulk_load import BulkOutcome
from rowlock_regionserver.region.region import Region

WAIT_S = 120.0


def abandon(server: RegionServer) -> None:
    """Ends a server as a kill would, except for its threads: nothing is flushed. It must not be used afterwards."""
    assert server._flusher is not None
    server._flusher.stop()
    server.snapshots.stop()
    server._log.close()


class HeldFiles(Files):
    """Blocks every fdatasync, and so the log, until it is released."""

    def __init__(self) -> None:
        self.may_sync = threading.Event()
        self.may_sync.set()
        self.is_held = threading.Event()

    def fdatasync(self, descriptor: int) -> None:
        if not self.may_sync.is_set():
            self.is_held.set()
        assert self.may_sync.wait(WAIT_S)
        super().fdatasync(descriptor)


class Engine:
    """One table `t` with families f (1 version) and g (3 versions), and shortcuts to use it."""

    def __init__(self, folder: Path, config: Config, clock: Clock, files: Files, durability: Durability) -> None:
        self.folder = folder
        self.config = config
        self.clock = clock
        self.files = files
        self.fatal: list[BaseException] = []
        self.server = self._open()
        families = [Family(0, b"f"), Family(0, b"g", versions=3)]
        self.server.create_table("t", families, durability)

    def _open(self) -> RegionServer:
        return RegionServer.open(self.folder, self.config, self.clock, self.files, self.fatal.append)

    @property
    def region(self) -> Region:
        (region,) = self.server.regions_of("t")
        return region

    def restart(self) -> None:
        """Stops cleanly, which flushes, and opens again."""
        self.server.stop()
        self.server = self._open()

    def crash(self) -> None:
        """Ends as a kill would and opens again: only the log can restore what was in memory."""
        abandon(self.server)
        self.server = self._open()

    def mutate(self, *mutations: RowMutation, durability: Durability | None = None) -> list[RowOutcome]:
        """Returns the outcomes, when they are published."""
        outcomes: list[RowOutcome] = []
        told = threading.Event()

        def done(them: list[RowOutcome]) -> None:
            outcomes.extend(them)
            told.set()

        options = WriteOptions(self.clock.monotonic() + WAIT_S, durability)
        assert self.region.mutate(mutations, options, done, may_wait=True)
        assert told.wait(WAIT_S)
        return outcomes

    def change(
        self,
        row: bytes,
        *changes: Change,
        condition: Condition | None = None,
        otherwise: Sequence[Change] = (),
        request: RequestId | None = None,
    ) -> RowResult:
        """Returns the result of one row's mutation, or raises its error."""
        (outcome,) = self.mutate(RowMutation(row, changes, condition, tuple(otherwise), request))
        if isinstance(outcome, RegionServerError):
            raise outcome
        return outcome

    def bulk(
        self, batch: pa.Table, request: RequestId | None = None, durability: Durability | None = None
    ) -> BulkOutcome:
        """Returns the outcome of a bulk batch, when it is published."""
        outcomes: list[BulkOutcome] = []
        told = threading.Event()

        def done(outcome: BulkOutcome) -> None:
            outcomes.append(outcome)
            told.set()

        self.region.bulk_put(batch, request, WriteOptions(self.clock.monotonic() + WAIT_S, durability), done)
        assert told.wait(WAIT_S)
        return outcomes[0]

    def cells(self, row: bytes, versions: int = 1) -> list[AnswerCell]:
        answer = self.region.get([row], Selection(versions=versions), may_wait=True)
        assert answer is not None
        return list(answer[0])

    def values(self, row: bytes) -> dict[bytes, bytes]:
        """Returns the newest values by `family:qualifier`."""
        return {family + b":" + qualifier: value for family, qualifier, _, value in self.cells(row)}

    def scan(self, plan: ScanPlan | None = None) -> list[tuple[bytes, bytes, bytes, int, bytes]]:
        """Returns the (row, family, qualifier, timestamp, value) of a scan."""
        with self.region.scan(plan or ScanPlan()) as (_, answers):
            return [tuple(cell.values()) for answer in answers for cell in answer.table.to_pylist()]


@pytest.fixture
def config() -> Config:
    """Small sizes, so that every edge is crossed; overridden where a test needs others."""
    return Config(log_segment_bytes=1 << 20, bulk_file_bytes_min=4096, worker_threads=2)


@pytest.fixture
def engine(tmp_path: Path, config: Config) -> Iterator[Engine]:
    running = Engine(tmp_path, config, Clock(), Files(), Durability.OS)
    yield running
    running.server.stop()
    assert not running.fatal


def bulk_batch(*cells: tuple[bytes, bytes, bytes, int | None, bytes | None]) -> pa.Table:
    """Returns a bulk batch of (row, family, qualifier, timestamp or None, value or None)."""
    rows, families, qualifiers, timestamps, values = zip(*cells, strict=True)
    return pa.table(
        {
            "row": pa.array(rows, pa.binary()),
            "family": pa.array(families, pa.binary()),
            "qualifier": pa.array(qualifiers, pa.binary()),
            "timestamp": pa.array(timestamps, pa.int64()),
            "value": pa.array(values, pa.binary()),
        }
    )
