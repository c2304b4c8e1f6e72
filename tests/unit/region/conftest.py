"""A region server on a folder of the test's own, called without a network."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from rowlock_regionserver.cells import Durability, Family
from rowlock_regionserver.clock import Clock
from rowlock_regionserver.config import Config
from rowlock_regionserver.files import Files
from rowlock_regionserver.host.region_server import RegionServer
from rowlock_regionserver.region.region import Region

from tests.waiting import WAIT_S

from .lone_region import LoneRegion
from .region_calls import RegionCalls


def abandon(server: RegionServer) -> None:
    """Ends a server as a kill would, but for its threads: nothing is flushed. It is not used any more."""
    flusher, log = server._flusher, server._log
    assert flusher is not None
    server._splits.stop()
    server.compactions.stop()
    flusher.stop()
    server.clients.sessions.stop()
    server.snapshots.stop()
    server._shared.open_files.close_idle()
    log.close()


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


class Engine(RegionCalls):
    """One table `t` with families f (1 version) and g (3 versions), and short ways to use it."""

    def __init__(self, folder: Path, config: Config, clock: Clock, files: Files, durability: Durability) -> None:
        self.folder = folder
        self.config = config
        self.clock = clock
        self.files = files
        self.fatal: list[BaseException] = []
        self.server = self.open()
        families = [Family(0, b"f"), Family(0, b"g", versions=3)]
        self.server.create_table("t", families, durability)

    def open(self) -> RegionServer:
        return RegionServer.open(self.folder, self.config, self.clock, self.files, self.fatal.append)

    @property
    def region(self) -> Region:
        (region,) = self.server.regions_of("t")
        return region

    def restart(self) -> None:
        """Stops cleanly, which flushes, and opens again."""
        self.server.stop()
        self.server = self.open()

    def crash(self) -> None:
        """Ends as a kill would and opens again: only the log can restore what was in memory."""
        abandon(self.server)
        self.server = self.open()


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


@pytest.fixture
def lone(tmp_path: Path) -> Iterator[LoneRegion]:
    region = LoneRegion(tmp_path)
    yield region
    region.stop()
    assert not region.fatal


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
