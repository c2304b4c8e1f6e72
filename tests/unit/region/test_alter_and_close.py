"""Operations in progress during an alter, truncate or drop of the table: completed before it, or not at all."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from rowlock_regionserver.cells import Family
from rowlock_regionserver.clock import Clock
from rowlock_regionserver.commit.gate import Gate
from rowlock_regionserver.errors import DeadlineError, NotServingRegionError
from rowlock_regionserver.operations import Delete, DeleteKind, Put, WriteOptions

from tests.waiting import WAIT_S

from .conftest import Engine, bulk_batch
from .lone_region import REGION_ID, LoneRegion, Step

Change = Callable[[LoneRegion], object]


def put_row(lone: LoneRegion) -> object:
    return lone.change(b"late", Put(b"f", b"q", b"v"))


def put_batch(lone: LoneRegion) -> object:
    return lone.bulk(bulk_batch(*[(b"%04d" % i, b"f", b"q", None, b"v" * 100) for i in range(100)]))


def test_a_closed_gate_refuses_newcomers_and_waiting_threads() -> None:
    gate = Gate(7, Clock())
    gate.enter(time.monotonic() + WAIT_S)
    told: list[BaseException] = []

    def enter() -> None:
        try:
            gate.enter(time.monotonic() + WAIT_S)
        except NotServingRegionError as error:
            told.append(error)

    closer = threading.Thread(target=gate.close)
    closer.start()
    while not gate.statistics().exclusive_waiting:
        threading.Event().wait(0.001)
    waiting = threading.Thread(target=enter)
    waiting.start()
    gate.leave()
    closer.join(WAIT_S)
    waiting.join(WAIT_S)
    assert len(told) == 1
    for way_in in (gate.try_enter, lambda: gate.enter(0.0), lambda: gate.exclusive().__enter__()):
        with pytest.raises(NotServingRegionError):
            way_in()


def test_a_thread_that_times_out_on_the_exclusive_gate_admits_the_waiting_threads() -> None:
    gate = Gate(7, Clock())
    assert gate.try_enter()
    with pytest.raises(DeadlineError), gate.exclusive(time.monotonic()):
        pass
    assert gate.try_enter()


def drop(lone: LoneRegion) -> None:
    """As a server drops it: it waits for those inside, and what it held is given back."""
    lone.region.close_for_removal()
    lone.region.discard()
    lone.log.forget(REGION_ID)


def truncate(lone: LoneRegion) -> None:
    with lone.region.closing_to_writes():
        drop(lone)


@pytest.mark.parametrize(("change", "step"), [(put_row, Step.ENTER), (put_batch, Step.ALONE)])
@pytest.mark.parametrize("remove", [drop, truncate])
def test_a_write_that_comes_to_the_gate_after_the_region_was_dropped_is_refused(
    tmp_path: Path, change: Change, step: Step, remove: Callable[[LoneRegion], None]
) -> None:
    lone = LoneRegion(tmp_path)
    lone.change(b"r", Put(b"f", b"q", b"v"))
    lone.steps.at_next(step, lambda: remove(lone))  # It was serving when the call came in.
    with pytest.raises(NotServingRegionError):
        change(lone)
    assert lone.memory.bytes_held == 0
    assert REGION_ID not in lone.log.known_regions()
    assert list((lone.folder / "bulk").iterdir()) == []
    lone.log.close()


def test_a_bulk_batch_fails_at_its_deadline_with_nothing_changed(lone: LoneRegion) -> None:
    region = lone.region
    batch = bulk_batch(*[(b"%04d" % i, b"f", b"q", None, b"v" * 100) for i in range(100)])
    with lone.held_gate(), pytest.raises(DeadlineError):
        region.bulk_put(batch, None, WriteOptions(time.monotonic() + 0.02), lambda _: None)
    assert lone.scan() == []
    assert list((lone.folder / "bulk").iterdir()) == []


@pytest.mark.parametrize("is_flushed", [False, True])
def test_raising_the_versions_brings_back_nothing_that_was_deleted_and_keeps_what_comes_then(
    engine: Engine, is_flushed: bool
) -> None:
    """Versions beyond the lower limit may come back; docs/decisions/versions_beyond_the_limit.md says when."""
    for timestamp, value in ((100, b"a"), (200, b"b")):
        engine.change(b"r", Put(b"f", b"q", value, timestamp))
    engine.change(b"r", Delete(DeleteKind.COLUMN, b"f", b"q", 150))
    if is_flushed:
        engine.server.flush("t")
    engine.server.alter_table("t", [Family(0, b"f", versions=3)])
    assert [cell[3] for cell in engine.cells(b"r", versions=3)] == [b"b"]
    for timestamp, value in ((300, b"c"), (400, b"d"), (500, b"e")):
        engine.change(b"r", Put(b"f", b"q", value, timestamp))
    assert [cell[3] for cell in engine.cells(b"r", versions=3)] == [b"e", b"d", b"c"]
