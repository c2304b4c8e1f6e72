"""A crash at each file-system call of a life of flushes and compactions, then two restarts; see every_call.py.

Its calls are those of minor and major compactions, of the exchange of files in the manifest, and of the removal of the
replaced ones. After the restarts the old files are live or the new ones, and no file is left that no manifest names.
"""

from __future__ import annotations

from tests.crash.account import Account, Settings
from tests.crash.every_call import crash_at_each_call
from tests.crash.life import compacting_life

PROMISE = "a crash at each file-system call of compactions, then two restarts: nothing acknowledged is lost"


def run(settings: Settings) -> Account:
    """Runs the campaign: every call and moment, or a sample."""
    return crash_at_each_call(settings, Account("compactions", PROMISE), compacting_life, 6)
