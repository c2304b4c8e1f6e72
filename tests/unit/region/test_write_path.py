"""The write path, step by step: what a row mutation does, refuses and answers."""

from __future__ import annotations

import gc
import struct
import threading
import time
import weakref
from collections.abc import Iterator
from pathlib import Path

import pytest
from rowlock_regionserver.cells import Durability
from rowlock_regionserver.clock import Clock, ManualClock
from rowlock_regionserver.config import Config
from rowlock_regionserver.errors import (
    CounterOverflowError,
    DeadlineError,
    FamilyNotFoundError,
    InvalidRequestError,
    LimitExceededError,
    NotACounterError,
    RegionServerError,
    RegionTooBusyError,
    UnknownOutcomeError,
)
from rowlock_regionserver.files import Files
from rowlock_regionserver.operations import (
    Append,
    Change,
    Check,
    ColumnComparison,
    CompareOp,
    Condition,
    Delete,
    DeleteKind,
    Existence,
    Increment,
    Put,
    RequestId,
    RowMutation,
    RowOutcome,
    RowResult,
    Selection,
    WriteOptions,
)
from rowlock_regionserver.region.mutate import brief_wait

from tests.waiting import WAIT_S

from .conftest import Engine, HeldFiles
from .lone_region import LoneRegion

CLIENT = b"c" * 16


def put(qualifier: bytes, value: bytes, timestamp: int | None = None, family: bytes = b"f") -> Put:
    return Put(family, qualifier, value, timestamp)


def long(value: int) -> bytes:
    return struct.pack(">q", value)


def equal(qualifier: bytes, value: bytes | None) -> Condition:
    return Condition((Check(b"f", qualifier, CompareOp.EQUAL, value),))


# ---- one mutation is atomic and in order


def test_a_mutation_over_several_families_is_one_write(engine: Engine) -> None:
    before = engine.region.statistics().read_point
    engine.change(b"r", put(b"q", b"1"), put(b"q", b"2", family=b"g"))
    assert engine.region.statistics().read_point == before + 1
    assert engine.values(b"r") == {b"f:q": b"1", b"g:q": b"2"}


@pytest.mark.parametrize(
    ("changes", "left"),
    [
        ([put(b"q", b"a"), Delete(DeleteKind.COLUMN, b"f", b"q")], {}),
        ([Delete(DeleteKind.COLUMN, b"f", b"q"), put(b"q", b"a")], {b"f:q": b"a"}),
        ([put(b"q", b"a"), put(b"q", b"b")], {b"f:q": b"b"}),
        ([put(b"q", b"a"), Delete(DeleteKind.ROW), put(b"p", b"b")], {b"f:p": b"b"}),
        ([Delete(DeleteKind.FAMILY, b"f"), put(b"q", b"a")], {b"f:q": b"a"}),
        ([put(b"q", b"a", 50), Delete(DeleteKind.VERSION, b"f", b"q", 50)], {}),
        ([Delete(DeleteKind.VERSION, b"f", b"q", 50), put(b"q", b"a", 50)], {b"f:q": b"a"}),
        ([put(b"q", b"a", 300), Delete(DeleteKind.COLUMN, b"f", b"q", 200)], {b"f:q": b"a"}),
        ([Increment(b"f", b"q", 2), Increment(b"f", b"q", 3)], {b"f:q": long(5)}),
        ([Append(b"f", b"q", b"1"), Append(b"f", b"q", b"2")], {b"f:q": b"12"}),
        ([put(b"q", long(5)), Increment(b"f", b"q", 1)], {b"f:q": long(6)}),
        (
            [Increment(b"f", b"q", 1), Delete(DeleteKind.COLUMN, b"f", b"q"), Increment(b"f", b"q", 4)],
            {b"f:q": long(4)},
        ),
        ([Delete(DeleteKind.COLUMN, b"f", b"p"), put(b"q", b"b")], {b"f:q": b"b"}),
    ],
)
def test_of_changes_in_one_mutation_the_later_sees_and_beats_the_earlier(
    engine: Engine, changes: list[Change], left: dict[bytes, bytes]
) -> None:
    engine.change(b"r", *changes)
    assert engine.values(b"r") == left
    engine.server.flush("t")
    assert engine.values(b"r") == left


def test_a_put_after_a_delete_is_seen_also_in_the_same_millisecond(tmp_path: Path, config: Config) -> None:
    engine = Engine(tmp_path, config, ManualClock(), Files(), Durability.OS)
    for i in range(20):
        row = b"r%d" % i
        engine.change(row, put(b"q", b"a"))
        engine.change(row, Delete(DeleteKind.ROW))
        assert engine.values(row) == {}
        engine.change(row, put(b"q", b"b"))
        assert engine.values(row) == {b"f:q": b"b"}
    engine.server.stop()


def test_a_put_under_an_older_timestamp_than_a_tombstone_is_seen(engine: Engine) -> None:
    engine.change(b"r", Delete(DeleteKind.COLUMN, b"f", b"q", 200))
    engine.change(b"r", put(b"q", b"a", 100))
    assert engine.values(b"r") == {b"f:q": b"a"}


def test_a_version_beyond_the_limit_never_comes_back(engine: Engine) -> None:
    engine.change(b"r", put(b"q", b"a", 100))
    engine.change(b"r", put(b"q", b"b", 200))
    engine.change(b"r", Delete(DeleteKind.VERSION, b"f", b"q", 200))
    assert engine.values(b"r") == {}
    engine.server.flush("t")
    assert engine.values(b"r") == {}


def test_delete_of_the_newest_version_uncovers_the_one_before(engine: Engine) -> None:
    for timestamp, value in ((100, b"a"), (200, b"b"), (300, b"c")):
        engine.change(b"r", put(b"q", value, timestamp, b"g"))
    engine.change(b"r", Delete(DeleteKind.VERSION, b"g", b"q"))
    assert [cell[3] for cell in engine.cells(b"r", versions=9)] == [b"b", b"a"]


def test_delete_of_a_version_that_is_not_there_changes_nothing(engine: Engine) -> None:
    assert engine.change(b"r", Delete(DeleteKind.VERSION, b"f", b"q")).timestamp == 0
    assert engine.cells(b"r") == []


# ---- increments and appends


def test_increment_counts_from_zero_and_answers_the_new_value(engine: Engine) -> None:
    assert engine.change(b"r", Increment(b"f", b"n", 5)).results[0][3] == long(5)
    assert engine.change(b"r", Increment(b"f", b"n", -7)).results[0][3] == long(-2)
    # One that is not alone in its mutation.
    results = engine.change(b"r", Increment(b"f", b"n", 3), Increment(b"f", b"other", 4)).results
    assert [value for *_, value in results] == [long(1), long(4)]


def test_increment_of_a_cell_that_is_not_eight_bytes_is_refused_and_changes_nothing(engine: Engine) -> None:
    engine.change(b"r", put(b"n", b"12"))
    with pytest.raises(NotACounterError) as caught:
        engine.change(b"r", put(b"p", b"x"), Increment(b"f", b"n", 1))
    assert (caught.value.row, caught.value.family, caught.value.qualifier) == (b"r", b"f", b"n")
    assert engine.values(b"r") == {b"f:n": b"12"}


@pytest.mark.parametrize(("start", "amount"), [((1 << 63) - 1, 1), (-(1 << 63), -1)])
def test_counter_overflow_is_an_error_and_leaves_the_counter_unchanged(engine: Engine, start: int, amount: int) -> None:
    engine.change(b"r", put(b"n", long(start)))
    with pytest.raises(CounterOverflowError):
        engine.change(b"r", Increment(b"f", b"n", amount))
    assert engine.values(b"r") == {b"f:n": long(start)}


def test_append_past_the_cell_limit_is_refused(tmp_path: Path) -> None:
    engine = Engine(tmp_path, Config(cell_bytes_max=10), Clock(), Files(), Durability.OS)
    engine.change(b"r", put(b"q", b"123456"))
    with pytest.raises(LimitExceededError):
        engine.change(b"r", Append(b"f", b"q", b"78901"))
    assert engine.values(b"r") == {b"f:q": b"123456"}
    engine.server.stop()


def test_a_read_modify_write_over_a_future_cell_is_stamped_no_earlier(engine: Engine) -> None:
    ahead = Clock().now_ms() + 3_600_000
    engine.change(b"r", put(b"n", long(5), ahead))
    assert engine.change(b"r", Increment(b"f", b"n", 1)).results == ((b"f", b"n", ahead, long(6)),)
    assert engine.values(b"r") == {b"f:n": long(6)}
    # One that is not alone in its mutation.
    assert engine.change(b"r", Increment(b"f", b"n", 1), put(b"p", b"x")).results == ((b"f", b"n", ahead, long(7)),)
    assert engine.values(b"r") == {b"f:n": long(7), b"f:p": b"x"}
    assert engine.change(b"s", put(b"q", b"x")).timestamp < ahead, "the region's own stamp has not moved"


def test_a_conditional_put_over_a_future_cell_is_seen(engine: Engine) -> None:
    ahead = Clock().now_ms() + 3_600_000
    engine.change(b"r", put(b"q", b"old", ahead), put(b"checked", b"x", ahead + 1))
    result = engine.change(b"r", put(b"q", b"new"), condition=equal(b"checked", b"x"))
    assert (result.condition_met, result.timestamp) == (True, ahead + 1)
    result = engine.change(b"r", put(b"q", b"newer"), condition=Condition(existence=Existence.PRESENT))
    assert (result.condition_met, result.timestamp) == (True, ahead + 1)
    assert engine.values(b"r")[b"f:q"] == b"newer"
    assert engine.change(b"s", put(b"q", b"x")).timestamp < ahead, "the region's own stamp has not moved"


# ---- conditions


@pytest.mark.parametrize(
    ("op", "met"),
    [
        (CompareOp.LESS, {b"z"}),
        (CompareOp.LESS_OR_EQUAL, {b"m", b"z"}),
        (CompareOp.EQUAL, {b"m"}),
        (CompareOp.NOT_EQUAL, {b"a", b"z", b""}),
        (CompareOp.GREATER_OR_EQUAL, {b"a", b"m", b""}),
        (CompareOp.GREATER, {b"a", b""}),
    ],
)
def test_every_comparison_reads_stored_op_given(engine: Engine, op: CompareOp, met: set[bytes]) -> None:
    engine.change(b"r", put(b"q", b"m"))
    for given in (b"a", b"m", b"z", b""):
        result = engine.change(b"r", put(b"p", b"x"), condition=Condition((Check(b"f", b"q", op, given),)))
        assert result.condition_met == (given in met), given
        assert [cell[3] for cell in result.seen] == [b"m"]


@pytest.mark.parametrize("op", list(CompareOp))
def test_an_absent_cell_fails_every_comparison(engine: Engine, op: CompareOp) -> None:
    result = engine.change(b"r", put(b"p", b"x"), condition=Condition((Check(b"f", b"q", op, b"a"),)))
    assert result == RowResult(condition_met=False)
    assert engine.cells(b"r") == []


def test_absence_and_an_empty_value_are_different(engine: Engine) -> None:
    assert engine.change(b"r", put(b"q", b""), condition=equal(b"q", None)).condition_met
    assert not engine.change(b"r", put(b"q", b"x"), condition=equal(b"q", None)).condition_met
    assert engine.change(b"r", put(b"q", b"x"), condition=equal(b"q", b"")).condition_met
    present = Condition((Check(b"f", b"q", CompareOp.NOT_EQUAL, None),))
    assert engine.change(b"r", put(b"q", b"y"), condition=present).condition_met


def test_create_and_update_are_different_operations(engine: Engine) -> None:
    create, update = Condition(existence=Existence.ABSENT), Condition(existence=Existence.PRESENT)
    assert not engine.change(b"r", put(b"q", b"1"), condition=update).condition_met
    assert engine.change(b"r", put(b"q", b"1"), condition=create).condition_met
    assert not engine.change(b"r", put(b"q", b"2"), condition=create).condition_met
    assert engine.change(b"r", put(b"q", b"2"), condition=update).condition_met
    engine.change(b"r", Delete(DeleteKind.ROW))
    assert engine.change(b"r", put(b"q", b"3"), condition=create).condition_met


def test_a_filter_condition_judges_the_row_and_an_absent_row_never_matches(engine: Engine) -> None:
    condition = Condition(filter=ColumnComparison(b"f", b"q", CompareOp.GREATER, b"b"))
    assert not engine.change(b"r", put(b"p", b"x"), condition=condition).condition_met
    engine.change(b"r", put(b"q", b"c"))
    assert engine.change(b"r", put(b"p", b"x"), condition=condition).condition_met


def test_otherwise_is_done_when_the_condition_does_not_hold(engine: Engine) -> None:
    result = engine.change(b"r", put(b"q", b"yes"), condition=equal(b"q", b"x"), otherwise=[Increment(b"f", b"n", 1)])
    assert not result.condition_met
    assert result.results[0][3] == long(1)
    assert engine.values(b"r") == {b"f:n": long(1)}


def test_a_check_without_operand_and_with_an_order_is_refused(engine: Engine) -> None:
    with pytest.raises(InvalidRequestError):
        engine.change(b"r", put(b"q", b"x"), condition=Condition((Check(b"f", b"q", CompareOp.LESS, None),)))


# ---- request ids


def test_a_repeated_request_is_applied_once_and_answered_the_same(engine: Engine) -> None:
    request = RequestId(CLIENT, 1, 1)
    first = engine.change(b"r", Increment(b"f", b"n", 5), request=request)
    again = engine.change(b"r", Increment(b"f", b"n", 5), request=request)
    assert again.repeated_request
    assert again.results == first.results
    assert engine.values(b"r") == {b"f:n": long(5)}


@pytest.mark.parametrize("ended", ["stopped", "flushed", "crashed"])
def test_a_repeated_request_is_known_after_a_restart(engine: Engine, ended: str) -> None:
    request = RequestId(CLIENT, 1, 1)
    condition = Condition(existence=Existence.ABSENT)
    first = engine.change(b"r", Increment(b"f", b"n", 5), put(b"p", b"x"), condition=condition, request=request)
    if ended == "flushed":
        engine.server.flush("t")
    if ended == "stopped":
        engine.restart()
    else:
        engine.crash()
    again = engine.change(b"r", Increment(b"f", b"n", 5), put(b"p", b"x"), condition=condition, request=request)
    assert again.repeated_request
    assert (again.condition_met, again.results, again.timestamp) == (True, first.results, first.timestamp)
    assert engine.values(b"r") == {b"f:n": long(5), b"f:p": b"x"}


def test_a_request_below_the_floor_is_answered_with_unknown_outcome(engine: Engine) -> None:
    engine.change(b"r", put(b"q", b"a"), request=RequestId(CLIENT, 5, 5))
    with pytest.raises(UnknownOutcomeError):
        engine.change(b"r", put(b"q", b"b"), request=RequestId(CLIENT, 4, 4))
    assert engine.values(b"r") == {b"f:q": b"a"}


# ---- CHECK


def test_a_batch_with_bad_rows_returns_the_results_of_the_others(engine: Engine) -> None:
    outcomes = engine.mutate(
        RowMutation(b"a", (put(b"q", b"1"),)),
        RowMutation(b"", (put(b"q", b"1"),)),
        RowMutation(b"b", (put(b"q", b"1", family=b"nofam"),)),
        RowMutation(b"c" * 40_000, (put(b"q", b"1"),)),
        RowMutation(b"d", (put(b"q", b"1", -1),)),
        RowMutation(b"e", (put(b"q", b"1", Clock().now_ms() + 2 * 24 * 3_600_000),)),
        RowMutation(b"f", ()),
        RowMutation(b"g", (put(b"q", b"2"),)),
    )
    kinds = [type(outcome) for outcome in outcomes]
    assert kinds == [
        RowResult,
        InvalidRequestError,
        FamilyNotFoundError,
        LimitExceededError,
        InvalidRequestError,
        LimitExceededError,
        InvalidRequestError,
        RowResult,
    ]
    assert {cell[0] for cell in engine.scan()} == {b"a", b"g"}


def test_the_refusal_of_a_row_does_not_hold_the_request(engine: Engine) -> None:
    engine.change(b"r", put(b"text", b"not a number"))
    gc.disable()
    try:
        outcomes = engine.mutate(
            RowMutation(b"a", (put(b"q", b"1", family=b"nofam"),)),
            RowMutation(b"r", (Increment(b"f", b"text", 1),)),
        )
        assert [type(outcome) for outcome in outcomes] == [FamilyNotFoundError, NotACounterError]
        held = [weakref.ref(outcome) for outcome in outcomes]
        del outcomes
        # Nothing but the cyclic collector would find an error that its own frames hold.
        assert [outcome() for outcome in held] == [None, None]
    finally:
        gc.enable()


def test_mutations_of_one_row_in_a_batch_see_each_other(engine: Engine) -> None:
    outcomes = engine.mutate(*[RowMutation(b"r", (Increment(b"f", b"n", 1),)) for _ in range(5)])
    assert [outcome.results[0][3] for outcome in outcomes if isinstance(outcome, RowResult)] == [
        long(i) for i in range(1, 6)
    ]


def test_less_durability_than_the_table_promises_is_refused(engine: Engine) -> None:
    with pytest.raises(InvalidRequestError, match="durability async is less"):
        engine.mutate(RowMutation(b"r", (put(b"q", b"1"),)), durability=Durability.ASYNC)
    engine.mutate(RowMutation(b"r", (put(b"q", b"1"),)), durability=Durability.FSYNC)
    assert engine.values(b"r") == {b"f:q": b"1"}


def test_full_memory_refuses_writes_with_a_retry_delay_and_allows_reads(tmp_path: Path) -> None:
    lone = LoneRegion(tmp_path, Config(memstore_bytes_max=20_000), Clock(), Files(), Durability.OS)
    refusal = None
    for i in range(1000):
        try:
            lone.change(b"r%d" % i, put(b"q", b"v" * 100))
        except RegionTooBusyError as error:
            refusal = error
            break
    assert refusal is not None
    assert refusal.retry_after_ms > 0
    assert lone.values(b"r0") == {b"f:q": b"v" * 100}
    lone.flush()
    lone.change(b"again", put(b"q", b"v"))
    lone.stop()


# ---- LOCK


def test_a_locked_row_makes_a_call_that_may_not_wait_do_nothing(lone: LoneRegion) -> None:
    assert lone.parts.row_locks.try_acquire([b"r"])
    called: list[list[RowOutcome]] = []
    options = WriteOptions(time.monotonic() + WAIT_S)
    assert not lone.region.mutate([RowMutation(b"r", (put(b"q", b"x"),))], options, called.append, may_wait=False)
    assert called == []
    lone.parts.row_locks.release([b"r"])
    assert lone.cells(b"r") == []


def test_waiting_for_a_row_lock_ends_at_the_deadline_with_nothing_changed(lone: LoneRegion) -> None:
    assert lone.parts.row_locks.try_acquire([b"r"])
    with pytest.raises(DeadlineError):
        lone.region.mutate(
            [RowMutation(b"r", (put(b"q", b"x"),))],
            WriteOptions(time.monotonic() + 0.02),
            lambda _: None,
            may_wait=True,
        )
    lone.parts.row_locks.release([b"r"])
    assert lone.cells(b"r") == []
    lone.change(b"r", put(b"q", b"y"))


def test_the_rows_of_a_batch_are_locked_in_ascending_order(lone: LoneRegion) -> None:
    locks = lone.parts.row_locks
    assert locks.try_acquire([b"a"])
    batch = [RowMutation(row, (put(b"q", b"x"),)) for row in (b"b", b"a", b"b")]
    writer = threading.Thread(target=lone.mutate, args=batch)
    writer.start()
    while locks.statistics().waiting == 0:
        threading.Event().wait(0.001)
    assert locks.statistics().held == 1, "it waits for its first row, and holds none after it"
    locks.release([b"a"])
    writer.join(WAIT_S)
    assert [cell[0] for cell in lone.scan()] == [b"a", b"b"]


# ---- SYNC and PUBLISH


@pytest.fixture
def held(tmp_path: Path, config: Config) -> Iterator[Engine]:
    files = HeldFiles()
    engine = Engine(tmp_path, config, Clock(), files, Durability.FSYNC)
    engine.change(b"r", put(b"q", b"old"), Increment(b"f", b"n", (1 << 63) - 1))
    yield engine
    files.may_sync.set()
    engine.server.stop()


def started(
    engine: Engine, row: bytes, *changes: Change, condition: Condition | None = None, request: RequestId | None = None
) -> tuple[threading.Event, list[RowOutcome]]:
    """A mutation that was applied, and may not be answered yet."""
    answered = threading.Event()
    outcomes: list[RowOutcome] = []

    def done(them: list[RowOutcome]) -> None:
        outcomes.extend(them)
        answered.set()

    mutation = RowMutation(row, changes, condition, (), request)
    assert engine.region.mutate([mutation], WriteOptions(time.monotonic() + WAIT_S), done, may_wait=True)
    return answered, outcomes


def held_files(engine: Engine) -> HeldFiles:
    assert isinstance(engine.files, HeldFiles)
    return engine.files


def test_an_unsynced_write_is_neither_answered_nor_read(held: Engine) -> None:
    held_files(held).may_sync.clear()
    answered, _ = started(held, b"r", put(b"q", b"new"))
    assert held_files(held).is_held.wait(WAIT_S)
    assert held.values(b"r")[b"f:q"] == b"old"
    assert [cell[4] for cell in held.scan() if cell[2] == b"q"] == [b"old"]
    assert not answered.is_set()
    held_files(held).may_sync.set()
    assert answered.wait(WAIT_S)
    assert held.values(b"r")[b"f:q"] == b"new"


@pytest.mark.parametrize("kind", ["comparison", "existence", "overflow", "repeated", "no_version"])
def test_an_answer_from_reading_alone_waits_until_what_it_read_is_published(held: Engine, kind: str) -> None:
    held_files(held).may_sync.clear()
    request = RequestId(CLIENT, 7, 1)
    first, _ = started(held, b"r", put(b"q", b"new"), request=request)
    match kind:
        case "comparison":
            second, outcomes = started(held, b"r", put(b"q", b"x"), condition=equal(b"q", b"old"))
        case "existence":
            second, outcomes = started(held, b"r", put(b"q", b"x"), condition=Condition(existence=Existence.ABSENT))
        case "overflow":
            second, outcomes = started(held, b"r", Increment(b"f", b"n", 1))
        case "repeated":
            second, outcomes = started(held, b"r", put(b"q", b"new"), request=request)
        case _:
            second, outcomes = started(held, b"r", Delete(DeleteKind.VERSION, b"f", b"z"))
    assert held_files(held).is_held.wait(WAIT_S)
    assert not second.is_set()
    held_files(held).may_sync.set()
    assert first.wait(WAIT_S)
    assert second.wait(WAIT_S)
    assert isinstance(outcomes[0], CounterOverflowError if kind == "overflow" else RowResult)


def test_the_row_lock_is_free_before_the_sync_so_one_sync_carries_many_writers_of_a_row(held: Engine) -> None:
    held_files(held).may_sync.clear()
    writes = [started(held, b"hot", Increment(b"f", b"c", 1)) for _ in range(50)]
    syncs = held.server.statistics().log.sync_count
    held_files(held).may_sync.set()
    for answered, outcomes in writes:
        assert answered.wait(WAIT_S)
        assert isinstance(outcomes[0], RowResult)
    assert held.server.statistics().log.sync_count - syncs <= 4
    assert held.values(b"hot") == {b"f:c": long(50)}


class FailingFiles(Files):
    """Fails fdatasync when `fails` is set."""

    fails = False

    def fdatasync(self, descriptor: int) -> None:
        if self.fails:
            raise OSError(5, "Input/output error")
        super().fdatasync(descriptor)


def test_after_a_failed_sync_nothing_is_acknowledged_and_the_server_ends(tmp_path: Path, config: Config) -> None:
    files = FailingFiles()
    engine = Engine(tmp_path, config, Clock(), files, Durability.FSYNC)
    engine.change(b"a", put(b"q", b"safe"))
    files.fails = True
    (outcome,) = engine.mutate(RowMutation(b"a", (put(b"q", b"lost?"),)))
    assert isinstance(outcome, UnknownOutcomeError)
    assert len(engine.fatal) == 1
    files.fails = False
    with pytest.raises(RegionServerError):
        engine.mutate(RowMutation(b"b", (put(b"q", b"x"),)))


def test_stamps_never_go_back_when_the_clock_does(tmp_path: Path, config: Config) -> None:
    clock = ManualClock()
    engine = Engine(tmp_path, config, clock, Files(), Durability.OS)
    first = engine.change(b"r", put(b"q", b"a")).timestamp
    clock.set_now_ms(clock.now_ms() - 3_600_000)
    assert engine.change(b"r", put(b"q", b"b")).timestamp >= first
    assert engine.values(b"r") == {b"f:q": b"b"}
    engine.restart()
    assert engine.change(b"r", put(b"q", b"c")).timestamp >= first
    assert engine.values(b"r") == {b"f:q": b"c"}
    engine.server.stop()


def test_several_rows_are_read_at_one_read_point_in_the_requested_order(engine: Engine) -> None:
    engine.change(b"a", put(b"q", b"1"))
    engine.change(b"b", put(b"q", b"2"))
    answer = engine.region.get([b"b", b"zz", b"a", b"b"], Selection(), may_wait=True)
    assert answer is not None
    assert [[cell[3] for cell in cells] for cells in answer] == [[b"2"], [], [b"1"], [b"2"]]


def test_a_single_caller_waits_for_its_outcome(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(brief_wait, "WAIT_SECONDS", WAIT_S)
    engine = Engine(tmp_path, Config(log_quick_sync_us=3_600_000_000), Clock(), Files(), Durability.FSYNC)
    engine.change(b"r", put(b"q", b"0"))
    told: list[tuple[list[RowOutcome], threading.Thread]] = []

    def done(outcomes: list[RowOutcome]) -> None:
        told.append((outcomes, threading.current_thread()))

    options = WriteOptions(time.monotonic() + WAIT_S, is_alone=True)
    mutations = [RowMutation(b"r", (put(b"q", b"1"),)), RowMutation(b"bad", ())]
    assert engine.region.mutate(mutations, options, done, may_wait=False)
    (((first, refused), thread),) = told
    assert isinstance(first, RowResult)
    assert isinstance(refused, InvalidRequestError)
    assert thread is threading.current_thread()
    assert engine.values(b"r") == {b"f:q": b"1"}
    engine.crash()
    assert engine.values(b"r") == {b"f:q": b"1"}
    engine.server.stop()
    assert not engine.fatal


def test_a_single_caller_stops_waiting_when_the_disk_hangs(tmp_path: Path) -> None:
    files = HeldFiles()
    config = Config(log_quick_sync_us=3_600_000_000, log_idle_marker_ms=3_600_000)
    engine = Engine(tmp_path, config, Clock(), files, Durability.FSYNC)
    engine.change(b"r", put(b"q", b"0"))
    files.may_sync.clear()
    told = threading.Event()
    options = WriteOptions(time.monotonic() + WAIT_S, is_alone=True)
    mutation = RowMutation(b"r", (put(b"q", b"1"),))
    assert engine.region.mutate([mutation], options, lambda _: told.set(), may_wait=False)
    assert files.is_held.wait(WAIT_S)
    assert not told.is_set()
    assert engine.values(b"r") == {b"f:q": b"0"}
    files.may_sync.set()
    assert told.wait(WAIT_S)
    assert engine.values(b"r") == {b"f:q": b"1"}
    engine.server.stop()
