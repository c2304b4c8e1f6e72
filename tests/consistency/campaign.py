"""The consistency campaigns: `python -m tests.consistency.campaign [NAME ...] [--short] [--seed N]`.

Without names it runs all of them, in their long form. Prints the results of each, and exits 1 if a promise was broken.
It prints the seed; the same seed makes the same choices, but threads and processes are scheduled differently.
"""

from __future__ import annotations

from collections.abc import Callable

from tests.consistency import (
    consistent_cut,
    durability_levels,
    exactly_once,
    linearizability,
    locks,
    moving_regions,
    overload,
    row_atomicity,
)
from tests.crash import command_line
from tests.crash.account import Account, Settings

CAMPAIGNS: dict[str, Callable[[Settings], Account]] = {
    "row_atomicity": row_atomicity.run,
    "linearizability": linearizability.run,
    "moving_regions": moving_regions.run,
    "consistent_cut": consistent_cut.run,
    "locks": locks.run,
    "exactly_once": exactly_once.run,
    "durability_levels": durability_levels.run,
    "overload": overload.run,
}

if __name__ == "__main__":
    command_line.main(CAMPAIGNS, "tests.consistency.campaign", __doc__)
