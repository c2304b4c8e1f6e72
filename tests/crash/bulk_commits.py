"""A crash at each file-system call of bulk writes that are staged and committed over four regions; see every_call.py.

The commits are small, or large and made of store files which the regions adopt; they replace the table's rows or not.
Between them come row changes, a split, a flush, a compaction and restarts. After the restarts a commit is there in all
regions, or in none; what was only staged is nowhere; and no folder and no file is left that nothing names.
"""

from __future__ import annotations

from tests.crash.account import Account, Settings
from tests.crash.every_call import crash_at_each_call
from tests.crash.life import committing_life

PROMISE = "a crash at each file-system call of bulk commits over 4 regions, then two restarts: all of each, or nothing"


def run(settings: Settings) -> Account:
    """Runs the campaign: every call and moment, or a sample."""
    return crash_at_each_call(settings, Account("bulk_commits", PROMISE), committing_life, 6)
