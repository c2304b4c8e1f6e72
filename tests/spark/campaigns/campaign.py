"""The campaigns with Spark: `python -m tests.spark.campaigns.campaign [NAME ...] [--short] [--seed N]`.

Without names it runs all of them, in their long form: half an hour on a quiet machine. Prints an account of each and
exits with 1 if any promise was broken. Prints the seed; the same seed repeats the planned failures, but not the
interleaving of tasks.
"""

from __future__ import annotations

from collections.abc import Callable

from tests.crash import command_line
from tests.crash.account import Account, Settings
from tests.spark.campaigns import (
    broken_builds,
    changing_rows,
    connect,
    consistent_cut,
    dead_server,
    driver_kills,
    many_rows,
    overwrites,
    server_kills,
    speculation,
    task_failures,
)

CAMPAIGNS: dict[str, Callable[[Settings], Account]] = {
    "task_failures": task_failures.run,
    "speculation": speculation.run,
    "driver_kills": driver_kills.run,
    "server_kills": server_kills.run,
    "changing_rows": changing_rows.run,
    "consistent_cut": consistent_cut.run,
    "many_rows": many_rows.run,
    "overwrites": overwrites.run,
    "dead_server": dead_server.run,
    "connect": connect.run,
    "broken_builds": broken_builds.run,
}

if __name__ == "__main__":
    command_line.main(CAMPAIGNS, "tests.spark.campaigns.campaign", __doc__)
