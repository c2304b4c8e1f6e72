"""The consistency campaigns: `python -m tests.consistency.campaign [NAME ...] [--short] [--seed N]`.

Without names all of them, in their long form. Prints an account of each and exits 1 if any promise was broken. The seed
is printed; giving it again makes the same choices, though threads and processes take turns as they like.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections.abc import Callable

from tests.consistency import durability_levels, exactly_once, linearizability, overload, row_atomicity
from tests.crash.account import Account, Settings

CAMPAIGNS: dict[str, Callable[[Settings], Account]] = {
    "row_atomicity": row_atomicity.run,
    "linearizability": linearizability.run,
    "exactly_once": exactly_once.run,
    "durability_levels": durability_levels.run,
    "overload": overload.run,
}


def main() -> int:
    """Runs what the command line asks for; gives the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.consistency.campaign", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(CAMPAIGNS)}; all when none is given")
    parser.add_argument("--short", action="store_true", help="a sample, as the tests do it")
    parser.add_argument("--seed", type=int, default=random.randrange(1_000_000))
    asked = parser.parse_args()
    unknown = set(asked.names) - set(CAMPAIGNS)
    if unknown:
        parser.error(f"there is no campaign {min(unknown)!r}; there are {', '.join(CAMPAIGNS)}")
    settings = Settings(asked.seed, asked.short)
    print(f"seed {asked.seed}", flush=True)
    broken = 0
    for name in asked.names or CAMPAIGNS:
        started = time.monotonic()
        account = CAMPAIGNS[name](settings)
        print(account.text(time.monotonic() - started), flush=True)
        broken += bool(account.problems)
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
