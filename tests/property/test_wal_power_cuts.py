"""Power cuts of a log with an unsynced tail, from the campaign of `make crash`: none is reported as damage."""

from __future__ import annotations

import random

import pytest

from tests.crash.power_cuts import Cut, cut
from tests.seeds import drawn_seed

COUNT = 60


@pytest.mark.parametrize("part", range(2))
def test_no_power_cut_is_reported_as_damage_and_nothing_synced_is_lost(part: int) -> None:
    seed = drawn_seed()
    chance = random.Random(f"{seed} {part}")
    for _ in range(COUNT):
        one = Cut(chance.randrange(1 << 30))
        assert cut(one).problems == [], f"seed {seed}: {one}"
