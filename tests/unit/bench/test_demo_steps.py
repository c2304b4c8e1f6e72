"""The demo's comparisons: their expected values, and that they detect errors."""

from __future__ import annotations

import io

import pyarrow as pa
import pytest
from rich.console import Console

from bench.demo import tables
from bench.demo.__main__ import arguments, source
from bench.demo.flights import ACTUAL_COLUMNS, PLAN_COLUMNS, keys_of
from bench.demo.output import Output
from bench.demo.steps import STEPS, correct, count, look_up
from bench.demo.steps.correct import Attempt


@pytest.fixture(scope="module")
def flights() -> pa.Table:
    return source(200)


def test_a_flight_is_cells_of_text_and_big_endian_numbers_and_nothing_for_missing_values() -> None:
    flight: dict[str, str | int | None] = dict.fromkeys(PLAN_COLUMNS, 1)
    flight |= {"time_hour": "2013-01-01T10:00:00Z", "carrier": "UA", "flight": 1545, "origin": "EWR", "dest": "IAH"}
    flight |= dict.fromkeys(ACTUAL_COLUMNS) | {"arr_delay": -18, "corrected_by": None}
    cells = look_up.cells_of(flight)
    assert cells[b"plan:origin"] == b"EWR"
    assert cells[b"plan:year"] == b"\x00\x00\x00\x01"
    assert cells[b"actual:arr_delay"] == b"\xff\xff\xff\xee"
    assert len(cells) == len(PLAN_COLUMNS) + 1


def test_numbers_survive_their_bytes() -> None:
    assert [tables.number_of(tables.number_bytes(number)) for number in (0, -1, 1272)] == [0, -1, 1272]


def test_a_race_is_fair_when_one_wins_and_the_other_sees_its_value() -> None:
    assert correct.fair(10, [Attempt(saw=10, won=True, current=10), Attempt(saw=10, won=False, current=9)])
    assert correct.fair(10, [Attempt(saw=10, won=False, current=8), Attempt(saw=10, won=True, current=10)])


@pytest.mark.parametrize(
    "attempts",
    [
        [Attempt(10, True, 10), Attempt(10, True, 10)],
        [Attempt(10, False, 10), Attempt(10, False, 10)],
        [Attempt(10, True, 10), Attempt(10, False, 10)],
        [Attempt(10, True, 10), Attempt(9, False, 9)],
        [Attempt(10, True, 9), Attempt(10, False, 9)],
    ],
    ids=["both won", "neither won", "the loser saw the old value", "saw something else", "the winner compared wrongly"],
)
def test_every_other_race_is_not_fair(attempts: list[Attempt]) -> None:
    assert not correct.fair(10, attempts)


def test_corrections_change_the_delay_and_name_the_winner(flights: pa.Table) -> None:
    numbers = correct.chosen(flights)
    first, last = numbers[0], numbers[-1]
    winners = ["anna", *["ben"] * (len(numbers) - 1)]
    found = correct.corrected(flights, numbers, winners)
    assert found.schema.names == flights.schema.names
    assert found["arr_delay"][first].as_py() == flights["arr_delay"][first].as_py() - 1
    assert found["arr_delay"][last].as_py() == flights["arr_delay"][last].as_py() - 2
    assert found["corrected_by"].to_pylist().count("ben") == len(numbers) - 1
    assert found["corrected_by"].null_count == len(flights) - len(numbers)
    assert found.drop_columns(["arr_delay", "corrected_by"]).equals(flights.drop_columns(["arr_delay", "corrected_by"]))


def test_only_flights_with_a_delay_are_corrected(flights: pa.Table) -> None:
    chosen = correct.chosen(flights)
    assert 0 < len(chosen) < len(flights)
    assert all(flights["arr_delay"][number].is_valid for number in chosen)


def test_a_flight_counts_for_its_origin_and_its_destination() -> None:
    counts = count.counts_of([("UA", "EWR", "IAH"), ("UA", "EWR", "ORD"), ("AA", "JFK", "MIA")])
    assert counts == {
        (b"UA", b"from:EWR"): 2,
        (b"UA", b"to:IAH"): 1,
        (b"UA", b"to:ORD"): 1,
        (b"AA", b"from:JFK"): 1,
        (b"AA", b"to:MIA"): 1,
    }


@pytest.mark.parametrize("legs", [[("UA", "EWR", "IAH")], [("UA", "EWR", "IAH")] * 3, [("UA", "EWR", "ORD")] * 2])
def test_a_wrong_counter_is_a_difference(legs: list[count.Leg]) -> None:
    output = Output(Console(file=io.StringIO()))
    count.compare(output, count.counts_of(legs), count.counts_of([("UA", "EWR", "IAH")] * 2))
    assert len(output.differences) == 1


def test_exact_counters_pass() -> None:
    stream = io.StringIO()
    output = Output(Console(file=stream, width=200))
    legs = [("UA", "EWR", "IAH"), ("AA", "JFK", "MIA")]
    count.compare(output, count.counts_of(legs), count.counts_of(reversed(legs)))
    assert output.differences == []
    assert "all 4 counters are exact, 2 flights in total" in stream.getvalue()


def test_the_source_is_in_key_order_without_corrections(flights: pa.Table) -> None:
    assert len(flights) == 200
    assert keys_of(flights) == sorted(keys_of(flights))
    assert flights["corrected_by"].null_count == 200


def test_every_step_has_a_title_of_its_own() -> None:
    assert len({title for title, _ in STEPS}) == len(STEPS)


def test_a_demo_of_no_flights_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        arguments(["--flights", "0"])
    assert "at least 1" in capsys.readouterr().err
