"""The waits of tests are as long as their environment says."""

from __future__ import annotations

import os

import pytest

from tests.waiting import WAIT_S, wait_until


def test_a_wait_takes_as_long_as_the_environment_says() -> None:
    """Broken builds set the variable, and run this test too."""
    assert float(os.environ.get("ROWLOCK_TEST_WAIT_S", "120")) == WAIT_S


def test_a_wait_for_what_never_happens_fails() -> None:
    with pytest.raises(AssertionError, match="it did not come to that"):
        wait_until(lambda: False, seconds=0.01)
