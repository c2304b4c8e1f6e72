"""The soak: `python -m tests.soak [--minutes N] [--warm-up MINUTES] [--held-moment MINUTES] [--seed N]`.

Real clients write, flush, compact, split and merge a table of a real server beside a model, make bulk writes, and let
sessions expire. Prints how gets, disk, memory, open files, threads and folders develop, and exits 1 if an answer
differs from the model or a figure misses its goal.
"""

from __future__ import annotations

import argparse
import random
import sys

from bench.processes import exit_on_sigterm
from tests.soak.soak import Settings, run

_WARM_UP_MINUTES = 3.0
_HELD_MOMENT_MINUTES = 5.0


def main(words: list[str]) -> int:
    """Runs one soak; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=20.0)
    parser.add_argument(
        "--warm-up", type=float, default=_WARM_UP_MINUTES, metavar="MINUTES", help="before the clock starts; 3"
    )
    parser.add_argument(
        "--held-moment",
        type=float,
        metavar="MINUTES",
        help="how long one scan of the whole table stays open; 5, or a quarter of a short run",
    )
    parser.add_argument("--seed", type=int, default=random.randrange(1_000_000))
    given = parser.parse_args(words)
    held = given.held_moment
    if held is None:
        held = min(_HELD_MOMENT_MINUTES, given.minutes / 4)
    print(f"seed {given.seed}", flush=True)
    seconds, warm_up_s, held_s = (minutes * 60 for minutes in (given.minutes, given.warm_up, min(held, given.minutes)))
    report = run(Settings(given.seed, seconds, warm_up_s=warm_up_s, held_moment_s=held_s))
    print(report.text(), flush=True)
    return 0 if report.has_held else 1


if __name__ == "__main__":
    exit_on_sigterm()
    sys.exit(main(sys.argv[1:]))
