"""Interleavings that matter, forced: one part is blocked at a step while another continues."""

from __future__ import annotations

import re
import struct
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import pytest
from rowlock_regionserver.cells import Durability
from rowlock_regionserver.clock import Clock, ManualClock
from rowlock_regionserver.config import Config
from rowlock_regionserver.errors import FamilyNotFoundError, StoppingError
from rowlock_regionserver.operations import (
    Change,
    Increment,
    Put,
    RowMutation,
    RowOutcome,
    RowResult,
    ScanPlan,
    Selection,
    WriteOptions,
)

from tests.threads import line_of, wait_until_it_ends_or
from tests.waiting import WAIT_S

from .conftest import Engine, HeldFiles, bulk_batch
from .lone_region import LoneRegion, Step

T = TypeVar("T")


class Hold:
    """Stops a thread until it is let go, and tells when it was reached."""

    def __init__(self) -> None:
        self.reached = threading.Event()
        self.let_go = threading.Event()

    def stop(self) -> None:
        self.reached.set()
        assert self.let_go.wait(WAIT_S)

    def wait_reached(self, by: threading.Thread) -> None:
        """Waits until the call is reached. AssertionError if the thread ends before that, as in a broken build."""
        while not self.reached.wait(0.01):
            assert by.is_alive()


def in_background(action: Callable[[], object]) -> threading.Thread:
    thread = threading.Thread(target=action)
    thread.start()
    return thread


def wait_until_blocked(lone: LoneRegion, thread: threading.Thread) -> None:
    """Waits until the thread waits for a row, for the gate or for the log's order, or has ended."""
    wait_until_it_ends_or(thread, lambda: is_blocked(lone, thread))


def is_blocked(lone: LoneRegion, thread: threading.Thread) -> bool:
    gate = lone.parts.gate.statistics()
    waits_in_gate = bool(gate.shared_waiting or gate.exclusive_waiting)
    waits_for_row = bool(lone.parts.row_locks.statistics().waiting)
    return waits_in_gate or waits_for_row or re.search(r"^with .*\border:", line_of(thread)) is not None


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
        thread.join(WAIT_S)
    assert engine.values(b"hot") == {b"f:n": long(600)}


def test_a_writer_compares_after_the_one_before_it_has_applied(lone: LoneRegion) -> None:
    first = between_compare_and_begin(lone)
    second = in_background(lambda: lone.change(b"r", Increment(b"f", b"n", 1)))
    wait_until_blocked(lone, second)
    first.hold.let_go.set()
    first.thread.join(WAIT_S)
    second.join(WAIT_S)
    assert lone.values(b"r") == {b"f:n": long(2)}


def test_a_bulk_batch_waits_for_the_row_that_is_between_compare_and_apply(lone: LoneRegion) -> None:
    first = between_compare_and_begin(lone)
    bulk = in_background(lambda: lone.bulk(bulk_batch((b"r", b"f", b"n", None, long(100)))))
    wait_until_blocked(lone, bulk)
    assert lone.parts.gate.statistics().exclusive_waiting
    first.hold.let_go.set()
    first.thread.join(WAIT_S)
    bulk.join(WAIT_S)
    assert lone.values(b"r") == {b"f:n": long(100)}


@dataclass
class Held:
    """A thread that is blocked at a hold."""

    hold: Hold
    thread: threading.Thread


def between_compare_and_begin(lone: LoneRegion) -> Held:
    """An increment of row `r` that has read the row and does not have its number yet."""
    return held_at(lone, Step.BEGIN, Increment(b"f", b"n", 1))


def held_at(lone: LoneRegion, step: Step, change: Change) -> Held:
    """A change of row `r` that has come to the step."""
    hold = Hold()
    lone.steps.at_next(step, hold.stop)
    thread = in_background(lambda: lone.change(b"r", change))
    hold.wait_reached(thread)
    return Held(hold, thread)


def test_a_write_is_not_published_before_it_is_applied(lone: LoneRegion) -> None:
    before = lone.parts.mvcc.read_point
    writer = held_at(lone, Step.APPLY, Put(b"f", b"q", b"1"))
    sync = in_background(lone.log.sync)
    sync.join(0.2)
    assert lone.parts.mvcc.read_point == before
    writer.hold.let_go.set()
    writer.thread.join(WAIT_S)
    sync.join(WAIT_S)
    assert lone.parts.mvcc.read_point == before + 1


def test_a_write_that_has_its_number_is_not_cancelled_at_its_deadline(tmp_path: Path) -> None:
    clock = ManualClock()
    lone = LoneRegion(tmp_path, clock=clock)
    lone.steps.at_next(Step.BEGIN, lambda: clock.advance(10_000))
    outcomes: list[RowOutcome] = []
    mutation = RowMutation(b"r", (Put(b"f", b"q", b"1"),))
    options = WriteOptions(clock.monotonic() + 1)
    assert lone.region.mutate([mutation], options, outcomes.extend, may_wait=True)
    lone.log.sync()
    assert [type(outcome) for outcome in outcomes] == [RowResult]
    assert lone.values(b"r") == {b"f:q": b"1"}
    lone.stop()


def test_a_reader_takes_no_lock_that_a_writer_may_hold(lone: LoneRegion) -> None:
    lone.change(b"r", Put(b"f", b"q", b"1"))
    read: list[object] = []
    assert lone.parts.row_locks.try_acquire([b"r"])
    with lone.parts.gate.exclusive(), lone.log.order:
        reader = in_background(lambda: read.extend((lone.values(b"r"), len(lone.scan()))))
        wait_until_blocked(lone, reader)
        assert read == [{b"f:q": b"1"}, 1]
    lone.parts.row_locks.release([b"r"])


def test_a_write_that_meets_an_alter_is_checked_against_the_new_families(lone: LoneRegion) -> None:
    lone.steps.at_next(Step.ENTER, lambda: lone.alter(drop_families=[b"g"]))
    with pytest.raises(FamilyNotFoundError):
        lone.change(b"r", Put(b"f", b"q", b"1"), Put(b"g", b"q", b"2"))
    assert lone.scan() == []


def test_a_flush_waits_for_the_write_that_is_between_begin_and_apply(lone: LoneRegion) -> None:
    writer = held_at(lone, Step.APPLY, Put(b"f", b"q", b"1"))
    flusher = in_background(lone.flush)
    flusher.join(0.2)
    assert flusher.is_alive()
    assert lone.region.statistics().store_file_count == 0
    writer.hold.let_go.set()
    writer.thread.join(WAIT_S)
    flusher.join(WAIT_S)
    assert lone.region.statistics().store_file_count == 1
    lone.crash()
    assert lone.values(b"r") == {b"f:q": b"1"}


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


def test_a_get_that_began_after_a_write_was_answered_sees_it_whatever_is_flushed_meanwhile(lone: LoneRegion) -> None:
    def write_and_flush() -> None:
        lone.change(b"r", Put(b"f", b"q", b"1"))
        lone.flush()
        lone.change(b"r", Put(b"f", b"p", b"2"))

    lone.steps.at_next(Step.READ_POINT, write_and_flush)
    assert lone.values(b"r") == {b"f:p": b"2", b"f:q": b"1"}


def test_an_open_reader_keeps_its_versions_however_often_a_row_is_written(lone: LoneRegion) -> None:
    lone.change(b"r", Put(b"f", b"q", b"old"))
    with lone.region.scan(ScanPlan()) as (_, answers):
        for i in range(500):
            lone.change(b"r", Put(b"f", b"q", b"%d" % i))
        (answer,) = answers
        assert answer.table.column("value").to_pylist() == [b"old"]
    for _ in range(200):
        lone.change(b"r", Put(b"f", b"q", b"new"))
    assert lone.parts.stores.of(1).memstore.active.cell_count < 200, "pruned once nobody reads it"


def test_a_refused_append_leaves_an_empty_number_behind_and_later_writes_are_published(lone: LoneRegion) -> None:
    lone.log.refuses = True
    (outcome,) = lone.mutate(RowMutation(b"r", (Put(b"f", b"q", b"lost"),)))
    assert isinstance(outcome, StoppingError)
    lone.log.refuses = False
    # Else the next write would wait for ever.
    assert lone.parts.mvcc.statistics().open_writes == 0
    assert lone.cells(b"r") == []
    lone.change(b"r", Put(b"f", b"q", b"kept"))
    assert lone.values(b"r") == {b"f:q": b"kept"}


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
        thread.join(WAIT_S)
    assert not failures
