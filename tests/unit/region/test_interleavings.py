"""Interleavings that matter, forced: one part is blocked at a step while another continues."""

from __future__ import annotations

import struct
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import pytest
from rowlock_regionserver.cells import Durability, ReadPoint
from rowlock_regionserver.clock import Clock, ManualClock
from rowlock_regionserver.config import Config
from rowlock_regionserver.errors import FamilyNotFoundError, StoppingError
from rowlock_regionserver.files import Files
from rowlock_regionserver.operations import (
    Increment,
    Put,
    RowMutation,
    RowOutcome,
    RowResult,
    ScanPlan,
    Selection,
    WriteOptions,
)

from .conftest import WAIT_S, Engine, HeldFiles, bulk_batch

T = TypeVar("T")

# Far more than a read takes, and the reader that waits for a lock is told from it all the same.
READ_S = 20.0


class Hold:
    """Blocks the first call of a function until it is released, and signals when it was reached."""

    def __init__(self) -> None:
        self.reached = threading.Event()
        self.let_go = threading.Event()

    def before(self, call: Callable[..., T]) -> Callable[..., T]:
        def held(*arguments: object, **named: object) -> T:
            self._stop()
            return call(*arguments, **named)

        return held

    def after(self, call: Callable[..., T]) -> Callable[..., T]:
        def held(*arguments: object, **named: object) -> T:
            answer = call(*arguments, **named)
            self._stop()
            return answer

        return held

    def wait_reached(self, by: threading.Thread) -> None:
        """Waits until the call is reached. AssertionError if the thread ends before that, as in a broken build."""
        while not self.reached.wait(0.01):
            assert by.is_alive()

    def _stop(self) -> None:
        if not self.reached.is_set():
            self.reached.set()
            assert self.let_go.wait(WAIT_S)


def in_background(action: Callable[[], object]) -> threading.Thread:
    thread = threading.Thread(target=action)
    thread.start()
    return thread


def long(value: int) -> bytes:
    return struct.pack(">q", value)


@pytest.fixture
def fast_switching() -> Iterator[None]:
    """Switches threads so often that a missing lock shows."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.mark.usefixtures("fast_switching")
def test_increments_from_many_threads_are_all_counted(engine: Engine) -> None:
    def count() -> None:
        for _ in range(100):
            engine.change(b"hot", Increment(b"f", b"n", 1))

    threads = [in_background(count) for _ in range(6)]
    for thread in threads:
        thread.join(120)
    assert engine.values(b"hot") == {b"f:n": long(600)}


def test_a_writer_compares_after_the_one_before_it_has_applied(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    first = between_compare_and_begin(engine, monkeypatch)
    second = in_background(lambda: engine.change(b"r", Increment(b"f", b"n", 1)))
    while second.is_alive() and not engine.region.statistics().row_locks.waiting:
        threading.Event().wait(0.001)
    first.hold.let_go.set()
    first.thread.join(WAIT_S)
    second.join(WAIT_S)
    assert engine.values(b"r") == {b"f:n": long(2)}


def test_a_bulk_batch_waits_for_the_row_that_is_between_compare_and_apply(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = between_compare_and_begin(engine, monkeypatch)
    bulk = in_background(lambda: engine.bulk(bulk_batch((b"r", b"f", b"n", None, long(100)))))
    gate = engine.region._parts.gate
    while bulk.is_alive() and not gate.statistics().exclusive_waiting:
        threading.Event().wait(0.001)
    assert bulk.is_alive()
    first.hold.let_go.set()
    first.thread.join(WAIT_S)
    bulk.join(WAIT_S)
    assert engine.values(b"r") == {b"f:n": long(100)}


@dataclass
class Held:
    """A thread that is blocked at a hold."""

    hold: Hold
    thread: threading.Thread


def between_compare_and_begin(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> Held:
    """An increment of row `r` that has read the row and has no write number yet."""
    hold = Hold()
    row_commit = engine.region._write_path._commit
    monkeypatch.setattr(row_commit, "commit", hold.before(row_commit.commit))
    thread = in_background(lambda: engine.change(b"r", Increment(b"f", b"n", 1)))
    hold.wait_reached(thread)
    return Held(hold, thread)


def test_a_write_is_not_published_before_it_is_applied(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    before = engine.region.statistics().read_point
    hold = Hold()
    applier = engine.region._parts.applier
    monkeypatch.setattr(applier, "apply_row", hold.before(applier.apply_row))
    writer = in_background(lambda: engine.change(b"r", Put(b"f", b"q", b"1")))
    hold.wait_reached(writer)
    sync = in_background(engine.server._log.sync)
    sync.join(0.2)
    assert engine.region.statistics().read_point == before
    hold.let_go.set()
    writer.join(WAIT_S)
    sync.join(WAIT_S)
    assert engine.region.statistics().read_point == before + 1


def test_a_write_that_has_its_number_is_not_cancelled_at_its_deadline(
    tmp_path: Path, config: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = ManualClock()
    engine = Engine(tmp_path, config, clock, Files(), Durability.OS)
    write_path = engine.region._write_path
    begin = write_path._numbering.begin

    def begin_late() -> int:
        clock.advance(10_000)
        return begin()

    monkeypatch.setattr(write_path._numbering, "begin", begin_late)
    outcomes: list[RowOutcome] = []
    mutation = RowMutation(b"r", (Put(b"f", b"q", b"1"),))
    options = WriteOptions(clock.monotonic() + 1)
    assert engine.region.mutate([mutation], options, outcomes.extend, may_wait=True)
    engine.server._log.sync()
    assert [type(outcome) for outcome in outcomes] == [RowResult]
    assert engine.values(b"r") == {b"f:q": b"1"}
    engine.server.stop()


def test_a_reader_takes_no_lock_that_a_writer_may_hold(engine: Engine) -> None:
    engine.change(b"r", Put(b"f", b"q", b"1"))
    read: list[object] = []
    assert engine.region._row_locks.try_acquire([b"r"])
    with engine.region._parts.gate.exclusive(), engine.server._log.order:
        reader = in_background(lambda: read.extend((engine.values(b"r"), len(engine.scan()))))
        reader.join(READ_S)
        assert read == [{b"f:q": b"1"}, 1]
    engine.region._row_locks.release([b"r"])


def test_a_write_that_meets_an_alter_is_checked_against_the_new_families(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = engine.region._parts.gate
    entered = gate.enter

    def enter_late(deadline: float) -> None:
        monkeypatch.undo()
        engine.server.alter_table("t", drop_families=[b"g"])
        entered(deadline)

    monkeypatch.setattr(gate, "enter", enter_late)
    with pytest.raises(FamilyNotFoundError):
        engine.change(b"r", Put(b"f", b"q", b"1"), Put(b"g", b"q", b"2"))
    assert engine.scan() == []


def test_a_flush_waits_for_the_write_that_is_between_begin_and_apply(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    hold = Hold()
    applier = engine.region._parts.applier
    monkeypatch.setattr(applier, "apply_row", hold.before(applier.apply_row))
    writer = in_background(lambda: engine.change(b"r", Put(b"f", b"q", b"1")))
    hold.wait_reached(writer)
    flusher = in_background(engine.region.flush)
    flusher.join(0.2)
    assert flusher.is_alive()
    assert engine.region.statistics().store_file_count == 0
    hold.let_go.set()
    writer.join(WAIT_S)
    flusher.join(WAIT_S)
    assert engine.region.statistics().store_file_count == 1
    engine.restart()
    assert engine.values(b"r") == {b"f:q": b"1"}


def test_a_flush_commits_only_what_is_published(tmp_path: Path, config: Config) -> None:
    files = HeldFiles()
    engine = Engine(tmp_path, config, Clock(), files, Durability.FSYNC)
    files.may_sync.clear()
    writer = in_background(lambda: engine.change(b"r", Put(b"f", b"q", b"1")))
    while engine.region.statistics().mvcc.open_writes == 0:
        threading.Event().wait(0.001)
    flusher = in_background(engine.region.flush)
    flusher.join(0.3)
    assert engine.region.statistics().store_file_count == 0
    assert flusher.is_alive()
    files.may_sync.set()
    writer.join(WAIT_S)
    flusher.join(WAIT_S)
    assert engine.region.statistics().store_file_count == 1
    engine.server.stop()


def test_a_get_that_began_after_a_write_was_answered_sees_it_whatever_is_flushed_meanwhile(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    mvcc = engine.region._parts.mvcc
    opened = mvcc.open_read_point

    def open_late() -> ReadPoint:
        monkeypatch.undo()
        engine.change(b"r", Put(b"f", b"q", b"1"))
        engine.server.flush("t")
        engine.change(b"r", Put(b"f", b"p", b"2"))
        return opened()

    monkeypatch.setattr(mvcc, "open_read_point", open_late)
    assert engine.values(b"r") == {b"f:p": b"2", b"f:q": b"1"}


def test_an_open_reader_keeps_its_versions_however_often_a_row_is_written(engine: Engine) -> None:
    engine.change(b"r", Put(b"f", b"q", b"old"))
    with engine.region.scan(ScanPlan()) as (_, answers):
        for i in range(500):
            engine.change(b"r", Put(b"f", b"q", b"%d" % i))
        (answer,) = answers
        assert answer.table.column("value").to_pylist() == [b"old"]
    for _ in range(200):
        engine.change(b"r", Put(b"f", b"q", b"new"))
    assert len(engine.region._parts.stores.view[1][1][0].row_cells(b"r")) < 200, "pruned once nobody reads it"


def test_a_refused_append_leaves_an_empty_number_behind_and_later_writes_are_published(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = engine.server._log
    with monkeypatch.context() as patched:

        def refuse(*_: object) -> None:
            raise StoppingError("closed")

        patched.setattr(log, "append", refuse)
        (outcome,) = engine.mutate(RowMutation(b"r", (Put(b"f", b"q", b"lost"),)))
        assert isinstance(outcome, StoppingError)
    # Else the next write would wait for ever.
    assert engine.region.statistics().mvcc.open_writes == 0
    assert engine.cells(b"r") == []
    engine.change(b"r", Put(b"f", b"q", b"kept"))
    assert engine.values(b"r") == {b"f:q": b"kept"}


def test_numbers_continue_after_the_reserved_block_after_a_restart(engine: Engine) -> None:
    engine.change(b"r", Put(b"f", b"q", b"1"))
    before = engine.region.statistics().mvcc.last_write_number
    engine.restart()
    engine.change(b"r", Put(b"f", b"q", b"2"))
    assert engine.region.statistics().mvcc.last_write_number >= before + engine.config.write_numbers_per_leap


def test_a_row_is_never_seen_in_part_by_gets_and_scans(engine: Engine) -> None:
    columns = [b"%02d" % i for i in range(20)]
    stop = time.monotonic() + 1.5
    failures: list[object] = []

    def write() -> None:
        number = 0
        while time.monotonic() < stop:
            number += 1
            value = b"%08d" % number
            engine.change(b"r", *[Put(family, column, value) for family in (b"f", b"g") for column in columns])

    def get() -> None:
        before = b""
        while time.monotonic() < stop:
            answer = engine.region.get([b"r"], Selection(), may_wait=True)
            assert answer is not None
            before = judge({cell[3] for cell in answer[0]}, before)

    def scan() -> None:
        before = b""
        while time.monotonic() < stop:
            before = judge({cell[4] for cell in engine.scan()}, before)

    def judge(values: set[bytes], before: bytes) -> bytes:
        if len(values) > 1 or (values and min(values) < before):
            failures.append((before, values))
        return min(values, default=before)

    def flush() -> None:
        while time.monotonic() < stop:
            engine.server.flush("t")

    threads = [in_background(action) for action in (write, get, scan, flush)]
    for thread in threads:
        thread.join(60)
    assert not failures
