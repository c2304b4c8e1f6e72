"""The crash and damage campaigns: `python -m tests.crash.campaign [NAME ...] [--short] [--seed N]`.

Without names all of them, in their long form. Prints an account of each and exits 1 if any promise was broken. The seed
is printed; giving it again repeats the lives, though not the order in which threads take turns.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections.abc import Callable

from tests.crash import bit_flips, disk_full, every_call, every_system_call, failed_sync, kills, torn_tail
from tests.crash.account import Account, Settings

CAMPAIGNS: dict[str, Callable[[Settings], Account]] = {
    "kills": kills.run,
    "every_call": every_call.run,
    "every_system_call": every_system_call.run,
    "torn_tail": torn_tail.run,
    "bit_flips": bit_flips.run,
    "failed_sync": failed_sync.run,
    "disk_full": disk_full.run,
}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.crash.campaign", description=__doc__)
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
