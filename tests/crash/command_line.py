"""The command line of a set of campaigns, which run one after the other, each with its account.

A campaign that raises counts as failed, and the next ones still run, so that one failure does not hide the results of
hours.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from typing import NoReturn

from bench.processes import exit_on_sigterm
from tests.crash.account import Account, Settings


def main(campaigns: Mapping[str, Callable[[Settings], Account]], package: str, about: str) -> NoReturn:
    """Runs the requested campaigns and exits. Its servers are stopped too, also on SIGTERM."""
    exit_on_sigterm()
    sys.exit(run(campaigns, package, about, sys.argv[1:]))


def run(campaigns: Mapping[str, Callable[[Settings], Account]], package: str, about: str, words: Sequence[str]) -> int:
    """Runs the requested campaigns; returns the exit code, 1 when one broke its promise or raised."""
    parser = argparse.ArgumentParser(prog=f"python -m {package}", description=about)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(campaigns)}; all when none is given")
    parser.add_argument("--short", action="store_true", help="a sample, as the tests do it")
    parser.add_argument("--seed", type=int, default=random.randrange(1_000_000))
    asked = parser.parse_args(words)
    unknown = set(asked.names) - set(campaigns)
    if unknown:
        parser.error(f"there is no campaign {min(unknown)!r}; there are {', '.join(campaigns)}")
    settings = Settings(asked.seed, asked.short)
    print(f"seed {asked.seed}", flush=True)
    names = asked.names or list(campaigns)
    failed = [name for name in names if not _held(name, campaigns[name], settings)]
    print(
        f"{len(names) - len(failed)} of {len(names)} campaigns held; failed: {', '.join(failed) or 'none'}", flush=True
    )
    return 1 if failed else 0


def _held(name: str, campaign: Callable[[Settings], Account], settings: Settings) -> bool:
    started = time.monotonic()
    try:
        account = campaign(settings)
    except Exception:
        traceback.print_exc(file=sys.stdout)
        print(f"{name}: DIED, {time.monotonic() - started:.0f} s", flush=True)
        return False
    print(account.text(time.monotonic() - started), flush=True)
    return not account.problems
