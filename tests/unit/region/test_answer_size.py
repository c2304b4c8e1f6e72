"""The cells that a change reads count before it is applied: in its answer, in its log record, in memory."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from rowlock_regionserver.config import Config
from rowlock_regionserver.errors import LimitExceededError, RegionTooBusyError, UnknownOutcomeError
from rowlock_regionserver.operations import (
    Append,
    Check,
    CompareOp,
    Condition,
    Increment,
    Put,
    RequestId,
    RowMutation,
    RowResult,
)
from rowlock_regionserver.rpc.messages.answers import mutate_answer

from .conftest import Engine
from .lone_region import LoneRegion

ANSWER_BYTES_MAX = 100_000
LARGE = b"v" * 30_000
CLIENT = b"c" * 16


@pytest.fixture
def config(config: Config) -> Config:
    return replace(config, request_bytes_max=ANSWER_BYTES_MAX)


def append(row: bytes, sequence: int = 0) -> RowMutation:
    return RowMutation(row, (Append(b"f", b"q", b"+"),), request=RequestId(CLIENT, sequence, 1) if sequence else None)


def test_appends_that_would_answer_too_much_are_refused_and_nothing_is_changed(engine: Engine) -> None:
    engine.change(b"r", Put(b"f", b"q", LARGE))
    with pytest.raises(LimitExceededError, match=r"the answer would have") as refused:
        engine.change(b"r", *[Append(b"f", b"q", b"+")] * 4)
    error = refused.value
    assert (error.limit, error.limit_value, error.row) == ("request_bytes_max", ANSWER_BYTES_MAX, b"r")
    assert error.found > ANSWER_BYTES_MAX
    assert engine.values(b"r") == {b"f:q": LARGE}
    assert len(engine.change(b"r", *[Append(b"f", b"q", b"+")] * 3).results) == 3


def test_a_column_that_is_checked_again_and_again_is_answered_once(engine: Engine) -> None:
    engine.change(b"r", Put(b"f", b"q", LARGE))
    checks = [Check(b"f", b"q", CompareOp.LESS, b"w"), Check(b"f", b"absent"), Check(b"f", b"q", operand=LARGE)]
    result = engine.change(b"r", Put(b"f", b"p", b""), condition=Condition((*checks, *checks)))
    assert result.condition_met
    assert [(qualifier, value) for _, qualifier, _, value in result.seen] == [(b"q", LARGE)]


def test_checks_that_would_answer_too_much_are_refused_and_nothing_is_changed(engine: Engine) -> None:
    qualifiers = [b"1", b"2", b"3", b"4"]
    engine.change(b"r", *(Put(b"f", qualifier, LARGE[:26_000]) for qualifier in qualifiers))
    checks = tuple(Check(b"f", qualifier, CompareOp.LESS, b"w") for qualifier in qualifiers)
    with pytest.raises(LimitExceededError):
        engine.change(b"r", Put(b"f", b"p", b""), condition=Condition(checks))
    assert [cell[2] for cell in engine.scan()] == qualifiers
    assert engine.change(b"r", Put(b"f", b"p", b""), condition=Condition(checks[:3])).condition_met


def test_the_rows_of_a_request_that_do_not_fit_in_its_answer_are_refused(engine: Engine) -> None:
    rows = [b"%d" % i for i in range(40)]
    for row in rows:
        engine.change(row, Put(b"f", b"q", LARGE[:4000]))
    outcomes = engine.mutate(*map(append, rows), RowMutation(b"p", (Put(b"f", b"q", b""),)))
    made = [row for row, outcome in zip(rows, outcomes, strict=False) if isinstance(outcome, RowResult)]
    refused = outcomes[len(made) : len(rows)]
    assert 15 < len(made) < len(rows), made
    assert all(isinstance(outcome, LimitExceededError) for outcome in refused), refused
    assert isinstance(outcomes[-1], RowResult), "a put answers nothing"
    assert [row for row in rows if len(engine.values(row)[b"f:q"]) > 4000] == made == rows[: len(made)]
    assert len(mutate_answer(1, outcomes)) <= ANSWER_BYTES_MAX


def test_many_small_answers_fit_in_one_message(engine: Engine) -> None:
    outcomes = engine.mutate(*[RowMutation(b"%d" % i, (Increment(b"f", b"q", 1),)) for i in range(2000)])
    assert all(isinstance(outcome, RowResult) for outcome in outcomes)
    assert len(mutate_answer(1, outcomes)) <= ANSWER_BYTES_MAX


def test_repeated_requests_answer_no_more_than_others(engine: Engine) -> None:
    engine.change(b"r", Put(b"f", b"q", LARGE))
    for sequence in (1, 2):
        engine.mutate(append(b"r", sequence))
    first, second, third, fourth = engine.mutate(*[append(b"r", 1), append(b"r", 2)] * 2)
    for outcome in (first, second, third):
        assert isinstance(outcome, RowResult)
        assert outcome.repeated_request
    assert isinstance(fourth, UnknownOutcomeError), fourth
    assert "was made" in fourth.message
    assert len(engine.values(b"r")[b"f:q"]) == len(LARGE) + 2


@pytest.mark.parametrize("flush", [False, True])
def test_a_repeated_request_whose_cells_were_dropped_reports_that_it_was_applied(
    tmp_path: Path, config: Config, flush: bool
) -> None:
    lone = LoneRegion(tmp_path, config, answer_cell_bytes_max=50_000)
    lone.change(b"r", Put(b"f", b"q", LARGE))
    made = [lone.change(b"r", *append(b"r").changes, request=RequestId(CLIENT, i, 1)) for i in (1, 2)]
    if flush:
        lone.flush()
        lone.crash()
    first, second = lone.mutate(append(b"r", 1), append(b"r", 2))
    assert isinstance(first, UnknownOutcomeError)
    assert f"its change was made with the stamp {made[0].timestamp}" in first.message
    assert second == made[1]._replace(repeated_request=True)
    assert len(lone.values(b"r")[b"f:q"]) == len(LARGE) + 2
    lone.stop()


def test_a_record_that_would_be_larger_than_a_request_may_be_is_refused(engine: Engine) -> None:
    engine.change(b"r", Put(b"f", b"p", LARGE), Put(b"f", b"q", LARGE))
    both = (Append(b"f", b"p", b"+"), Append(b"f", b"q", b"+"))
    with pytest.raises(LimitExceededError, match=r"log record of the mutation of row 'r'"):
        engine.change(b"r", *both, request=RequestId(CLIENT, 1, 1))  # Each value would be in it twice.
    assert engine.values(b"r") == {b"f:p": LARGE, b"f:q": LARGE}
    assert len(engine.change(b"r", *both).results) == 2


@pytest.mark.parametrize("part", ["memory", "log"])
def test_memory_and_log_are_checked_again_for_the_size_of_an_append(tmp_path: Path, config: Config, part: str) -> None:
    lone = LoneRegion(tmp_path, replace(config, memstore_bytes_max=150_000) if part == "memory" else config)
    lone.change(b"r", Put(b"f", b"q", b"v" * 80_000))
    if part == "log":
        lone.log.room = 50_000
    with pytest.raises(RegionTooBusyError):
        lone.change(b"r", Append(b"f", b"q", b"+"))
    assert len(lone.values(b"r")[b"f:q"]) == 80_000
    lone.stop()
