"""Numbers of sessions and locks: each greater than all before it, also over restarts."""

from __future__ import annotations

import pytest
from rowlock_regionserver.sessions.numbers import BLOCK_COUNT, SessionNumbers


def test_numbers_ascend_and_are_reserved_ahead_of_their_use() -> None:
    reserved: list[int] = []
    numbers = SessionNumbers(1, reserved.append)
    assert [numbers.next_prepared() for _ in range(3)] == [1, 2, 3]
    assert reserved == [1 + BLOCK_COUNT]
    assert SessionNumbers(reserved[-1], reserved.append).next_prepared() == 1 + BLOCK_COUNT
    assert reserved[-1] == 1 + 2 * BLOCK_COUNT


def test_a_number_that_could_not_be_reserved_is_not_given() -> None:
    def fail(_: int) -> None:
        raise OSError("disk full")

    numbers = SessionNumbers(1, fail)
    with pytest.raises(OSError, match="disk full"):
        numbers.next_prepared()
    with pytest.raises(AssertionError, match="prepare"):
        numbers.next()
