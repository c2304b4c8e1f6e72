"""The order of the writers' corrections in the demo, and the check of a read."""

from __future__ import annotations

import random

import pytest

from bench.demo.corrections import Corrected, Journal, Rounds, one_moment, seen_count

ROUNDS = Rounds("cleo", [b"a", b"b", b"c"], [100, 61, 1])


def test_a_writer_starts_again_at_its_first_flight_and_halves_the_current_delay() -> None:
    made = [ROUNDS.correction(number) for number in range(7)]
    assert [(correction.row, correction.old, correction.new) for correction in made] == [
        (b"a", 100, 50),
        (b"b", 61, 30),
        (b"c", 1, 0),
        (b"a", 50, 25),
        (b"b", 30, 15),
        (b"c", 0, 0),
        (b"a", 25, 12),
    ]


def test_each_flight_has_its_newest_correction() -> None:
    state: dict[bytes, Corrected] = {}
    assert ROUNDS.first(0) == state
    for number in range(20):
        correction = ROUNDS.correction(number)
        assert correction.old == state.get(correction.row, Corrected(ROUNDS.delays[number % 3], "", 0)).delay
        state[correction.row] = Corrected(correction.new, "cleo", number)
        assert ROUNDS.first(number + 1) == state


def test_the_first_corrections_of_a_writer_are_recognised() -> None:
    assert [seen_count(ROUNDS, ROUNDS.first(count)) for count in range(10)] == list(range(10))


@pytest.mark.parametrize(
    "change",
    [
        {b"b": None},
        {b"a": Corrected(50, "cleo", 0)},
        {b"a": Corrected(24, "cleo", 3)},
        {b"d": Corrected(1, "cleo", 1)},
        {b"c": Corrected(0, "cleo", 8)},
    ],
    ids=["one is missing", "one is too old", "another delay", "a flight too many", "those before it are missing"],
)
def test_an_impossible_state_is_detected(change: dict[bytes, Corrected | None]) -> None:
    seen = {row: corrected for row, corrected in {**ROUNDS.first(5), **change}.items() if corrected is not None}
    assert seen_count(ROUNDS, seen) is None


# Two writers, three corrections each: cleo's at 10, 20 and 30, dora's at 15, 25 and 35, each answered after 2.
JOURNALS = [Journal([10, 20, 30], [12, 22, 32]), Journal([15, 25, 35], [17, 27, 37])]


@pytest.mark.parametrize(
    ("counts", "begun", "ended"),
    [
        ((0, 0), 0, 50),
        ((3, 3), 0, 50),
        ((2, 1), 23, 24),
        ((1, 1), 0, 50),
        ((2, 2), 26, 26),
        ((1, 0), 11, 11),
        ((0, 0), 11, 11),
    ],
)
def test_counts_of_one_read_point_are_accepted(counts: tuple[int, int], begun: int, ended: int) -> None:
    assert one_moment(JOURNALS, counts, begun, ended)


@pytest.mark.parametrize(
    ("counts", "begun", "ended"),
    [((0, 1), 0, 50), ((3, 1), 0, 50), ((1, 1), 23, 50), ((3, 3), 0, 34), ((4, 3), 0, 50), ((0, 3), 0, 50)],
    ids=[
        "dora's first is seen and cleo's, answered before it was sent, is not",
        "cleo's third is seen and dora's second, long answered, is not",
        "cleo's second was answered before it began and is not seen",
        "dora's third was sent after it ended and is seen",
        "more than were sent",
        "all of one, none of the other",
    ],
)
def test_counts_of_no_read_point_are_detected(counts: tuple[int, int], begun: int, ended: int) -> None:
    assert not one_moment(JOURNALS, counts, begun, ended)


def test_any_moment_of_a_random_run_is_one_and_a_moment_per_writer_is_not() -> None:
    numbers = random.Random(2013)
    for _ in range(50):
        times = sorted(numbers.sample(range(10_000), 120))
        journals = [Journal(times[0::4], times[1::4]), Journal(times[2::4], times[3::4])]
        moment = numbers.randrange(10_000)
        # Applied somewhere between sent and answered: here when it was sent.
        counts = [sum(sent <= moment for sent in journal.sent) for journal in journals]
        assert one_moment(journals, counts, moment, moment)
        if counts[0] >= 2:
            assert not one_moment(journals, [counts[0] - 2, counts[1]], moment, moment)
