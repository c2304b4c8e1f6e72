"""Mutations of several requests in one call: each gets the outcome that it would have had alone."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from rowlock_regionserver.cells import Durability, Family
from rowlock_regionserver.clock import Clock
from rowlock_regionserver.commit.numbering import Numbering
from rowlock_regionserver.config import Config
from rowlock_regionserver.errors import CorruptionError, FamilyNotFoundError, InvalidRequestError, UnknownOutcomeError
from rowlock_regionserver.found_cells import FoundCell
from rowlock_regionserver.operations import Append, Put, RequestId, RowMutation, RowOutcome, RowResult, WriteOptions
from rowlock_regionserver.region.mutate.row_state import RowState

from tests.unit.region.conftest import Engine, HeldFiles, abandon
from tests.unit.region.lone_region import LoneRegion
from tests.waiting import WAIT_S

CLIENT = b"0123456789abcdef"


class Told:
    """Records each mutation's outcome, by its index, and how many arrived together."""

    def __init__(self) -> None:
        self.outcomes: dict[int, RowOutcome] = {}
        self.groups: list[list[int]] = []
        self._changed = threading.Condition()

    def done(self, places: list[int], outcomes: list[RowOutcome]) -> None:
        with self._changed:
            assert not set(places) & self.outcomes.keys(), "told twice"
            self.groups.append(places)
            self.outcomes.update(zip(places, outcomes, strict=True))
            self._changed.notify_all()

    def wait(self, count: int) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: len(self.outcomes) == count, WAIT_S)

    def result(self, place: int) -> RowResult:
        outcome = self.outcomes[place]
        assert isinstance(outcome, RowResult), outcome
        return outcome


class FailingFiles(HeldFiles):
    """Files whose syncs fail from a chosen moment on."""

    has_failed = False

    def fdatasync(self, descriptor: int) -> None:
        super().fdatasync(descriptor)
        if self.has_failed:
            raise OSError(5, "the disk is broken")


@pytest.fixture
def files() -> FailingFiles:
    return FailingFiles()


@pytest.fixture
def engine(tmp_path: Path, config: Config, files: FailingFiles) -> Iterator[Engine]:
    running = Engine(tmp_path, config, Clock(), files, Durability.FSYNC)
    yield running
    files.may_sync.set()
    if running.fatal:
        abandon(running.server)
    else:
        running.server.stop()


def put(row: bytes, value: bytes, sequence: int = 0, family: bytes = b"f") -> RowMutation:
    request = RequestId(CLIENT, sequence, 1) if sequence else None
    return RowMutation(row, (Put(family, b"q", value),), request=request)


def make(engine: Engine, *mutations: RowMutation, durability: Durability | None = None) -> Told:
    told = Told()
    options = WriteOptions(time.monotonic() + WAIT_S, durability)
    assert engine.region.mutate_each(mutations, options, told.done)
    return told


def test_each_gets_its_own_outcome(engine: Engine) -> None:
    told = make(engine, put(b"a", b"1"), put(b"", b"2"), put(b"b", b"3"), put(b"c", b"4", family=b"none"))
    told.wait(4)
    assert isinstance(told.outcomes[1], InvalidRequestError)
    assert isinstance(told.outcomes[3], FamilyNotFoundError)
    assert told.result(0).timestamp
    assert told.result(2).timestamp
    assert [engine.values(row) for row in (b"a", b"b", b"c")] == [{b"f:q": b"1"}, {b"f:q": b"3"}, {}]


def test_the_later_of_two_puts_of_a_row_wins(engine: Engine) -> None:
    make(engine, put(b"a", b"1"), put(b"b", b"2"), put(b"a", b"3")).wait(3)
    assert engine.values(b"a") == {b"f:q": b"3"}


def test_a_request_id_that_comes_twice_is_applied_once(engine: Engine) -> None:
    told = make(engine, put(b"a", b"1", 7), put(b"a", b"1", 8), put(b"a", b"1", 7))
    told.wait(3)
    assert [told.result(place).repeated_request for place in range(3)] == [False, False, True]
    assert told.result(2).timestamp == told.result(0).timestamp
    assert engine.region.statistics().read_point == 2


def test_outcomes_that_depend_on_no_sync_arrive_while_the_disk_hangs(engine: Engine, files: FailingFiles) -> None:
    make(engine, put(b"a", b"1", 7)).wait(1)
    files.may_sync.clear()
    told = make(engine, put(b"b", b"2"), put(b"a", b"1", 7), put(b"", b"3"), put(b"c", b"4"))
    told.wait(2)
    assert told.groups == [[1, 2]]
    assert told.result(1).repeated_request
    assert engine.values(b"b") == {}
    files.may_sync.set()
    told.wait(4)
    assert told.groups == [[1, 2], [0, 3]]
    assert engine.values(b"b") == {b"f:q": b"2"}


def test_a_repeat_of_what_is_not_published_waits_for_it(engine: Engine, files: FailingFiles) -> None:
    files.may_sync.clear()
    told = make(engine, put(b"a", b"1", 7), put(b"a", b"1", 7))
    assert told.groups == []
    files.may_sync.set()
    told.wait(2)
    assert told.groups == [[0, 1]]


def test_when_the_sync_fails_only_those_that_needed_it_are_in_doubt(engine: Engine, files: FailingFiles) -> None:
    make(engine, put(b"a", b"1", 7)).wait(1)
    files.has_failed = True
    told = make(engine, put(b"b", b"2", 8), put(b"a", b"1", 7), put(b"", b"3"))
    told.wait(3)
    assert isinstance(told.outcomes[0], UnknownOutcomeError)
    assert told.result(1).repeated_request
    assert isinstance(told.outcomes[2], InvalidRequestError)


@pytest.mark.parametrize("config", [Config(request_bytes_max=1 << 20, worker_threads=2)])
def test_answers_of_different_requests_have_separate_budgets(engine: Engine) -> None:
    large = bytes(600_000)
    engine.change(b"a", Append(b"f", b"q", large), request=RequestId(CLIENT, 7, 1))
    engine.change(b"b", Append(b"f", b"q", large), request=RequestId(CLIENT, 8, 1))
    told = make(engine, put(b"a", b"", 7), put(b"b", b"", 8))
    told.wait(2)
    assert [len(told.result(place).results) for place in range(2)] == [1, 1]


def test_when_one_would_have_to_wait_nothing_is_done(lone: LoneRegion) -> None:
    told = Told()
    locks = lone.parts.row_locks
    assert locks.try_acquire([b"b"])
    mutations = [put(b"a", b"1"), put(b"b", b"2")]
    assert not lone.region.mutate_each(mutations, WriteOptions(time.monotonic()), told.done)
    locks.release([b"b"])
    assert told.groups == []
    assert lone.scan() == []
    assert lone.parts.row_locks.statistics().held == 0


def test_a_row_that_can_not_be_read_does_not_fail_others(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its stamp must be later than its cells, which are damaged."""
    cells = RowState.family_cells

    def family_cells(state: RowState, family: Family) -> Sequence[FoundCell]:
        if state._row == b"b":
            raise CorruptionError(Path("1.store"), 0, "a block", "zeros")
        return cells(state, family)

    monkeypatch.setattr(Numbering, "reads_rows", lambda *_: True)
    monkeypatch.setattr(RowState, "family_cells", family_cells)
    outcomes: list[RowOutcome] = []
    done = threading.Event()

    def finish(all_outcomes: list[RowOutcome]) -> None:
        outcomes.extend(all_outcomes)
        done.set()

    rows = [put(b"a", b"1"), put(b"b", b"2"), put(b"c", b"3")]
    engine.region.mutate(rows, WriteOptions(time.monotonic() + WAIT_S), finish, may_wait=True)
    assert done.wait(WAIT_S)
    assert [type(outcome) for outcome in outcomes] == [RowResult, CorruptionError, RowResult]
    assert [engine.values(row) for row in (b"a", b"c")] == [{b"f:q": b"1"}, {b"f:q": b"3"}]
