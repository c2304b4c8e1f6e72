"""BEGIN, APPEND and APPLY with a log that stores its records in a list."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable

import pytest
from rowlock_regionserver.cells import Durability
from rowlock_regionserver.clock import ManualClock
from rowlock_regionserver.commit.commit import Commit, TakeBack
from rowlock_regionserver.commit.mvcc import Mvcc
from rowlock_regionserver.errors import StoppingError

from tests.seeds import drawn_seed
from tests.waiting import WAIT_S

REGION_ID = 7
KIND = 1

Write = Callable[..., int]


class FakeLog:
    """Stores records, and completes them when the test calls `sync`."""

    def __init__(self, mvcc: Mvcc) -> None:
        self.order = threading.Lock()
        self.records: list[tuple[int, bytes, Durability]] = []
        self.events: list[str] = []
        self.refuses = False
        self._mvcc = mvcc
        self._completions: list[Callable[[], None]] = []

    def append(
        self,
        region_id: int,
        write_number: int,
        kind: int,
        payload: bytes,
        durability: Durability,
        complete: Callable[[], None],
    ) -> None:
        assert self.order.locked()
        assert (region_id, kind) == (REGION_ID, KIND)
        self._check()
        self.events.append(f"append {write_number}")
        self.records.append((write_number, payload, durability))
        self._completions.append(complete)

    def pass_through(self, complete: Callable[[], None]) -> None:
        assert self.order.locked()
        self._check()
        self._completions.append(complete)

    def _check(self) -> None:
        if self.refuses:
            raise StoppingError("the log is closed")

    def sync(self) -> None:
        """Completes all appended records as the log thread does: it takes the buffer under the order lock."""
        with self.order:
            completions, self._completions = self._completions, []
        for complete in completions:
            complete()


class FakeNumbers:
    """Allocates the numbers of an Mvcc, or refuses to."""

    def __init__(self, mvcc: Mvcc, log: FakeLog) -> None:
        self._mvcc = mvcc
        self._log = log
        self.refuses = False
        self.begun: Callable[[int], None] = lambda number: None

    def begin(self) -> int:
        assert self._log.order.locked()
        if self.refuses:
            raise StoppingError("the log refuses the reservation")
        number = self._mvcc.begin()
        self.begun(number)
        return number


class Fixture:
    """A commit with a fake log and fake numbers; `cells` are the numbers whose cells are in memory."""

    def __init__(self) -> None:
        self.mvcc = Mvcc(10, ManualClock())
        self.log = FakeLog(self.mvcc)
        self.numbers = FakeNumbers(self.mvcc, self.log)
        self.commit = Commit(REGION_ID, self.mvcc, self.numbers, self.log)
        self.cells: list[int] = []

    def write(self, payload: bytes = b"", durability: Durability = Durability.FSYNC) -> int:
        return self.commit.commit(KIND, payload, durability, self._apply)

    def write_early(self, payload: bytes = b"", durability: Durability = Durability.FSYNC) -> int:
        return self.commit.commit_applied(KIND, payload, durability, self._apply_early)

    def _apply(self, write_number: int) -> None:
        assert self.log.order.locked(), "applied outside of the order lock"
        self.log.events.append(f"apply {write_number}")
        self.cells.append(write_number)

    def _apply_early(self, write_number: int) -> TakeBack:
        assert not self.log.order.locked(), "applied under the order lock"
        self.log.events.append(f"apply {write_number}")
        self.cells.append(write_number)

        def take_back() -> None:
            assert self.mvcc.read_point < write_number, "cells of a published number were taken back"
            self.log.events.append(f"take back {write_number}")
            self.cells.remove(write_number)

        return take_back


@pytest.fixture
def fixture() -> Fixture:
    return Fixture()


def test_a_write_is_appended_then_applied_and_published_by_the_log(fixture: Fixture) -> None:
    assert fixture.write(b"a") == 11
    assert fixture.log.records == [(11, b"a", Durability.FSYNC)]
    assert fixture.log.events == ["append 11", "apply 11"]
    assert fixture.mvcc.read_point == 10, "a writer completes its own number"
    fixture.log.sync()
    assert fixture.mvcc.read_point == 11


def test_a_write_of_many_cells_is_applied_before_it_is_appended(fixture: Fixture) -> None:
    assert fixture.write_early(b"a", Durability.OS) == 11
    assert fixture.log.records == [(11, b"a", Durability.OS)]
    assert fixture.log.events == ["apply 11", "append 11"]
    assert fixture.mvcc.read_point == 10
    fixture.log.sync()
    assert fixture.mvcc.read_point == 11


@pytest.mark.parametrize("early", [False, True])
def test_a_write_that_is_not_logged_is_published_in_its_turn(fixture: Fixture, early: bool) -> None:
    fixture.write()
    write = fixture.write_early if early else fixture.write
    assert write(b"", Durability.SKIP) == 12
    assert [number for number, _, _ in fixture.log.records] == [11]
    assert fixture.mvcc.read_point == 10
    fixture.log.sync()
    assert fixture.mvcc.read_point == 12


@pytest.mark.parametrize("durability", [Durability.FSYNC, Durability.SKIP])
def test_a_refused_record_leaves_an_empty_number(fixture: Fixture, durability: Durability) -> None:
    fixture.log.refuses = True
    with pytest.raises(StoppingError):
        fixture.write(b"a", durability)
    assert (fixture.cells, fixture.log.events, fixture.mvcc.read_point) == ([], [], 11)
    assert not fixture.log.order.locked()
    fixture.log.refuses = False
    assert fixture.write(b"b") == 12
    fixture.log.sync()
    assert (fixture.cells, fixture.mvcc.read_point) == ([12], 12)


@pytest.mark.parametrize("durability", [Durability.FSYNC, Durability.SKIP])
def test_cells_are_taken_back_before_their_refused_number_completes(fixture: Fixture, durability: Durability) -> None:
    fixture.log.refuses = True
    with pytest.raises(StoppingError):
        fixture.write_early(b"a", durability)
    assert fixture.log.events == ["apply 11", "take back 11"]
    assert (fixture.cells, fixture.mvcc.read_point) == ([], 11)
    assert not fixture.log.order.locked()


def test_cells_that_got_no_number_are_taken_back(fixture: Fixture) -> None:
    fixture.numbers.refuses = True
    with pytest.raises(StoppingError):
        fixture.write_early()
    assert (fixture.cells, fixture.mvcc.last) == ([], 10)
    with pytest.raises(StoppingError):
        fixture.write()
    assert fixture.mvcc.last == 10


def test_cells_that_can_not_be_applied_take_no_number(fixture: Fixture) -> None:
    def apply(write_number: int) -> TakeBack:
        raise MemoryError

    with pytest.raises(MemoryError):
        fixture.commit.commit_applied(KIND, b"", Durability.FSYNC, apply)
    assert (fixture.log.records, fixture.mvcc.last) == ([], 10)


def test_a_write_that_began_later_is_appended_later(fixture: Fixture) -> None:
    second = threading.Thread(target=fixture.write, args=(b"second",))

    def begun(number: int) -> None:
        if number == 11:
            second.start()
            # It can only wait for the order lock. On a broken build it appends now.
            second.join(0.1)

    fixture.numbers.begun = begun
    fixture.write(b"first")
    second.join(WAIT_S)
    assert [payload for _, payload, _ in fixture.log.records] == [b"first", b"second"]


def test_whatever_the_log_refuses_numbers_records_and_cells_agree() -> None:
    chance = random.Random(drawn_seed())
    for _ in range(100):
        fixture = Fixture()
        expected: list[tuple[int, bytes]] = []
        published = 10
        for step in range(chance.randrange(1, 40)):
            fixture.log.refuses = chance.random() < 0.2
            fixture.numbers.refuses = chance.random() < 0.1
            payload = b"%d" % step
            durability = chance.choice(list(Durability))
            before = fixture.mvcc.last
            try:
                write = chance.choice((fixture.write, fixture.write_early))
                number = write(payload, durability)
            except StoppingError:
                assert fixture.mvcc.last == before + (not fixture.numbers.refuses)
                if published == before:
                    published = fixture.mvcc.last
            else:
                assert number == before + 1
                expected.append((number, b"" if durability is Durability.SKIP else payload))
            if chance.random() < 0.3:
                fixture.log.sync()
                published = fixture.mvcc.last
            assert fixture.mvcc.read_point == published
        assert fixture.cells == [number for number, _ in expected]
        assert [record[:2] for record in fixture.log.records] == [pair for pair in expected if pair[1]]


@pytest.mark.parametrize("write", [Fixture.write, Fixture.write_early])
def test_each_change_is_noted_with_its_payload_also_one_that_is_not_logged(write: Write) -> None:
    fixture, noted = Fixture(), list[tuple[int, int, bytes]]()
    assert not fixture.commit.are_changes_noted
    fixture.commit.note_changes(_into(noted))
    assert fixture.commit.are_changes_noted
    assert not fixture.commit.wait_while_noted(0.01)
    numbers = [write(fixture, b"logged"), write(fixture, b"not logged", Durability.SKIP)]
    fixture.commit.note_changes(None)
    assert fixture.commit.wait_while_noted(0)
    write(fixture, b"later")
    assert noted == [(numbers[0], KIND, b"logged"), (numbers[1], KIND, b"not logged")]


@pytest.mark.parametrize("write", [Fixture.write, Fixture.write_early])
def test_a_change_that_the_log_refuses_is_not_noted(write: Write) -> None:
    fixture, noted = Fixture(), list[tuple[int, int, bytes]]()
    fixture.commit.note_changes(_into(noted))
    fixture.log.refuses = True
    for durability in (Durability.FSYNC, Durability.SKIP):
        with pytest.raises(StoppingError):
            write(fixture, b"refused", durability)
    assert noted == []


def _into(noted: list[tuple[int, int, bytes]]) -> Callable[[int, int, bytes], None]:
    return lambda *change: noted.append(change)
