"""A crash at each file-system call of a life of splits and merges, then two restarts; see every_call.py.

Between them come row changes, increments, conditions, bulk batches, flushes, compactions and a restart. After the
restarts the old regions are served or the new ones, and no folder is left that the catalog does not name, and no file
that no manifest names.
"""

from __future__ import annotations

from tests.crash.account import Account, Settings
from tests.crash.every_call import crash_at_each_call
from tests.crash.life import splitting_life

PROMISE = "a crash at each file-system call of splits and merges, then two restarts: nothing acknowledged is lost"


def run(settings: Settings) -> Account:
    """Runs the campaign: every call and moment, or a sample."""
    return crash_at_each_call(settings, Account("regions", PROMISE), splitting_life, 6)
