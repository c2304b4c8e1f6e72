"""A split that fails while changes are copied to the new regions, and a crash at any call."""

from __future__ import annotations

import contextlib
import errno
import os
import threading
from collections import deque
from collections.abc import Iterator, Sequence
from functools import partial, partialmethod
from pathlib import Path

import pytest
from rowlock_regionserver.clock import Clock
from rowlock_regionserver.data_folder import FORMAT, FORMAT_VERSION
from rowlock_regionserver.errors import (
    DeadlineError,
    DiskFullError,
    NotServingRegionError,
    RegionTooBusyError,
    StoppingError,
    UnknownOutcomeError,
)
from rowlock_regionserver.files import Files
from rowlock_regionserver.host.region_changes import RegionChanges
from rowlock_regionserver.host.region_server import RegionServer
from rowlock_regionserver.inspection.verify import verify
from rowlock_regionserver.operations import RowResult
from rowlock_regionserver.region import copied_changes
from rowlock_regionserver.region.succession import NotedChange, NotedChanges
from rowlock_regionserver.wal.mutation import encode_row

from tests.crash.simulated_files import Call, Loss, SimulatedCrash, SimulatedFiles
from tests.drawn_cases import drawn_calls
from tests.unit.region.conftest import abandon
from tests.waiting import WAIT_S

from .serving_table import CONFIG, Serving
from .table_of_regions import TableOfRegions
from .writes_meanwhile import (
    WHEN,
    When,
    memory_is_counted,
    split_and_copy,
    split_and_prepare,
)


@pytest.fixture
def table(tmp_path: Path) -> Iterator[Serving]:
    serving = Serving(tmp_path)
    yield serving
    serving.server.stop()


def full_at_the_catalog(disk: SimulatedFiles) -> None:
    """From now on there is no space for the catalog once files were linked."""
    links: list[Path] = []

    def full(call: Call) -> None:
        links.extend([call.path] if call.name == "link" else [])
        if call.name == "pwrite" and call.path.parent.name == "catalog" and links:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(call.path))

    disk.before_call = full


@WHEN
def test_after_a_refused_split_the_old_region_has_what_was_written_meanwhile(tmp_path: Path, when: When) -> None:
    disk = SimulatedFiles(tmp_path / "disk")
    table = Serving(disk.root, files=disk)
    table.put(b"r1", b"before")
    full_at_the_catalog(disk)
    with pytest.raises(DiskFullError):
        when(table, lambda: [table.put(row, b"meanwhile") for row in (b"r2", b"r7")])
    disk.before_call = lambda call: None
    table.put(b"r8", b"after")
    expected = [(b"r1", b"before"), (b"r2", b"meanwhile"), (b"r7", b"meanwhile"), (b"r8", b"after")]
    ids = {region.region_id for region in table.regions}
    assert not table.regions[0]._writers.commit.are_changes_noted
    assert table.server._log.known_regions().keys() == ids
    assert memory_is_counted(table)
    for is_restarted in (False, True):
        if is_restarted:
            table.crash()
        assert (table.bounds, table.scan()) == ([(b"", b"")], expected)
    assert table.names("regions") == [str(number) for number in ids]
    table.split(b"r3")
    assert table.scan() == expected
    table.server.stop()


def test_a_split_does_not_wait_for_space_of_the_log(table: Serving, monkeypatch: pytest.MonkeyPatch) -> None:
    """It would wait with the gate held."""
    table.put(b"r1", b"v")
    log = table.server._log
    monkeypatch.setattr(type(log), "waits_for_space", property(lambda _: True))
    monkeypatch.setattr(log, "sync", lambda: False)  # as if nothing became durable
    with pytest.raises(DiskFullError, match="no disk space for the log; nothing was split"):
        table.split(b"r3")
    monkeypatch.undo()
    assert (table.bounds, table.scan()) == ([(b"", b"")], [(b"r1", b"v")])
    table.split(b"r3")
    assert table.bounds == [(b"", b"r3"), (b"r3", b"")]


def test_a_log_without_space_refuses_the_copies(table: Serving, monkeypatch: pytest.MonkeyPatch) -> None:
    def write() -> None:
        table.put(b"r1", b"v")
        monkeypatch.setattr(type(table.server._log._preallocated), "is_full", property(lambda _: True))

    with pytest.raises(DiskFullError, match="no disk space, or no file descriptor"):
        split_and_prepare(table, write)
    monkeypatch.undo()
    assert (table.bounds, table.scan()) == ([(b"", b"")], [(b"r1", b"v")])


@pytest.mark.parametrize("bound", ["numbers", "bytes"])
def test_too_many_changes_refuse_the_split(table: Serving, monkeypatch: pytest.MonkeyPatch, bound: str) -> None:
    def write(count: int) -> None:
        for number in range(count):
            table.put(b"r1", b"%d" % number)

    if bound == "numbers":
        monkeypatch.setattr(copied_changes, "NUMBERS_AHEAD_MAX", 3)
    else:
        byte_count = len(encode_row(b"r1", [(1, [(b"q", 0, 0, b"0")])], None, RowResult(), {}))
        monkeypatch.setattr(NotedChanges, "__init__", partialmethod(NotedChanges.__init__, bytes_max=3 * byte_count))
    with pytest.raises(RegionTooBusyError, match="while it was split; nothing was split, retry"):
        split_and_prepare(table, partial(write, 4))
    assert (table.bounds, table.scan()) == ([(b"", b"")], [(b"r1", b"3")])
    split_and_prepare(table, partial(write, 3))
    assert (len(table.bounds), table.scan()) == (2, [(b"r1", b"2")])


def test_a_change_that_could_not_be_noted_refuses_the_split() -> None:
    class Full(deque[NotedChange]):
        def append(self, change: NotedChange) -> None:
            raise MemoryError

    noted = NotedChanges(5)
    noted.add(6, 16, b"first")
    assert noted.taken() == [(6, 16, b"first")]
    noted._changes = Full()
    noted.add(7, 16, b"lost")
    assert noted.taken() is None


def test_a_split_that_waits_too_long_for_writes_is_refused(table: Serving, monkeypatch: pytest.MonkeyPatch) -> None:
    (old,) = table.regions
    monkeypatch.setattr(RegionChanges, "_deadline", lambda changes: changes.shared.clock.monotonic() + 0.01)
    with pytest.raises(DeadlineError):
        split_and_copy(table, partial(old._parts.gate.enter, table.clock.monotonic() + WAIT_S))
    old._parts.gate.leave()
    monkeypatch.undo()
    table.put(b"r1", b"v")
    table.split(b"r3")
    assert table.scan() == [(b"r1", b"v")]


class Writes:
    """Writes rows during a split. `begun`: the newest value of each row; `made`: the newest acknowledged one."""

    def __init__(self, table: Serving) -> None:
        self.table = table
        self.begun: dict[bytes, bytes] = {}
        self.made: dict[bytes, bytes] = {}

    def put(self, value: bytes, rows: Sequence[bytes] = (b"r1", b"r2", b"r7")) -> None:
        for row in rows:
            self.begun[row] = value
            self.table.put(row, value)
            self.made[row] = value

    def split(self) -> None:
        """Writes before changes are copied, and before writes have to wait."""
        prepare = RegionChanges._successors

        def prepare_and_write(*arguments: object) -> object:
            made = prepare(*arguments)  # type: ignore[arg-type]
            self.put(b"copied first")
            return made

        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(RegionChanges, "_successors", prepare_and_write)
            split_and_copy(self.table, partial(self.put, b"copied last"))


def test_a_crash_at_any_call_loses_nothing_that_was_written_meanwhile(tmp_path: Path) -> None:
    halves, whole = [(b"", b"r3"), (b"r3", b"")], [(b"", b"")]
    done = 0
    for call in drawn_calls(200, 5, "changes copied by a split"):
        disk = SimulatedFiles(tmp_path / f"disk-{call}")
        table = Serving(disk.root, files=disk)
        writes, is_done = Writes(table), False
        writes.put(b"before", [b"r1"])
        disk.crash_at(call)
        with contextlib.suppress(SimulatedCrash, UnknownOutcomeError, StoppingError, NotServingRegionError):
            writes.split()
            is_done = True
        for loss, restarts in ((Loss.NOTHING, 1), (Loss.SOME, 1), (Loss.ALL, 2)):
            image = disk.power_failure(tmp_path / f"image-{call}-{loss.name}", loss)
            for restart in range(restarts):
                again = TableOfRegions(RegionServer.open(image, CONFIG, Clock(), Files(), lambda _: None))
                where = f"call {call}, {loss.name}, restart {restart}"
                assert again.server.damaged_regions() == {}, where
                found = dict(again.scan())
                for row, value in writes.made.items():
                    assert found.get(row) in (value, writes.begun[row]), (where, row)
                assert found.keys() <= writes.begun.keys(), where
                assert again.bounds == halves or (again.bounds == whole and not is_done), where
                # The catalog's commit comes after all changes.
                assert again.bounds == whole or found == writes.begun, where
                folders = {path.name for path in (image / "regions").iterdir()}
                assert folders == {str(region.region_id) for region in again.regions}, where
                done += again.bounds == halves
                again.server.stop()
        has_crashed = disk.is_dead
        with contextlib.suppress(SimulatedCrash):
            abandon(table.server)  # Its threads still run.
        if not has_crashed:
            break
    assert is_done
    assert call > 20, "the crashes did not reach every call"
    assert done > 3, "the split was never found done but when it was over"


def test_copies_are_durable_at_the_catalogs_commit(tmp_path: Path) -> None:
    disk = SimulatedFiles(tmp_path / "disk")
    table = Serving(disk.root, files=disk)
    calls: list[str] = []
    is_committed = threading.Event()

    def crash(call: Call) -> None:
        if "fsync_folder" in calls[1:]:  # It was the commit.
            disk.is_dead = True
            is_committed.set()
        if call.name == "fdatasync":
            is_committed.wait(0.3)  # A slow sync of the log, which the commit must wait for.
        if call.path.parent.name == "catalog" or call.path.name == "catalog":
            calls.append(call.name)

    reserved: list[int] = []

    def write() -> None:
        for row in (b"r1", b"r7", b"r2"):
            table.put(row, b"v")
        given = table.server.timestamp_range("t", 500)
        reserved.append(given.now_ms + given.reserved_ms)
        calls.append("written")
        disk.before_call = crash

    (old,) = table.regions
    with contextlib.suppress(SimulatedCrash, UnknownOutcomeError):
        split_and_copy(table, write)
    assert disk.is_dead, calls
    again = TableOfRegions(
        RegionServer.open(disk.power_failure(tmp_path / "image", Loss.ALL), CONFIG, Clock(), Files(), lambda _: None)
    )
    assert not again.server.damaged_regions()
    assert again.bounds == [(b"", b"r3"), (b"r3", b"")]
    assert again.scan() == [(b"r1", b"v"), (b"r2", b"v"), (b"r7", b"v")]
    assert [region.newest_write_number for region in again.regions] == [old.newest_write_number] * 2
    assert again.put(b"r7", b"later").timestamp > reserved[0]
    again.server.stop()
    with contextlib.suppress(SimulatedCrash):
        abandon(table.server)


def test_copies_without_the_catalogs_commit_are_no_damage(tmp_path: Path) -> None:
    disk = SimulatedFiles(tmp_path / "disk")
    table = Serving(disk.root, files=disk)

    def crash(call: Call) -> None:
        disk.is_dead = call.name == "rename" and call.path.parent.name == "catalog"

    def write() -> None:
        for row in (b"r1", b"r7"):
            table.put(row, b"v")
        disk.before_call = crash

    with contextlib.suppress(SimulatedCrash, UnknownOutcomeError):
        split_and_prepare(table, write)
    assert disk.is_dead
    image = disk.power_failure(tmp_path / "image", Loss.NOTHING)
    (image / FORMAT).write_text(f"rowlock data folder, format {FORMAT_VERSION}, id {'0' * 32}\n")
    assert not verify(image, Files()).damage
    again = TableOfRegions(RegionServer.open(image, CONFIG, Clock(), Files(), lambda _: None))
    assert not again.server.damaged_regions()
    assert again.server._log.known_regions().keys() == {region.region_id for region in again.regions}
    assert (again.bounds, again.scan()) == ([(b"", b"")], [(b"r1", b"v"), (b"r7", b"v")])
    again.server.stop()
    with contextlib.suppress(SimulatedCrash):
        abandon(table.server)
