"""A crash at each file-system call of a life of named snapshots, then two restarts; see every_call.py.

Snapshots are created, restored and dropped between row changes, flushes, a split, a compaction or a truncate, and a
restart. After the restarts each snapshot is there with all that it had, or not at all, a restored table too, and no
folder is left that the catalog does not name.
"""

from __future__ import annotations

from tests.crash.account import Account, Settings
from tests.crash.every_call import crash_at_each_call
from tests.crash.life import snapshotting_life

PROMISE = "a crash at each file-system call of named snapshots, then two restarts: each is there whole, or not at all"


def run(settings: Settings) -> Account:
    """Runs the campaign: every call and moment, or a sample."""
    return crash_at_each_call(settings, Account("snapshots", PROMISE), snapshotting_life, 6)
