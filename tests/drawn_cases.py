"""How many cases a long test tries: `make test` some that its seed draws, `make crash` and `make spark-crash` all.

Broken builds (tests/mutants) try all, too: their first failure ends the run.

ROWLOCK_ALL_CASES=1 pytest tests/property    tries all
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TypeVar

from tests.seeds import generator_of

_Case = TypeVar("_Case")

TRIES_ALL = bool(os.environ.get("ROWLOCK_ALL_CASES"))


def case_count(of_all: int, drawn: int) -> int:
    """Returns how many random cases a test tries; they are new ones in each run."""
    return of_all if TRIES_ALL else drawn


def drawn(cases: Sequence[_Case], count: int, about: object) -> Sequence[_Case]:
    """Returns the cases that a test tries: all, or so many."""
    return cases if TRIES_ALL else generator_of(about).sample(cases, count)


def drawn_calls(stop: int, one_of: int, about: object) -> range:
    """Returns the numbers of the calls that a test breaks: all from 1 to `stop`, or one of `one_of`."""
    return range(1, stop) if TRIES_ALL else range(1 + generator_of(about).randrange(one_of), stop, one_of)
