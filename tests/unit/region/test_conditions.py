"""Unmet conditions: what they evaluate, and the answer to a repeated request."""

from __future__ import annotations

import pytest
from rowlock_regionserver.errors import FilterTypeError
from rowlock_regionserver.operations import (
    Check,
    ColumnComparison,
    CompareOp,
    Condition,
    Existence,
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
