"""The crash and damage campaigns: `python -m tests.crash.campaign [NAME ...] [--short] [--seed N]`.

Without names it runs all of them, in their long form. Prints the results of each, and exits 1 if a promise was broken.
It prints the seed; the same seed repeats the lives, but threads are scheduled differently.
"""

from __future__ import annotations

from collections.abc import Callable

from tests.crash import (
    bit_flips,
    bulk_commits,
    command_line,
    compactions,
    disk_full,
    every_call,
    every_system_call,
    failed_sync,
    kills,
    power_cuts,
    regions,
    short_writes,
    snapshots,
    torn_tail,
)
from tests.crash.account import Account, Settings

CAMPAIGNS: dict[str, Callable[[Settings], Account]] = {
    "kills": kills.run,
    "every_call": every_call.run,
    "compactions": compactions.run,
    "regions": regions.run,
    "snapshots": snapshots.run,
    "bulk_commits": bulk_commits.run,
    "every_system_call": every_system_call.run,
    "short_writes": short_writes.run,
    "torn_tail": torn_tail.run,
    "power_cuts": power_cuts.run,
    "bit_flips": bit_flips.run,
    "failed_sync": failed_sync.run,
    "disk_full": disk_full.run,
}

if __name__ == "__main__":
    command_line.main(CAMPAIGNS, "tests.crash.campaign", __doc__)
