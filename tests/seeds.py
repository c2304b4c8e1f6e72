"""The seed of a random test: the same in each run, so that a build fails for what was changed and for nothing else.

ROWLOCK_SEED=17 pytest tests/property      replays
ROWLOCK_SEED=random pytest tests/property  looks for what nobody has seen; so do the campaigns of `make crash`
"""

from __future__ import annotations

import os
import random

_USUAL = 20_240_501


def drawn_seed() -> int:
    """The seed for one test, printed with how to play it again."""
    asked = os.environ.get("ROWLOCK_SEED", "")
    seed = random.SystemRandom().randrange(1 << 30) if asked == "random" else int(asked or _USUAL)
    print(f"again: ROWLOCK_SEED={seed}")
    return seed
