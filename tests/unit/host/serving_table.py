"""Table `t` of a region server on a folder, which is split and merged, and restarted."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
from rowlock_regionserver.cells import Family
from rowlock_regionserver.clock import Clock
from rowlock_regionserver.compaction.picker import FileFacts, pick_requested
from rowlock_regionserver.compaction.progress import Progress
from rowlock_regionserver.compaction.settings import CompactionSettings
from rowlock_regionserver.config import Config
from rowlock_regionserver.files import Files
from rowlock_regionserver.host.region_server import RegionServer
from rowlock_regionserver.region.flush import FlushResult
from rowlock_regionserver.region.region import Region

from tests.unit.region.conftest import abandon

from .table_of_regions import TableOfRegions, numbered_rows

CONFIG = Config(log_segment_bytes=1 << 16, disk_free_bytes_min=0, compaction_threads=0)
FAMILIES = [Family(0, b"f"), Family(0, b"g", versions=3)]


class Serving(TableOfRegions):
    """Table `t` of a server on a folder, which can be restarted."""

    def __init__(self, folder: Path, config: Config = CONFIG, files: Files | None = None) -> None:
        self.folder, self.config, self.files = folder, config, files or Files()
        self.clock = Clock()
        super().__init__(self.open())
        self.server.create_table("t", FAMILIES)

    def open(self) -> RegionServer:
        return RegionServer.open(self.folder, self.config, self.clock, self.files, lambda error: None)

    def restart(self) -> None:
        self.server.stop()
        self.server = self.open()
        assert not self.server.damaged_regions()

    def crash(self) -> None:
        abandon(self.server)
        self.server = self.open()
        assert not self.server.damaged_regions()

    def split(self, row: bytes | None) -> None:
        region = self.regions[0] if row is None else self.region_of(row)
        self.server.split_region("t", region.region_id, row)

    def merge(self, place: int = 0) -> None:
        left, right = self.regions[place : place + 2]
        self.server.merge_regions("t", left.region_id, right.region_id)

    def names(self, path: str) -> list[str]:
        return sorted(each.name for each in (self.folder / path).iterdir())

    def file_facts(self) -> list[FileFacts]:
        """Returns the store files of all regions, in row order."""
        return [file for region in self.regions for store in region.compaction_facts() for file in store.files]

    def compact(self, regions: Sequence[Region] = ()) -> None:
        """Compacts all files of each store of these regions, or of all, to a base."""
        for region in regions or self.regions:
            for store in region.compaction_facts():
                plan = pick_requested(store.files, CompactionSettings(), major=True)
                if plan is not None:
                    self.server._compact_region(region.region_id, store.family.number, plan, Progress())


def fill(table: TableOfRegions, count: int = 40) -> list[tuple[bytes, bytes]]:
    """Writes rows, some of them flushed. Returns them."""
    for row in numbered_rows(count):
        table.put(row, b"of " + row)
        if row == numbered_rows(count)[count // 2]:
            table.server.flush("t")
    return [(row, b"of " + row) for row in numbered_rows(count)]


@contextlib.contextmanager
def after_flushes(write: Callable[[], object]) -> Iterator[None]:
    """Calls `write` after each flush that an operation of the block makes."""
    flush = RegionServer.flush_region

    def flush_and_write(server: RegionServer, region: Region) -> FlushResult:
        result = flush(server, region)
        write()
        return result

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(RegionServer, "flush_region", flush_and_write)
        yield
