"""Tables of one folder: created, altered, truncated, dropped, and recovered."""

from __future__ import annotations

import errno
import threading
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from rowlock_regionserver.cells import Durability, Family
from rowlock_regionserver.clock import Clock
from rowlock_regionserver.config import Config
from rowlock_regionserver.errors import (
    CorruptionError,
    DiskFullError,
    FamilyNotFoundError,
    InvalidRequestError,
    NotServingRegionError,
    TableExistsError,
    TableNotFoundError,
)
from rowlock_regionserver.files import Files
from rowlock_regionserver.host.flushing import FlushThreads
from rowlock_regionserver.host.region_server import RegionServer
from rowlock_regionserver.operations import Delete, DeleteKind, Put, RowMutation, Selection, WriteOptions
from rowlock_regionserver.region.region import Region

from tests.unit.region.conftest import abandon
from tests.waiting import WAIT_S, wait_until


class Open:
    """Opens the test's folder, after it has ended the server that runs there: a second call is a restart."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._running: RegionServer | None = None

    def __call__(self, *, crash: bool = False) -> RegionServer:
        self.end(crash=crash)
        self._running = RegionServer.open(self._folder, Config(), Clock(), Files(), _no_fatal)
        return self._running

    def end(self, *, crash: bool = False) -> None:
        """Ends it in an orderly way, or like a kill."""
        server, self._running = self._running, None
        if server is not None:
            abandon(server) if crash else server.stop()


@pytest.fixture
def open_server(tmp_path: Path) -> Iterator[Open]:
    opening = Open(tmp_path)
    yield opening
    opening.end()


def _no_fatal(error: BaseException) -> None:
    raise AssertionError(error)


def put(
    server: RegionServer,
    row: bytes,
    family: bytes = b"f",
    value: bytes = b"v",
    table: str = "t",
    timestamp: int | None = None,
) -> None:
    mutate(server, RowMutation(row, (Put(family, b"q", value, timestamp),)), table)


def mutate(server: RegionServer, mutation: RowMutation, table: str = "t") -> None:
    (region,) = server.regions_of(table)
    told = threading.Event()
    region.mutate([mutation], WriteOptions(Clock().monotonic() + WAIT_S), lambda _: told.set(), may_wait=True)
    assert told.wait(WAIT_S)


def cells(server: RegionServer, row: bytes, versions: int = 1, table: str = "t") -> list[bytes]:
    (region,) = server.regions_of(table)
    answer = region.get([row], Selection(versions=versions), may_wait=True)
    assert answer is not None
    return [cell[3] for cell in answer[0]]


FAMILIES = [Family(0, b"f"), Family(0, b"g")]


def test_a_table_is_there_after_a_restart_with_its_settings(open_server: Open) -> None:
    made = open_server().create_table("t", [Family(0, b"f", versions=3, time_to_live_ms=5000)], Durability.OS)
    assert open_server().table("t") == made
    assert made.families[0].number == 1


def test_unknown_and_existing_names_are_refused(open_server: Open) -> None:
    server = open_server()
    server.create_table("t", FAMILIES)
    with pytest.raises(TableExistsError):
        server.create_table("t", FAMILIES)
    for call in (server.table, server.drop_table, server.truncate_table, server.flush, server.regions_of):
        with pytest.raises(TableNotFoundError):
            call("nosuch")


@pytest.mark.parametrize("name", ["", "../x", "a/b", "a" * 300, "a\0b", ".x", "-x", "a b", "ä", "a\n"])
def test_names_outside_the_pattern_are_refused(open_server: Open, name: str) -> None:
    with pytest.raises(InvalidRequestError):
        open_server().create_table(name, FAMILIES)


@pytest.mark.parametrize(
    "family",
    [
        Family(0, b""),
        Family(0, b"a:b"),
        Family(0, b"x" * 128),
        Family(0, b".x"),
        Family(0, b"a\x00"),
        Family(0, b"f", versions=0),
        Family(0, b"f", versions=1, min_versions=2),
        Family(0, b"f", time_to_live_ms=-1),
        Family(0, b"f", block_bytes=1),
    ],
)
def test_bad_families_are_refused_and_nothing_is_made(open_server: Open, family: Family) -> None:
    server = open_server()
    with pytest.raises(InvalidRequestError):
        server.create_table("t", [family])
    assert server.tables() == []


def test_no_families_and_twice_the_same_are_refused(open_server: Open) -> None:
    server = open_server()
    for families in ([], [Family(0, b"f"), Family(0, b"f")]):
        with pytest.raises(InvalidRequestError):
            server.create_table("t", families)


@pytest.mark.parametrize("crash", [False, True])
def test_a_dropped_table_leaves_nothing_and_its_ids_are_never_used_again(
    open_server: Open, tmp_path: Path, crash: bool
) -> None:
    server = open_server()
    first = server.create_table("t", FAMILIES)
    (region,) = server.regions_of("t")
    put(server, b"r")
    server.flush("t")
    put(server, b"s")
    server.drop_table("t")
    assert list((tmp_path / "regions").iterdir()) == []
    with pytest.raises(NotServingRegionError):
        region.get([b"r"], Selection(), may_wait=True)
    again = server.create_table("t", FAMILIES)
    assert again.table_id > first.table_id
    assert server.regions_of("t")[0].region_id > region.region_id
    assert cells(server, b"r") == []
    server = open_server(crash=crash)
    assert cells(server, b"r") == cells(server, b"s") == []


@pytest.mark.parametrize("is_created_again", [False, True])
def test_log_records_of_a_dropped_table_are_in_no_table_after_a_crash(
    open_server: Open, *, is_created_again: bool
) -> None:
    server = open_server()
    expected: dict[str, dict[bytes, list[bytes]]] = {"kept": {b"a": [b"kept"], b"b": []}}
    for table in ("kept", "t"):
        server.create_table(table, FAMILIES)
    for row in (b"a", b"b"):
        put(server, row, value=b"old")
        put(server, row, b"g", b"old")
    put(server, b"a", value=b"kept", table="kept")
    server.drop_table("t")
    if is_created_again:
        server.create_table("t", FAMILIES)
        put(server, b"a", value=b"new")
        expected["t"] = {b"a": [b"new"], b"b": []}
    for _ in range(2):
        server = open_server(crash=True)
        assert server.damaged_regions() == {}
        found = {
            table.name: {row: cells(server, row, 3, table.name) for row in (b"a", b"b")} for table in server.tables()
        }
        assert found == expected


@pytest.mark.parametrize("crash", [False, True])
def test_truncate_removes_every_cell_for_good(open_server: Open, crash: bool) -> None:
    server = open_server()
    server.create_table("t", FAMILIES)
    put(server, b"r")
    server.flush("t")
    put(server, b"s")
    server.truncate_table("t")
    assert cells(server, b"r") == cells(server, b"s") == []
    put(server, b"new")
    server = open_server(crash=crash)
    assert cells(server, b"r") == cells(server, b"s") == []
    assert cells(server, b"new") == [b"v"]


@pytest.mark.parametrize("crash", [False, True])
def test_a_dropped_familys_cells_are_gone_also_for_a_later_family_of_the_same_name(
    open_server: Open, crash: bool
) -> None:
    server = open_server()
    server.create_table("t", FAMILIES)
    put(server, b"flushed", b"g")
    server.flush("t")
    put(server, b"logged", b"g")
    put(server, b"kept", b"f")
    server.alter_table("t", drop_families=[b"g"])
    with pytest.raises(FamilyNotFoundError):
        server.alter_table("t", drop_families=[b"g"])
    server.alter_table("t", set_families=[Family(0, b"g")])
    assert cells(server, b"flushed") == cells(server, b"logged") == []
    server = open_server(crash=crash)
    assert cells(server, b"flushed") == cells(server, b"logged") == []
    assert cells(server, b"kept") == [b"v"]


def test_more_versions_are_kept_from_the_alter_on(open_server: Open) -> None:
    server = open_server()
    server.create_table("t", FAMILIES)
    put(server, b"r", value=b"1")
    server.alter_table("t", set_families=[Family(0, b"f", versions=2)])
    for timestamp, value in ((Clock().now_ms() + 1000, b"2"), (Clock().now_ms() + 2000, b"3")):
        put(server, b"r", value=value, timestamp=timestamp)
    assert cells(server, b"r", versions=5) == [b"3", b"2"]


def test_the_last_family_is_not_dropped(open_server: Open) -> None:
    server = open_server()
    server.create_table("t", FAMILIES)
    with pytest.raises(InvalidRequestError):
        server.alter_table("t", drop_families=[b"f", b"g"])


def test_an_empty_folder_that_no_catalog_names_is_removed_at_start(open_server: Open, tmp_path: Path) -> None:
    open_server().create_table("t", FAMILIES)
    leftover = tmp_path / "regions" / "99"
    leftover.mkdir()
    assert open_server().set_aside == ()
    assert not leftover.exists()


def test_a_missing_catalog_beside_regions_is_damage_and_nothing_is_removed(open_server: Open, tmp_path: Path) -> None:
    server = open_server()
    server.create_table("t", FAMILIES)
    open_server.end()
    for path in (tmp_path / "catalog").iterdir():
        path.unlink()
    with pytest.raises(CorruptionError):
        RegionServer.open(tmp_path, Config(), Clock(), Files(), _no_fatal)
    assert list((tmp_path / "regions").iterdir())


def test_a_region_with_a_damaged_manifest_is_closed_and_named_and_the_others_serve(
    open_server: Open, tmp_path: Path
) -> None:
    server = open_server()
    server.create_table("t", FAMILIES)
    server.create_table("whole", FAMILIES)
    (region,) = server.regions_of("t")
    open_server.end()
    newest = sorted((tmp_path / "regions" / str(region.region_id)).glob("manifest*"))[-1]
    damaged = bytearray(newest.read_bytes())
    damaged[len(damaged) // 2] ^= 1
    newest.write_bytes(damaged)
    server = open_server()
    with pytest.raises(CorruptionError, match="manifest"):
        server.regions_of("t")
    assert list(server.damaged_regions()) == [region.region_id]
    assert len(server.regions_of("whole")) == 1


def test_requests_for_a_damaged_region_are_not_kept(open_server: Open, tmp_path: Path) -> None:
    server = open_server()
    server.create_table("t", FAMILIES)
    (region,) = server.regions_of("t")
    open_server.end()
    sorted((tmp_path / "regions" / str(region.region_id)).glob("manifest*"))[-1].write_bytes(b"damaged")
    server = open_server()

    def request() -> int:
        """Returns how many frames the error has."""
        try:
            server.region(region.region_id)
        except CorruptionError as error:
            return len(traceback.extract_tb(error.__traceback__))
        raise AssertionError("the region is damaged")

    assert {request() for _ in range(5)} == {request()}


def test_damage_in_the_log_closes_the_regions_that_lost_something_and_the_others_serve(
    open_server: Open, tmp_path: Path
) -> None:
    server = open_server()
    server.create_table("t", FAMILIES)
    server.create_table("whole", FAMILIES)
    put(server, b"r", value=b"to be damaged")
    put(server, b"r")
    put(server, b"r", table="whole")
    (region,) = server.regions_of("t")
    open_server.end(crash=True)
    (segment,) = (tmp_path / "log").glob("*.wal")
    content = bytearray(segment.read_bytes())
    content[content.index(b"to be damaged")] ^= 1
    segment.write_bytes(content)
    for _ in range(2):
        server = open_server()
        assert list(server.damaged_regions()) == [region.region_id]
        with pytest.raises(CorruptionError) as caught:
            server.regions_of("t")
        assert caught.value.path.parent == segment.parent
        assert cells(server, b"r", table="whole") == [b"v"]


def test_a_missing_log_is_not_a_new_one(open_server: Open, tmp_path: Path) -> None:
    server = open_server()
    server.create_table("t", FAMILIES)
    open_server.end()
    for path in (tmp_path / "log").iterdir():
        path.unlink()
    with pytest.raises(CorruptionError, match="the segments of log"):
        RegionServer.open(tmp_path, Config(), Clock(), Files(), _no_fatal)


@pytest.mark.parametrize("is_in_files", [False, True])
def test_deleted_rows_leave_memory_and_files_without_a_request(open_server: Open, is_in_files: bool) -> None:
    server = open_server()
    server.create_table("t", FAMILIES[:1], Durability.OS, properties={"compaction.memory_tombstones": "20"})
    for number in range(20):
        put(server, b"%d" % number)
    if is_in_files:
        server.flush("t")
    (region,) = server.regions_of("t")
    for number in range(20):
        mutate(server, RowMutation(b"%d" % number, (Delete(DeleteKind.ROW),)))
    ends_at = Clock().monotonic() + WAIT_S
    while (facts := region.compaction_facts()[0]).files or facts.memory.row_count:
        assert Clock().monotonic() < ends_at, facts
        threading.Event().wait(0.001)


def test_the_ledger_counts_the_memory_of_open_files(open_server: Open) -> None:
    server = open_server()
    server.create_table("t", FAMILIES)
    put(server, b"r")
    held = server.ledger.statistics()
    assert held["memstore_bytes_max"].bytes_held == server.statistics().memstore_bytes > 0
    assert held["index_bytes_max"].bytes_held == 0
    (region,) = server.regions_of("t")
    server.flush_region(region)
    assert cells(server, b"r") == [b"v"]
    held = server.ledger.statistics()
    assert held["memstore_bytes_max"].bytes_held == 0
    assert held["index_bytes_max"].bytes_held > 0
    assert held["block_cache_bytes_max"].bytes_held > 0


class OvertakingFlushes(FlushThreads):
    """The start of its thread returns when the first flush has ended, as it may on a busy machine."""

    def __init__(self, *parts: Any) -> None:  # Any: passed on
        super().__init__(*parts)
        self._start = self.thread.start
        self.thread.start = self._start_and_wait  # type: ignore[method-assign]  # this thread's only
        self._has_flushed = threading.Event()

    def _start_and_wait(self) -> None:
        self._start()
        assert self._has_flushed.wait(WAIT_S)

    def _flush_one(self, region: Region, work_bytes: int) -> None:
        super()._flush_one(region, work_bytes)
        self._has_flushed.set()


def test_a_flush_may_end_before_the_server_has_started_its_other_threads(
    open_server: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Then the server ended right after its start: the flush was to wake compactions that were not there yet."""
    server = open_server()
    server.create_table("t", FAMILIES)
    put(server, b"r")
    open_server.end(crash=True)
    monkeypatch.setattr("rowlock_regionserver.host.region_server.FlushThreads", OvertakingFlushes)
    fatal: list[BaseException] = []
    server = RegionServer.open(tmp_path, Config(memstore_flush_bytes=1), Clock(), Files(), fatal.append)
    assert fatal == []
    (region,) = server.regions_of("t")
    assert region.memstore_bytes == 0, "nothing was flushed"
    assert cells(server, b"r") == [b"v"]
    server.stop()


def test_the_block_cache_borrows_unused_memory_and_returns_it(tmp_path: Path) -> None:
    config = Config(block_cache_bytes=0)
    server = RegionServer.open(tmp_path, config, Clock(), Files(), _no_fatal)
    try:
        server.create_table("t", FAMILIES)
        put(server, b"r")
        (region,) = server.regions_of("t")
        server.flush_region(region)
        assert cells(server, b"r") == [b"v"]
        ledger = server.ledger
        assert ledger.statistics()["block_cache_bytes_max"].bytes_held > 0
        with ledger.requests.taken(config.request_bytes_in_flight_max):
            assert ledger.statistics()["block_cache_bytes_max"].bytes_held > 0, "there is enough for both"
            ledger.flushes.add(config.memory)
            assert ledger.statistics()["block_cache_bytes_max"].bytes_held == 0
            ledger.flushes.give(config.memory)
        assert cells(server, b"r") == [b"v"]
    finally:
        server.stop()


class FullFiles(Files):
    """Has no space for manifests while it `is_full`."""

    is_full = False

    def rename(self, source: Path, target: Path) -> None:
        if self.is_full and target.name.startswith("manifest"):
            raise OSError(errno.ENOSPC, "No space left on device", str(target))
        super().rename(source, target)


def test_a_manifest_for_which_there_was_no_space_is_written_when_there_is(tmp_path: Path) -> None:
    files = FullFiles()
    server = RegionServer.open(tmp_path, Config(), Clock(), files, _no_fatal)
    server.create_table("t", [Family(0, b"f", versions=3)])
    put(server, b"r")
    files.is_full = True
    server.alter_table("t", set_families=[Family(0, b"f")])
    (region,) = server.regions_of("t")
    with pytest.raises(DiskFullError, match="manifest of region"):
        put(server, b"r")
    assert cells(server, b"r") == [b"v"]
    files.is_full = False
    wait_until(lambda: not region.altering.owes_limits)
    put(server, b"r", value=b"w")
    assert cells(server, b"r") == [b"w"]
    server.stop()
