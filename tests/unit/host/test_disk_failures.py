"""Table operations and flushes on a disk that fails, that is full, or that is in use by another operation."""

from __future__ import annotations

import contextlib
import errno
import os
import threading
from collections.abc import Sequence
from pathlib import Path

import pytest
from rowlock_regionserver.cells import Durability, Family
from rowlock_regionserver.clock import Clock
from rowlock_regionserver.config import Config
from rowlock_regionserver.errors import DiskFullError, NotServingRegionError, OutOfMemoryError, StoppingError
from rowlock_regionserver.files import Files
from rowlock_regionserver.host.region_folder import region_folder
from rowlock_regionserver.host.region_server import RegionServer
from rowlock_regionserver.operations import Put, RowMutation, Selection, WriteOptions
from rowlock_regionserver.region.manifest import read_manifest
from rowlock_regionserver.region.region import Region

from tests.crash.simulated_files import Call, SimulatedFiles
from tests.unit.region.conftest import bulk_batch
from tests.waiting import WAIT_S, wait_until

FAMILIES = [Family(0, b"f"), Family(0, b"g")]


class Serving:
    """A server with one table `t` on a simulated disk."""

    def __init__(self, folder: Path) -> None:
        self.disk = SimulatedFiles(folder)
        self.fatal: list[BaseException] = []
        self.server = self.opened()
        self.server.create_table("t", FAMILIES, Durability.OS)

    def opened(self) -> RegionServer:
        config = Config(bulk_file_bytes_min=1000, disk_free_bytes_min=0)
        return RegionServer.open(self.disk.root, config, Clock(), self.disk, self.fatal.append)

    def put(self, row: bytes, families: Sequence[bytes] = (b"f", b"g")) -> None:
        (region,) = self.server.regions_of("t")
        done = threading.Event()
        mutation = RowMutation(row, tuple(Put(family, b"q", b"v") for family in families))
        options = WriteOptions(Clock().monotonic() + WAIT_S)
        region.mutate([mutation], options, lambda _: done.set(), may_wait=True)
        assert done.wait(WAIT_S)

    def stop(self) -> None:
        self.disk.before_call = lambda call: None
        self.server.stop()


def read_until_closed(region: Region) -> None:
    """Returns when the region is closed, which is the first thing that removing a table does."""
    deadline = Clock().monotonic() + WAIT_S
    with contextlib.suppress(NotServingRegionError):
        while Clock().monotonic() < deadline:
            region.get([b"r"], Selection(), may_wait=True)


@pytest.fixture
def serving(tmp_path: Path) -> Serving:
    return Serving(tmp_path / "data")


@pytest.mark.parametrize("operation", ["drop_table", "truncate_table"])
def test_a_table_that_is_being_flushed_is_removed_after_the_flush(serving: Serving, operation: str) -> None:
    serving.put(b"r")
    in_flush, may_go_on = threading.Event(), threading.Event()

    def hold(call: Call) -> None:
        if call.name == "rename" and call.path.suffix == ".store":
            in_flush.set()
            assert may_go_on.wait(WAIT_S)

    serving.disk.before_call = hold
    (region,) = serving.server.regions_of("t")
    flush = threading.Thread(target=serving.server.flush, args=["t"])
    remove = threading.Thread(target=getattr(serving.server, operation), args=["t"])
    flush.start()
    assert in_flush.wait(WAIT_S)
    remove.start()
    read_until_closed(region)
    may_go_on.set()
    flush.join(WAIT_S)
    remove.join(WAIT_S)
    assert serving.fatal == []
    with pytest.raises(NotServingRegionError):
        region.flush()

    def folder_count() -> int:
        serving.server._shared.open_files.close_released()  # As the flush scheduler does, for files used until now.
        return len(list((serving.disk.root / "regions").iterdir()))

    wait_until(lambda: folder_count() == (operation == "truncate_table"))
    serving.stop()


def test_a_failed_sync_of_the_catalog_ends_the_server(serving: Serving) -> None:
    failed = failing(serving, errno.EIO, "fsync", "catalog")
    with pytest.raises(OSError, match="Input/output"):
        serving.server.create_table("u", FAMILIES)
    assert failed
    assert len(serving.fatal) == 1
    with pytest.raises(NotServingRegionError):
        serving.put(b"r")


def test_after_a_failed_sync_no_table_is_made_or_changed_while_the_server_ends(serving: Serving) -> None:
    failing(serving, errno.EIO, "fsync", "catalog")
    with pytest.raises(OSError, match="Input/output"):
        serving.server.create_table("u", FAMILIES)
    serving.disk.before_call = lambda call: None
    server = serving.server
    for change in (
        lambda: server.create_table("u", FAMILIES),
        lambda: server.drop_table("t"),
        lambda: server.flush("t"),
    ):
        with pytest.raises(StoppingError):
            change()
    serving.stop()


def test_a_failed_sync_of_a_bulk_file_ends_the_server(serving: Serving) -> None:
    failed = failing(serving, errno.EIO, "fsync", "bulk")
    (region,) = serving.server.regions_of("t")
    batch = bulk_batch(*[(b"%d" % row, b"f", b"q", None, b"v" * 100) for row in range(20)])
    with pytest.raises(OSError, match="Input/output"):
        region.bulk_put(batch, None, WriteOptions(Clock().monotonic() + WAIT_S), lambda _: None)
    assert failed
    assert len(serving.fatal) == 1
    with pytest.raises(NotServingRegionError):
        serving.put(b"r")


@pytest.mark.parametrize("error_number", [errno.EIO, errno.ENOMEM])
@pytest.mark.parametrize("file", ["*.store*", "manifest-*"])
def test_a_failed_sync_of_a_flush_ends_the_server(serving: Serving, file: str, error_number: int) -> None:
    """Also for lack of memory: what was synced is not known."""
    serving.put(b"r")

    def fail(call: Call) -> None:
        if call.name == "fsync" and call.path.match(file):
            raise OSError(error_number, os.strerror(error_number), str(call.path))

    serving.disk.before_call = fail
    with pytest.raises(OSError, match=os.strerror(error_number)):
        serving.server.flush("t")
    assert len(serving.fatal) == 1
    with pytest.raises(NotServingRegionError):
        serving.put(b"r")


@pytest.mark.parametrize(
    ("call_name", "file"),
    [
        ("create", "*.store*"),
        ("rename", "*.store"),
        ("create", "manifest-*"),
        ("pwrite", "manifest-*"),
        ("rename", "manifest-*"),
    ],
)
def test_a_flush_for_which_the_system_lacks_memory_changes_nothing_and_is_good_later(
    serving: Serving, call_name: str, file: str
) -> None:
    """It ended the server."""
    serving.put(b"r")

    def fail(call: Call) -> None:
        if call.name == call_name and call.path.match(file):
            raise OSError(errno.ENOMEM, os.strerror(errno.ENOMEM), str(call.path))

    serving.disk.before_call = fail
    for _ in range(2):
        with pytest.raises(OutOfMemoryError, match="Cannot allocate memory"):
            serving.server.flush("t")
    assert serving.fatal == []
    assert list(serving.disk.root.rglob("*.store*")) == []
    serving.disk.before_call = lambda call: None
    serving.put(b"s")
    assert serving.server.flush("t").store_file_count == 4  # two of each attempt that sealed: f and g
    serving.stop()


def failing(serving: Serving, error_number: int, name: str, folder: str) -> list[Call]:
    """Makes the calls of this name fail in this folder; returns the list of the failed ones."""
    failed: list[Call] = []

    def fail(call: Call) -> None:
        if call.name == name and folder in call.path.relative_to(serving.disk.root).parts:
            failed.append(call)
            raise OSError(error_number, os.strerror(error_number), str(call.path))

    serving.disk.before_call = fail
    return failed


@pytest.mark.parametrize("call_name", ["make_folder", "create", "pwrite", "fsync", "rename"])
def test_on_a_full_disk_no_table_is_made_and_the_next_try_is_good(serving: Serving, call_name: str) -> None:
    def full(call: Call) -> None:
        if call.name == call_name and "log" not in call.path.relative_to(serving.disk.root).parts:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(call.path))

    serving.disk.before_call = full
    with pytest.raises(DiskFullError):
        serving.server.create_table("u", FAMILIES)
    assert [table.name for table in serving.server.tables()] == ["t"]
    serving.disk.before_call = lambda call: None
    serving.server.create_table("u", FAMILIES)
    serving.put(b"r")
    assert serving.fatal == []
    serving.stop()


def test_a_family_dropped_on_a_full_disk_is_gone_and_its_files_go_later(serving: Serving) -> None:
    serving.put(b"r")
    serving.server.flush("t")
    (region,) = serving.server.regions_of("t")

    def full(call: Call) -> None:
        if call.name == "create" and "regions" in call.path.relative_to(serving.disk.root).parts:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(call.path))

    serving.disk.before_call = full
    altered = serving.server.alter_table("t", drop_families=[b"g"])
    assert [family.name for family in altered.families] == [b"f"]
    assert region.statistics().store_file_count == 1
    assert len(read_manifest(Files(), region_folder(serving.disk.root, region.region_id)).manifest.store_files) == 2
    serving.disk.before_call = lambda call: None
    serving.server.alter_table("t", set_families=[Family(0, b"h")])
    serving.put(b"r", [b"h"])
    serving.server.flush("t")
    assert region.statistics().store_file_count == 2  # of f and h
    serving.server.stop()
    serving.server = serving.opened()
    assert len(list((serving.disk.root / "regions" / str(region.region_id)).glob("*.store"))) == 2
    assert serving.fatal == []
    serving.stop()
