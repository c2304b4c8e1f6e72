"""An orderly stop on a full disk: it does not wait for space, reports unflushed regions, and loses nothing."""

from __future__ import annotations

import errno
import os
import threading
from pathlib import Path

import pytest
from rowlock_regionserver.cells import Durability, Family
from rowlock_regionserver.clock import Clock
from rowlock_regionserver.config import Config
from rowlock_regionserver.errors import UnknownOutcomeError
from rowlock_regionserver.files import Files
from rowlock_regionserver.host.region_server import RegionServer
from rowlock_regionserver.host.stopping import Unflushed, unflushed_text
from rowlock_regionserver.operations import Put, RowMutation, RowOutcome, Selection, WriteOptions

from tests.crash.simulated_files import Call, Loss, SimulatedFiles
from tests.threads import is_at, wait_until_it_ends_or, wait_until_it_waits
from tests.waiting import WAIT_S, wait_until

SEGMENT_BYTES = 1 << 16


class Serving:
    """A server with a small log on a disk that can be filled."""

    def __init__(self, root: Path, durability: Durability = Durability.FSYNC, *, flushes_all: bool = False) -> None:
        """`flushes_all`: the flush threads flush whatever is in memory."""
        self._memstore_flush_bytes = 1 if flushes_all else Config().memstore_flush_bytes
        self.disk = SimulatedFiles(root)
        self.fatal: list[BaseException] = []
        self.server = self.opened(root)
        for name in ("t", "u"):
            self.server.create_table(name, [Family(0, b"f")], durability)

    def opened(self, folder: Path) -> RegionServer:
        config = Config(
            log_segment_bytes=SEGMENT_BYTES, disk_free_bytes_min=0, memstore_flush_bytes=self._memstore_flush_bytes
        )
        return RegionServer.open(folder, config, Clock(), self.disk, self.fatal.append)

    def fill(self, *folders: str) -> None:
        """Refuses new files and allocations in these folders of the data folder from now on."""

        def refuse(call: Call) -> None:
            parts = call.path.relative_to(self.disk.root).parts
            if call.name in ("allocate", "create") and parts[0] in folders:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(call.path))

        self.disk.before_call = refuse

    def empty(self) -> None:
        self.disk.before_call = lambda call: None

    def begin_put(self, table: str, row: bytes, value: bytes) -> list[RowOutcome]:
        """Begins a put; returns the list that gets its outcome."""
        (region,) = self.server.regions_of(table)
        outcomes: list[RowOutcome] = []
        mutation = RowMutation(row, (Put(b"f", b"q", value),))
        region.mutate([mutation], WriteOptions(Clock().monotonic() + WAIT_S), outcomes.extend, may_wait=True)
        return outcomes

    def put(self, table: str, row: bytes) -> None:
        outcomes = self.begin_put(table, row, b"v")
        wait_until(lambda: bool(outcomes))
        assert not isinstance(outcomes[0], Exception)

    def stop(self) -> list[Unflushed]:
        """Stops the server. Fails if that takes longer than a stop may."""
        left: list[list[Unflushed]] = []
        stopping = threading.Thread(target=lambda: left.append(self.server.stop()), daemon=True)
        stopping.start()
        wait_until_it_ends_or(stopping, lambda: self._log_is_stopping() or is_at(stopping, "flush"))
        assert self._log_is_stopping(), "it waits for space"
        stopping.join(WAIT_S / 3)
        assert not stopping.is_alive(), "it waits for space"
        return left[0]

    def _log_is_stopping(self) -> bool:
        return self.server._log._preallocated._is_stopping

    def has(self, server: RegionServer, table: str, row: bytes) -> bool:
        (region,) = server.regions_of(table)
        answer = region.get([row], Selection(), may_wait=True)
        assert answer is not None
        return bool(answer[0])


@pytest.fixture
def serving(tmp_path: Path) -> Serving:
    return Serving(tmp_path / "data")


def test_regions_that_a_stop_can_not_flush_are_reported_and_stay_in_the_log(serving: Serving) -> None:
    serving.put("t", b"r")
    serving.put("u", b"r")
    serving.server.flush("u")
    serving.fill("regions")
    (left,) = serving.stop()
    assert (left.table, left.byte_count > 0) == ("t", True)
    assert "No space" in left.why
    serving.empty()
    again = serving.opened(serving.disk.root)
    assert serving.has(again, "t", b"r")
    assert serving.has(again, "u", b"r")
    assert again.stop() == []
    assert serving.fatal == []


@pytest.mark.parametrize("is_flushing", [False, True])
def test_a_stop_does_not_wait_for_a_log_segment(tmp_path: Path, *, is_flushing: bool) -> None:
    serving = Serving(tmp_path / "data", flushes_all=is_flushing)
    serving.put("t", b"r")
    serving.put("u", b"r")
    serving.fill("log")
    waiting = serving.begin_put("t", b"late", b"v" * SEGMENT_BYTES)  # needs a segment of its own
    wait_until(lambda: serving.server.statistics().log.is_full)
    if is_flushing:  # The flush thread waits until that is published.
        (region,) = serving.server.regions_of("t")
        wait_until(lambda: region.segment_count == 1)
    assert waiting == []
    (left,) = serving.stop()
    assert (left.table, "no disk space for the log" in left.why) == ("t", True)
    assert isinstance(waiting[0], UnknownOutcomeError)
    assert serving.fatal == []
    serving.empty()
    again = serving.opened(serving.disk.root)
    assert serving.has(again, "t", b"r")
    assert serving.has(again, "u", b"r")
    assert not serving.has(again, "t", b"late")
    assert again.stop() == []


@pytest.mark.parametrize("durability", [Durability.ASYNC, Durability.OS])
def test_writes_that_were_answered_before_their_sync_survive_a_stop_without_space(
    tmp_path: Path, durability: Durability
) -> None:
    serving = Serving(tmp_path / "data", durability)
    serving.fill("log", "regions")
    serving.put("t", b"r")
    waiting = serving.begin_put("t", b"late", b"v" * SEGMENT_BYTES)
    assert [left.table for left in serving.stop()] == ["t"]
    assert isinstance(waiting[0], UnknownOutcomeError)
    serving.empty()
    image = serving.disk.power_failure(tmp_path / "image", Loss.ALL)
    again = RegionServer.open(image, Config(), Clock(), Files(), serving.fatal.append)
    assert serving.has(again, "t", b"r")
    again.stop()
    assert serving.fatal == []


def test_a_stop_waits_for_a_segment_that_is_only_not_ready_yet(serving: Serving) -> None:
    may_go_on, in_allocation = threading.Event(), threading.Event()

    def hold(call: Call) -> None:
        if call.name == "allocate":
            in_allocation.set()
            assert may_go_on.wait(WAIT_S)

    serving.disk.before_call = hold
    waiting = serving.begin_put("t", b"r", b"v" * SEGMENT_BYTES)
    assert in_allocation.wait(WAIT_S)
    left: list[Unflushed] = []
    stopping = threading.Thread(target=lambda: left.extend(serving.stop()), daemon=True)
    stopping.start()
    wait_until_it_waits(stopping)
    may_go_on.set()
    stopping.join(WAIT_S)
    assert left == []
    assert not isinstance(waiting[0], Exception)
    assert serving.fatal == []


def test_many_tables_are_reported_in_one_line() -> None:
    left = [Unflushed(f"table{number}", 100, "no space in /data; free some.") for number in range(8)]
    line = unflushed_text(left)
    assert "'table0' (100 bytes in memory)" in line
    assert "and 3 more" in line
    assert "no space in /data; free some; acknowledged" in line
