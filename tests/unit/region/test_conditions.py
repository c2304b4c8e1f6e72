"""Unmet conditions: what they evaluate, and the answer to a repeated request."""

from __future__ import annotations

import pytest
from rowlock_regionserver.errors import FilterTypeError
from rowlock_regionserver.operations import (
    AllOf,
    Check,
    ColumnComparison,
    ColumnPresence,
    CompareOp,
    Condition,
    Existence,
    NotOf,
    Put,
    RequestId,
    ValueType,
)

from .conftest import Engine

CLIENT = b"c" * 16
ABOVE_5 = ColumnComparison(b"f", b"n", CompareOp.GREATER, b"5", ValueType.TEXT_INT)


@pytest.mark.parametrize("flush", [False, True])
def test_an_unmet_condition_stays_unmet_for_copies_of_the_request(engine: Engine, flush: bool) -> None:
    """Otherwise a copy of the request, waiting on a broken stream, would be applied after its client got "no"."""
    request = RequestId(CLIENT, 1, 1)
    exists = Condition(existence=Existence.PRESENT)
    assert not engine.change(b"r", Put(b"f", b"q", b"mine"), condition=exists, request=request).condition_met
    engine.change(b"r", Put(b"f", b"q", b"theirs"))
    if flush:
        engine.server.flush("t")
    again = engine.change(b"r", Put(b"f", b"q", b"mine"), condition=exists, request=request)
    assert again.repeated_request
    assert not again.condition_met
    assert engine.values(b"r") == {b"f:q": b"theirs"}


def test_a_check_that_fails_guards_the_filter_against_a_value_of_another_type(engine: Engine) -> None:
    engine.change(b"r", Put(b"f", b"kind", b"text"), Put(b"f", b"n", b"many"))
    guarded = Condition((Check(b"f", b"kind", CompareOp.EQUAL, b"number"),), filter=ABOVE_5)
    assert not engine.change(b"r", Put(b"f", b"q", b"v"), condition=guarded).condition_met
    engine.change(b"r", Put(b"f", b"kind", b"number"))
    with pytest.raises(FilterTypeError):
        engine.change(b"r", Put(b"f", b"q", b"v"), condition=guarded)
    engine.change(b"r", Put(b"f", b"n", b"6"))
    assert engine.change(b"r", Put(b"f", b"q", b"v"), condition=guarded).condition_met


@pytest.mark.parametrize("is_asked", [False, True])
def test_the_cells_that_a_filter_reads_are_in_the_answer_if_the_condition_asks_for_them(
    engine: Engine, is_asked: bool
) -> None:
    """Each once, also if checks have failed and the filter was not evaluated; absent ones are left out."""
    engine.change(b"r", Put(b"f", b"kind", b"text"), Put(b"f", b"n", b"6"))
    absent = ColumnComparison(b"f", b"no", CompareOp.EQUAL, b"")
    for expected, is_met in ((b"text", True), (b"number", False)):
        condition = Condition(
            (Check(b"f", b"kind", CompareOp.EQUAL, expected),),
            filter=AllOf((ABOVE_5, NotOf(absent), ColumnPresence(b"f", b"kind", True))),
            returns_filtered=is_asked,
        )
        answer = engine.change(b"r", Put(b"f", b"q", b"v"), condition=condition)
        assert answer.condition_met == is_met
        seen = {(family, qualifier): value for family, qualifier, _, value in answer.seen}
        assert len(seen) == len(answer.seen)
        assert seen == {(b"f", b"kind"): b"text", **({(b"f", b"n"): b"6"} if is_asked else {})}
