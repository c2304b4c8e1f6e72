"""A quarter of the consistency campaigns in short; `python -m tests.consistency.campaign` runs all of them in full."""

from __future__ import annotations

import time

import pytest

from tests.consistency.campaign import CAMPAIGNS
from tests.crash.account import Settings
from tests.drawn_cases import drawn
from tests.seeds import drawn_seed


@pytest.mark.parametrize("name", drawn(list(CAMPAIGNS), len(CAMPAIGNS) // 4, "consistency campaigns"))
def test_the_promise_holds_in_short(name: str) -> None:
    seed = drawn_seed()
    started = time.monotonic()
    account = CAMPAIGNS[name](Settings(seed, is_short=True))
    print(account.text(time.monotonic() - started))
    print(f"again: python -m tests.consistency.campaign {name} --short --seed {seed}")
    assert not account.problems
