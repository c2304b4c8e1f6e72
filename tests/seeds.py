"""The seed of all random tests: drawn in each run of the suite, and printed at its end and with each failed test.

ROWLOCK_SEED=17 pytest tests/property    repeats a run; Hypothesis draws its examples from the same seed
"""

from __future__ import annotations

import os
import random

RUN_SEED = int(os.environ.get("ROWLOCK_SEED") or random.SystemRandom().randrange(1 << 30))


def drawn_seed() -> int:
    """Returns the seed of this run, and prints how to repeat the run."""
    print(REPLAY)
    return RUN_SEED


def generator_of(case: object) -> random.Random:
    """Returns the random numbers of one case of a test that has several."""
    return random.Random(f"{RUN_SEED} {case}")


REPLAY = f"again: ROWLOCK_SEED={RUN_SEED}"
