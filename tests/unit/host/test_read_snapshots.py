"""Named snapshots are read as tables of their names, and not changed."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from rowlock_regionserver.cells import Durability
from rowlock_regionserver.clock import ManualClock
from rowlock_regionserver.errors import (
    CorruptionError,
    InvalidRequestError,
    NotServingRegionError,
    OutOfMemoryError,
    SnapshotEndedError,
    SnapshotNotFoundError,
    TableNotFoundError,
    TooManyOpenFilesError,
)
from rowlock_regionserver.files import Files
from rowlock_regionserver.host.region_server import RegionServer
from rowlock_regionserver.operations import (
    Put,
    RowMutation,
    ScanPlan,
    Selection,
    WriteOptions,
)

from tests.unit.region.conftest import bulk_batch
from tests.waiting import WAIT_S

from .restored_table import put_all
from .serving_table import CONFIG, FAMILIES, Serving, fill
from .table_of_regions import TableOfRegions, cells_of

SNAPSHOT = b"snapshot is 16 b"


@pytest.fixture
def table(tmp_path: Path) -> Iterator[Serving]:
    serving = Serving(tmp_path)
    yield serving
    serving.server.stop()


def readable(table: Serving, name: str = "@s") -> list[tuple[bytes, bytes]]:
    found: list[tuple[bytes, bytes]] = []
    for region in table.server.readable_regions_of(name):
        with table.server.region(region.region_id).scan(ScanPlan()) as (_, answers):
            found += cells_of(answers)
    return found


def test_a_snapshot_is_read_without_a_table(table: Serving) -> None:
    rows = fill(table)
    table.split(b"r000013")
    table.server.create_named_snapshot("s", "t")
    put_all(table, b"later")
    assert readable(table) == rows
    table.server.drop_table("t")
    table.restart()
    assert readable(table) == rows
    (_, last) = table.server.readable_regions_of("@s")
    (cells,) = last.get([b"r000030"], Selection(), may_wait=True) or []
    assert [value for _, _, _, value in cells] == [b"of r000030"]
    assert table.server.readable_entry("@s").table.name == "@s"


def test_what_is_read_by_name_can_not_be_changed(table: Serving) -> None:
    fill(table)
    server = table.server
    server.create_named_snapshot("s", "t")
    (region,) = server.readable_regions_of("@s")
    options = WriteOptions(server._shared.clock.monotonic() + WAIT_S, Durability.FSYNC)
    for call in (
        lambda: region.mutate([RowMutation(b"r1", (Put(b"f", b"q", b"v"),))], options, lambda _: None, may_wait=True),
        lambda: region.mutate_each([], options, lambda places, outcomes: None),
        lambda: region.bulk_put(bulk_batch((b"r1", b"f", b"q", None, b"v")), None, options, lambda _: None),
        lambda: region.bulk_load,
        region.flush,
        region.compaction_facts,
    ):
        with pytest.raises(InvalidRequestError, match="restore it"):
            call()
    for change in (
        lambda: server.split_region("@s", region.region_id, b"r000005"),
        lambda: server.drop_table("@s"),
        lambda: server.truncate_table("@s"),
        lambda: server.alter_table("@s", drop_families=[b"f"]),
        lambda: server.create_named_snapshot("s2", "@s"),
        lambda: server.flush("@s"),
    ):
        with pytest.raises(TableNotFoundError, match="restore it"):
            change()
    with pytest.raises(InvalidRequestError, match="not a table name"):
        server.create_table("@x", FAMILIES)
    with pytest.raises(InvalidRequestError, match="not a table name"):
        server.restore_named_snapshot("s", "@x")
    with pytest.raises(SnapshotNotFoundError):
        server.readable_regions_of("@other")


def test_a_leased_snapshot_of_it_reads_until_it_is_dropped(table: Serving) -> None:
    rows = fill(table)
    server = table.server
    server.create_named_snapshot("s", "t")
    server.make_snapshot("@s", SNAPSHOT, 0, "")
    server.drop_table("t")  # It ends the snapshots of this table only.
    (region,) = server.readable_regions_of("@s")
    with server.region_at(region.region_id, SNAPSHOT).scan(ScanPlan(batch_rows=5)) as (_, answers):
        found = [(cell["row"], cell["value"]) for cell in next(answers).table.to_pylist()]
        server.drop_named_snapshot("s")
        with pytest.raises(NotServingRegionError):
            region.get([b"r1"], Selection(), may_wait=True)
        assert found + cells_of(answers) == rows  # A scan that has begun reads to its end.
    with pytest.raises(SnapshotEndedError, match="was dropped"):
        server.snapshots.check(SNAPSHOT)
    del region, answers
    server._shared.open_files.close_released()
    assert table.names("regions") == []


def test_a_snapshot_that_nobody_reads_is_closed_and_opened_again(tmp_path: Path) -> None:
    clock = ManualClock()
    server = RegionServer.open(tmp_path, CONFIG, clock, Files(), lambda error: None)
    server.create_table("t", FAMILIES)
    TableOfRegions(server).put(b"r1", b"v")
    server.create_named_snapshot("s", "t")
    (region,) = server.readable_regions_of("@s")
    with region.scan(ScanPlan()) as (_, answers):
        clock.advance(1000_000)
        server._read_snapshots.close_unused()
        assert cells_of(answers) == [(b"r1", b"v")]
    clock.advance(299_000)
    assert server.region(region.region_id) is region
    server._read_snapshots.close_unused()
    clock.advance(299_000)
    server._read_snapshots.close_unused()
    assert server.region(region.region_id) is region
    clock.advance(301_000)
    server._read_snapshots.close_unused()
    with pytest.raises(NotServingRegionError):
        server.region(region.region_id)
    with pytest.raises(NotServingRegionError):
        region.get([b"r1"], Selection(), may_wait=True)
    (again,) = server.readable_regions_of("@s")
    assert again.get([b"r1"], Selection(), may_wait=True) != [()]
    server.stop()


def test_a_damaged_snapshot_is_not_read(table: Serving) -> None:
    fill(table)
    snapshot = table.server.create_named_snapshot("s", "t")
    path = next((table.folder / "regions" / str(snapshot.entry.regions[0].region_id)).glob("*.store"))
    path.unlink()
    # A bare OSError became "unexpected FileNotFoundError in the server", with a traceback in its log.
    with pytest.raises(CorruptionError, match=path.name):
        table.server.readable_regions_of("@s")
    table.server.drop_named_snapshot("s")


@pytest.mark.parametrize(
    ("error_number", "call", "raised", "message"),
    [
        (errno.EMFILE, "open", TooManyOpenFilesError, "no file descriptor is left"),
        (errno.ENOMEM, "open", OutOfMemoryError, "Cannot allocate memory"),
        (errno.ENOMEM, "pread_into", OutOfMemoryError, "Cannot allocate memory"),
        (errno.EIO, "open", CorruptionError, "can't be read: Input/output error"),
        (errno.EIO, "pread_into", CorruptionError, "can't be read at byte .*: Input/output error"),
    ],
)
def test_a_snapshot_that_could_not_be_opened_says_why_and_can_be_read_later(
    table: Serving,
    monkeypatch: pytest.MonkeyPatch,
    error_number: int,
    call: str,
    raised: type[Exception],
    message: str,
) -> None:
    """A lack of memory was "unexpected OSError in the server", and an error of the disk was called damage."""

    def refuse(*_: object) -> None:
        raise OSError(error_number, os.strerror(error_number))

    rows = fill(table)
    table.server.create_named_snapshot("s", "t")
    with monkeypatch.context() as patched:
        patched.setattr(os if call == "open" else Files, call, refuse)
        with pytest.raises(raised, match=message):
            table.server.readable_regions_of("@s")
    assert readable(table) == rows


def test_a_snapshot_without_a_folder_is_not_read(table: Serving) -> None:
    fill(table)
    snapshot = table.server.create_named_snapshot("s", "t")
    folder = table.folder / "regions" / str(snapshot.entry.regions[0].region_id)
    shutil.rmtree(folder)
    with pytest.raises(CorruptionError, match=str(folder)):
        table.server.readable_regions_of("@s")
    with pytest.raises(CorruptionError, match=str(folder)):
        table.server.restore_named_snapshot("s", "restored")
    table.server.drop_named_snapshot("s")
