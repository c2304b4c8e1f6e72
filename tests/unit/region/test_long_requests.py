"""Requests for many rows, and bulk batches of many cells, block other callers for a few rows at a time only."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

import pytest
from rowlock_regionserver.cells import Cell, ProtectedReadPoints
from rowlock_regionserver.errors import (
    DeadlineError,
    InvalidRequestError,
    NotServingRegionError,
    StoppingError,
)
from rowlock_regionserver.memstore.memstore import Memstore
from rowlock_regionserver.memstore.row_segment import PRUNE_CELLS_MIN
from rowlock_regionserver.operations import Increment, Put, RequestId, RowMutation, RowOutcome, RowResult, WriteOptions
from rowlock_regionserver.region.mutate.gate_batches import CELLS_UNDER_ORDER_MAX, ROWS_PER_GATE_HOLD

from tests.unit.memstore.invariants import check_rows
from tests.waiting import WAIT_S

from .conftest import bulk_batch
from .lone_region import LoneRegion, Step
from .test_interleavings import Hold, in_background

COUNT = 3 * ROWS_PER_GATE_HOLD + 5


def increments(count: int = COUNT) -> list[RowMutation]:
    return [RowMutation(b"%05d" % number, (Increment(b"f", b"n", 1),)) for number in range(count)]


def test_a_request_of_many_rows_leaves_the_gate_every_few_rows(lone: LoneRegion) -> None:
    stays = [0]

    def count_row() -> None:
        stays[-1] += 1

    lone.steps.at_each(Step.LEAVE, lambda: stays.append(0))
    lone.steps.at_each(Step.APPLY, count_row)
    outcomes = lone.mutate(*increments())
    assert [type(outcome) for outcome in outcomes] == [RowResult] * COUNT
    assert stays == [ROWS_PER_GATE_HOLD] * 3 + [5, 0]


def test_an_exclusive_gate_waits_for_one_batch_of_a_request_and_not_for_all(lone: LoneRegion) -> None:
    first_row = Hold()
    lone.steps.at_next(Step.BEGIN, first_row.stop)
    request = in_background(lambda: lone.mutate(*increments()))
    first_row.wait_reached(request)
    gate, mvcc = lone.parts.gate, lone.parts.mvcc
    seen: list[int] = []

    def alone() -> None:
        with gate.exclusive():
            seen.append(mvcc.last)

    before = mvcc.last
    waiting = in_background(alone)
    while not gate.statistics().exclusive_waiting:
        threading.Event().wait(0.001)
    first_row.let_go.set()
    for thread in (waiting, request):
        thread.join(WAIT_S)
    assert seen == [before + ROWS_PER_GATE_HOLD]
    assert mvcc.last == before + COUNT


def outcomes_when(lone: LoneRegion, mutations: list[RowMutation], deadline: float) -> list[RowOutcome]:
    outcomes: list[RowOutcome] = []
    told = threading.Event()

    def done(them: list[RowOutcome]) -> None:
        outcomes.extend(them)
        told.set()

    assert lone.region.mutate(mutations, WriteOptions(deadline), done, may_wait=True)
    assert told.wait(WAIT_S)
    return outcomes


def test_rows_after_the_deadline_fail_and_those_before_are_applied(lone: LoneRegion) -> None:
    locked = b"%05d" % (2 * ROWS_PER_GATE_HOLD)
    assert lone.parts.row_locks.try_acquire([locked])
    outcomes = outcomes_when(lone, increments(), lone.clock.monotonic() + 0.05)
    lone.parts.row_locks.release([locked])
    made = outcomes[: 2 * ROWS_PER_GATE_HOLD]
    assert [type(outcome) for outcome in made] == [RowResult] * len(made)
    assert {type(outcome) for outcome in outcomes[len(made) :]} == {DeadlineError}
    assert len(outcomes) == COUNT
    assert len(lone.scan()) == len(made)


def test_a_request_of_which_nothing_was_applied_fails_as_a_whole(lone: LoneRegion) -> None:
    assert lone.parts.row_locks.try_acquire([b"00000"])
    with pytest.raises(DeadlineError):
        outcomes_when(lone, increments(), lone.clock.monotonic() + 0.05)
    lone.parts.row_locks.release([b"00000"])
    assert lone.scan() == []


def test_an_alter_in_the_middle_of_a_request_applies_to_the_remaining_rows(lone: LoneRegion) -> None:
    lone.steps.at_next(Step.LEAVE, lambda: lone.alter(drop_families=[b"g"]))
    mutations = [RowMutation(b"%05d" % number, (Put(b"fg"[number % 2 :][:1], b"q", b"v"),)) for number in range(COUNT)]
    outcomes = lone.mutate(*mutations)
    made = [number for number, outcome in enumerate(outcomes) if isinstance(outcome, RowResult)]
    assert made == [number for number in range(COUNT) if number < ROWS_PER_GATE_HOLD or number % 2 == 0]


def test_a_region_that_closes_in_the_middle_of_a_request_fails_the_remaining_rows(lone: LoneRegion) -> None:
    lone.steps.at_next(Step.LEAVE, lone.region.close_for_removal)
    outcomes = outcomes_when(lone, increments(), lone.clock.monotonic() + WAIT_S)
    assert [type(outcome) for outcome in outcomes[:ROWS_PER_GATE_HOLD]] == [RowResult] * ROWS_PER_GATE_HOLD
    assert {type(outcome) for outcome in outcomes[ROWS_PER_GATE_HOLD:]} == {NotServingRegionError}


def test_a_row_that_is_refused_at_check_does_not_shorten_a_batch(lone: LoneRegion) -> None:
    mutations = increments()
    mutations[1] = RowMutation(b"x", ())
    outcomes = lone.mutate(*mutations)
    assert isinstance(outcomes[1], InvalidRequestError)
    assert sum(isinstance(outcome, RowResult) for outcome in outcomes) == COUNT - 1


@pytest.fixture
def applied_under_order(lone: LoneRegion, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many cells were applied by each call while the writers of all regions waited."""
    apply, order = Memstore.apply, lone.log.order
    counts: list[int] = []

    def counted(
        self: Memstore, row: bytes, cells: Sequence[Cell], protected_read_points: Callable[[], ProtectedReadPoints]
    ) -> int:
        if order.locked():
            counts.append(len(cells))
        return apply(self, row, cells, protected_read_points)

    monkeypatch.setattr(Memstore, "apply", counted)
    return counts


def test_a_small_bulk_batch_of_many_cells_is_applied_without_the_order_lock(
    lone: LoneRegion, applied_under_order: list[int]
) -> None:
    cells: list[tuple[bytes, bytes, bytes, int | None, bytes | None]]
    cells = [(b"%03d" % number, b"f", b"q", None, b"") for number in range(60)]
    lone.bulk(bulk_batch(*cells))
    assert len(lone.scan()) == 60
    assert len(lone.parts.stores.of(1).memstore.sources()) == 1, "it is a batch that goes into the active segment"
    assert applied_under_order == []


def test_a_row_of_very_many_puts_is_applied_without_the_order_lock_and_by_its_place_in_the_request(
    lone: LoneRegion, applied_under_order: list[int]
) -> None:
    count = CELLS_UNDER_ORDER_MAX + 1
    wide = RowMutation(b"r", tuple(Put(b"fg"[n % 2 :][:1], b"%05d" % n, b"v") for n in range(count)))
    one = RowMutation(b"r", (Put(b"f", b"%05d" % 0, b"earlier"), Put(b"f", b"x", b"1")))
    other = RowMutation(b"r", (Put(b"f", b"%05d" % 2, b"later"),))
    outcomes = lone.mutate(one, wide, other)
    assert [type(outcome) for outcome in outcomes] == [RowResult] * 3
    assert applied_under_order == [2, 1]
    values = lone.values(b"r")
    assert len(values) == count + 1
    assert (values[b"f:00000"], values[b"f:00002"]) == (b"v", b"later")
    lone.crash()
    assert lone.values(b"r") == values


def test_a_row_of_very_many_puts_is_applied_once_however_often_it_is_sent(lone: LoneRegion) -> None:
    puts = tuple(Put(b"f", b"%05d" % number, b"v") for number in range(CELLS_UNDER_ORDER_MAX + 1))
    wide = RowMutation(b"r", puts, request=RequestId(b"c" * 16, 1, 1))
    first, second = (lone.mutate(wide)[0] for _ in range(2))
    assert isinstance(first, RowResult)
    assert isinstance(second, RowResult)
    assert second.repeated_request
    assert second.timestamp == first.timestamp


def test_cells_that_a_refused_batch_hid_still_exist(lone: LoneRegion) -> None:
    """Also in a row so long that it was pruned when the batch was applied."""
    for number in range(PRUNE_CELLS_MIN + 1):
        lone.change(b"r", Put(b"f", b"q", b"%d" % number))
    lone.log.refuses = True
    for _ in range(PRUNE_CELLS_MIN):
        with pytest.raises(StoppingError):
            lone.bulk(bulk_batch((b"r", b"f", b"q", None, b"refused"), (b"new", b"f", b"q", None, b"refused")))
    assert lone.values(b"r") == {b"f:q": b"%d" % PRUNE_CELLS_MIN}
    assert lone.values(b"new") == {}
    check_rows(lone.parts.stores.of(1).memstore.active)


def test_a_batch_that_gets_no_number_is_removed_again(lone: LoneRegion) -> None:
    def refuse() -> None:
        raise StoppingError("closed")

    lone.steps.at_next(Step.BEGIN, refuse)
    with pytest.raises(StoppingError):
        lone.bulk(bulk_batch((b"new", b"f", b"q", None, b"refused")))
    lone.change(b"r", Put(b"f", b"q", b"1"))  # with the number that the batch would have had
    assert lone.values(b"new") == {}
