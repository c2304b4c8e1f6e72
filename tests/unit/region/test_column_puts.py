"""Puts in columns: each row is a change of its own, and all that is valid is made by one write."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path

import pytest
from rowlock_regionserver.cells import Durability
from rowlock_regionserver.clock import Clock, ManualClock
from rowlock_regionserver.config import Config
from rowlock_regionserver.errors import (
    DeadlineError,
    FamilyNotFoundError,
    InvalidRequestError,
    RegionServerError,
    StoppingError,
    UnknownOutcomeError,
)
from rowlock_regionserver.operations import (
    Put,
    RequestId,
    RowMutation,
    RowOutcome,
    RowResult,
    ScanPlan,
    Selection,
    WriteOptions,
)
from rowlock_regionserver.region.bulk.put_batch import PutBatch
from rowlock_regionserver.region.mutate.reading_changes import PendingOutcome
from rowlock_regionserver.region.mutate.write_path import Done
from rowlock_regionserver.wal.segment import decode_segment_header, segment_number

from tests.waiting import WAIT_S, wait_until

from .conftest import HeldFiles
from .lone_region import LoneRegion, Step
from .row_batches import Name, Row, row_batch

CLIENT = b"0123456789abcdef"
NAMES: list[Name] = [(b"f", b"a"), (b"g", b"b")]
ALL = ScanPlan(selection=Selection(versions=100))


def puts(first: int, count: int, value: bytes = b"v", *, floor: int = 0, names: Sequence[Name] = NAMES) -> PutBatch:
    """Rows `first` to `first + count`, whose sequences are their numbers."""
    rows: list[Row] = [(b"%04d" % number, None, [value, value]) for number in range(first, first + count)]
    return PutBatch(row_batch(names, rows), CLIENT, range(first, first + count), floor)


def made(outcomes: Sequence[RowOutcome]) -> list[RowResult]:
    results = [outcome for outcome in outcomes if isinstance(outcome, RowResult)]
    assert len(results) == len(outcomes), outcomes
    return results


def small_pieces(lone: LoneRegion, rows_max: int) -> None:
    lone.region._writers.column_puts._piece_rows_max = rows_max


def test_rows_are_made_by_one_write_with_one_stamp(lone: LoneRegion) -> None:
    last = lone.parts.mvcc.last
    results = made(lone.put_rows(puts(1, 300)))
    assert len(set(results)) == 1
    assert results[0].timestamp > 0
    assert lone.parts.mvcc.last == last + 1
    assert lone.values(b"0300") == {b"f:a": b"v", b"g:b": b"v"}
    assert len(lone.scan()) == 600


def test_pieces_are_writes_of_their_own_in_order(lone: LoneRegion) -> None:
    small_pieces(lone, 7)
    last = lone.parts.mvcc.last
    made(lone.put_rows(puts(1, 20)))
    assert lone.parts.mvcc.last == last + 3
    assert len(lone.scan()) == 40


def test_a_refused_row_stops_no_other(lone: LoneRegion) -> None:
    rows: list[Row] = [(b"a", None, [b"1", None]), (b"", None, [b"2", None]), (b"c", -1, [b"3", None])]
    rows += [(b"d", None, [None, None]), (b"e", None, [None, b"5"])]
    outcomes = lone.put_rows(PutBatch(row_batch(NAMES, rows), CLIENT, [1, 2, 3, 4, 5], 1))
    assert [type(outcome) for outcome in outcomes] == [
        RowResult,
        InvalidRequestError,
        InvalidRequestError,
        InvalidRequestError,
        RowResult,
    ]
    assert [row for row, *_ in lone.scan()] == [b"a", b"e"]


def test_a_row_without_a_value_is_refused(lone: LoneRegion) -> None:
    rows: list[Row] = [(b"a", None, [b"1", None]), (b"b", None, [None, None])]
    first, second = lone.put_rows(PutBatch(row_batch(NAMES, rows), CLIENT, [1, 2], 1))
    assert isinstance(first, RowResult)
    assert isinstance(second, InvalidRequestError)


def test_an_unknown_family_refuses_only_rows_with_a_value_in_it(lone: LoneRegion) -> None:
    names = [(b"f", b"a"), (b"x", b"b")]
    rows: list[Row] = [(b"a", None, [b"1", None]), (b"b", None, [b"2", b"3"])]
    first, second = lone.put_rows(PutBatch(row_batch(names, rows), CLIENT, [1, 2], 1))
    assert isinstance(first, RowResult)
    assert isinstance(second, FamilyNotFoundError)
    assert [row for row, *_ in lone.scan()] == [b"a"]


def test_a_row_twice_is_put_in_order(lone: LoneRegion) -> None:
    rows: list[Row] = [(b"a", 5, [b"1", None]), (b"a", 5, [b"2", None])]
    made(lone.put_rows(PutBatch(row_batch(NAMES, rows), CLIENT, [1, 2], 1)))
    assert lone.values(b"a") == {b"f:a": b"2"}


def test_repeated_rows_get_their_answers_and_new_ones_are_made(lone: LoneRegion) -> None:
    first = made(lone.put_rows(puts(1, 10)))
    lone.change(b"0005", Put(b"f", b"a", b"later"))
    second = made(lone.put_rows(puts(6, 10, b"w")))
    assert [result.repeated_request for result in second] == [True] * 5 + [False] * 5
    assert {result.timestamp for result in second[:5]} == {first[0].timestamp}
    assert lone.values(b"0006")[b"f:a"] == b"v"
    assert lone.values(b"0011")[b"f:a"] == b"w"
    assert lone.values(b"0005")[b"f:a"] == b"later"


def test_two_rows_with_one_id_are_not_both_made(lone: LoneRegion) -> None:
    rows: list[Row] = [(b"a", None, [b"1", None]), (b"b", None, [b"2", None])]
    first, second = lone.put_rows(PutBatch(row_batch(NAMES, rows), CLIENT, [4, 4], 1))
    assert isinstance(first, RowResult)
    assert isinstance(second, InvalidRequestError)
    assert [row for row, *_ in lone.scan()] == [b"a"]


def test_rows_whose_cells_may_be_later_than_the_stamp_are_read_first(tmp_path: Path) -> None:
    """As after the clock was set back: each new value must be newer than the one that is there."""
    clock = ManualClock()
    lone = LoneRegion(tmp_path, Config(), clock)
    lone.change(b"0002", Put(b"f", b"a", b"old", clock.now_ms() + 3000))
    lone.region._numbering._stamps.extend_cells(clock.now_ms() + 5000)
    results = made(lone.put_rows(puts(1, 3)))
    assert lone.values(b"0002")[b"f:a"] == b"v"
    assert results[1].timestamp > clock.now_ms() + 3000 > results[0].timestamp
    lone.stop()


def test_the_later_of_two_puts_in_one_millisecond_wins(tmp_path: Path) -> None:
    lone = LoneRegion(tmp_path, Config(), ManualClock())
    for value in (b"1", b"2"):
        lone.change(b"0002", Put(b"f", b"a", value))
    made(lone.put_rows(puts(1, 3)))
    assert lone.values(b"0002")[b"f:a"] == b"v"
    lone.change(b"0002", Put(b"f", b"a", b"3"))
    assert lone.values(b"0002")[b"f:a"] == b"3"
    lone.stop()


def test_a_row_mutation_with_the_id_of_such_a_put_is_a_repetition(lone: LoneRegion) -> None:
    (result, *_) = made(lone.put_rows(puts(1, 10)))
    again = lone.change(b"0003", Put(b"f", b"a", b"other"), request=RequestId(CLIENT, 3, 0, age_ms=5))
    assert again == result._replace(repeated_request=True)
    with pytest.raises(InvalidRequestError):
        lone.change(b"0004", Put(b"f", b"a", b"other"), request=RequestId(CLIENT, 3, 0, age_ms=5))


def test_rows_below_the_floor_are_unknown_and_not_made_again(lone: LoneRegion) -> None:
    lone.put_rows(puts(1, 10))
    lone.change(b"x", Put(b"f", b"a", b"1"), request=RequestId(CLIENT, 20, 20))
    outcomes = lone.put_rows(puts(5, 3, b"w", floor=20))
    assert all(isinstance(outcome, UnknownOutcomeError) for outcome in outcomes)
    assert lone.values(b"0005")[b"f:a"] == b"v"


def test_their_floor_is_the_clients(lone: LoneRegion) -> None:
    lone.put_rows(puts(1, 10))
    lone.put_rows(puts(50, 10, floor=50))
    with pytest.raises(UnknownOutcomeError):
        lone.change(b"0003", Put(b"f", b"a", b"w"), request=RequestId(CLIENT, 3, 0))
    assert lone.values(b"0003")[b"f:a"] == b"v"


@pytest.mark.parametrize("is_flushed", [False, True])
def test_rows_and_answers_survive_crashes(lone: LoneRegion, is_flushed: bool) -> None:
    first = made(lone.put_rows(puts(1, 100)))
    before = lone.scan(ALL)
    if is_flushed:
        lone.flush()
    for _ in range(2):
        lone.crash()
        assert lone.scan(ALL) == before
        in_memory = sum(store.memstore.statistics().cell_count for store in lone.parts.stores.all())
        assert in_memory == (0 if is_flushed else len(before))
        again = made(lone.put_rows(puts(1, 100, b"w")))
        assert again == [result._replace(repeated_request=True) for result in first]
        assert lone.scan(ALL) == before
    lone.region._check()


def test_replay_forgets_the_answers_below_the_floor(lone: LoneRegion) -> None:
    lone.put_rows(puts(1, 100))
    lone.put_rows(puts(101, 100, floor=151))
    lone.crash()
    assert lone.parts.idempotency.statistics().saved_answers == 50
    with pytest.raises(UnknownOutcomeError):
        lone.change(b"0150", Put(b"f", b"a", b"w"), request=RequestId(CLIENT, 150, 0))


def test_without_the_log_they_are_made_too(tmp_path: Path) -> None:
    lone = LoneRegion(tmp_path, durability=Durability.SKIP)
    assert made(lone.put_rows(puts(1, 5)))[0].timestamp > 0
    assert made(lone.put_rows(puts(1, 5, b"w")))[0].repeated_request
    assert lone.values(b"0001")[b"f:a"] == b"v"
    lone.crash()
    assert lone.scan(ALL) == []
    lone.stop()


def test_a_log_that_refuses_the_record_leaves_nothing(lone: LoneRegion) -> None:
    lone.log.refuses = True
    with pytest.raises(StoppingError):
        lone.put_rows(puts(1, 10))
    assert lone.scan(ALL) == []
    lone.log.refuses = False
    assert not any(result.repeated_request for result in made(lone.put_rows(puts(1, 10))))
    assert len(lone.scan(ALL)) == 20
    lone.region._check()


def test_a_later_piece_that_fails_as_a_whole_fails_only_its_rows(lone: LoneRegion) -> None:
    small_pieces(lone, 4)

    def refuse() -> None:
        lone.log.refuses = True

    lone.steps.at_next(Step.ENTER, lambda: lone.steps.at_next(Step.ENTER, refuse))
    outcomes = lone.put_rows(puts(1, 12))
    made(outcomes[:4])
    assert all(isinstance(outcome, StoppingError) for outcome in outcomes[4:])
    assert len(outcomes) == 12
    lone.log.refuses = False
    assert [result.repeated_request for result in made(lone.put_rows(puts(1, 12)))] == [True] * 4 + [False] * 8


def test_no_row_is_seen_before_it_is_published(tmp_path: Path) -> None:
    files = HeldFiles()
    lone = LoneRegion(tmp_path, Config(), Clock(), files, Durability.FSYNC)
    files.may_sync.clear()
    told = threading.Event()
    lone.region.put_rows(puts(1, 10), WriteOptions(lone.clock.monotonic() + WAIT_S), lambda outcomes: told.set())
    assert files.is_held.wait(WAIT_S)
    assert lone.scan(ALL) == []
    assert lone.cells(b"0001") == []
    assert not told.is_set()
    files.may_sync.set()
    assert told.wait(WAIT_S)
    assert len(lone.scan(ALL)) == 20
    lone.stop()


def test_rows_wait_for_the_locks_of_others_and_release_theirs(tmp_path: Path) -> None:
    lone = LoneRegion(tmp_path)
    lone.parts.row_locks.acquire([b"0007"], lone.clock.monotonic())
    with pytest.raises(DeadlineError):
        lone.region.put_rows(puts(1, 10), WriteOptions(lone.clock.monotonic()), lambda outcomes: None)
    assert lone.scan(ALL) == []
    assert lone.parts.row_locks.statistics().held == 1
    lone.parts.row_locks.release([b"0007"])
    made(lone.put_rows(puts(1, 10)))
    assert lone.parts.row_locks.statistics().held == 0
    lone.stop()


def test_changes_of_other_rows_go_on_beside_them(lone: LoneRegion) -> None:
    changed: list[RowOutcome] = []

    def change() -> None:
        mutation = RowMutation(b"other", (Put(b"f", b"a", b"1"),))
        assert lone.region.mutate([mutation], WriteOptions(lone.clock.monotonic()), changed.extend, may_wait=False)

    lone.steps.at_next(Step.BEGIN, lambda: threading.Thread(target=change).start())
    made(lone.put_rows(puts(1, 10)))
    wait_until(lambda: bool(changed))
    made(changed)


def test_small_segments_are_merged(lone: LoneRegion) -> None:
    for number in range(40):
        made(lone.put_rows(puts(1 + 20 * number, 20)))
    assert lone.region.segment_count < 12
    assert len(lone.scan()) == 1600
    assert lone.memory.bytes_held == lone.region.memstore_bytes
    lone.region._check()


def test_segments_are_merged_after_the_answer(lone: LoneRegion, monkeypatch: pytest.MonkeyPatch) -> None:
    write_path, counts = lone.region._writers.write_path, []
    notify = write_path.notify_when_published

    def notify_and_count(done: Done, pending: Sequence[PendingOutcome]) -> None:
        counts.append(lone.region.segment_count)
        notify(done, pending)

    monkeypatch.setattr(write_path, "notify_when_published", notify_and_count)
    for number in range(1, 5):
        made(lone.put_rows(puts(20 * number, 20)))
    assert counts == [1, 2, 3, 4]
    assert lone.region.segment_count == 1


def test_segments_of_a_large_batch_are_merged_between_its_pieces(lone: LoneRegion) -> None:
    small_pieces(lone, 10)
    counts: list[int] = []
    lone.steps.at_each(Step.LEAVE, lambda: counts.append(lone.region.segment_count))
    made(lone.put_rows(puts(1, 400)))
    assert max(counts) < 12


def test_no_segments_are_merged_in_a_region_that_was_closed(lone: LoneRegion) -> None:
    for number in range(1, 4):
        made(lone.put_rows(puts(20 * number, 20)))
    lone.steps.at_next(Step.LEAVE, lone.region.close)
    made(lone.put_rows(puts(80, 20)))
    assert lone.region.segment_count == 4


def test_no_segments_are_merged_while_another_thread_wants_the_gate(lone: LoneRegion) -> None:
    gate = lone.region._parts.gate
    for number in range(1, 4):
        made(lone.put_rows(puts(20 * number, 20)))
    lone.steps.at_next(Step.LEAVE, gate.enter_exclusive)
    made(lone.put_rows(puts(80, 20)))
    gate.leave_exclusive()
    assert lone.region.segment_count == 4
    made(lone.put_rows(puts(100, 20)))
    assert lone.region.segment_count == 1


def test_families_that_change_meanwhile_are_checked_again(lone: LoneRegion) -> None:
    lone.steps.at_next(Step.ENTER, lambda: lone.alter(drop_families=[b"g"]))
    outcomes = lone.put_rows(puts(1, 3))
    assert all(isinstance(outcome, FamilyNotFoundError) for outcome in outcomes)
    assert lone.scan(ALL) == []


def test_rows_outside_of_the_region_are_refused_one_by_one(lone: LoneRegion, monkeypatch: pytest.MonkeyPatch) -> None:
    for writer in (lone.region._writers.column_puts, lone.region._writers.write_path):
        monkeypatch.setattr(writer, "_stop", b"0003")
    outcomes = lone.put_rows(puts(1, 4))
    assert [isinstance(outcome, RegionServerError) for outcome in outcomes] == [False, False, True, True]


def test_an_older_server_refuses_a_log_with_such_puts_and_only_that(tmp_path: Path) -> None:
    """It would not know this kind of record."""
    lone = LoneRegion(tmp_path, Config(log_segment_bytes=1 << 16))
    lone.change(b"a", Put(b"f", b"a", b"1"))
    lone.bulk(row_batch(NAMES, [(b"%04d" % number, None, [b"1", b"2"]) for number in range(100)]))
    assert log_versions(lone)[-1] == 3
    lone.put_rows(puts(1, 100))
    lone.bulk(row_batch(NAMES, [(b"%04d" % number, None, [b"1", b"2"]) for number in range(100)]))
    assert log_versions(lone)[-2:] == [3, 4]
    scanned = lone.scan(ALL)
    lone.crash()
    assert log_versions(lone)[-2:] == [4, 4]
    assert lone.scan(ALL) == scanned
    lone.stop()


def log_versions(lone: LoneRegion) -> list[int]:
    folder = lone.folder / "log"
    paths = sorted(path for path in folder.iterdir() if segment_number(path.name) is not None)
    return [decode_segment_header(path, path.read_bytes()).version for path in paths]
