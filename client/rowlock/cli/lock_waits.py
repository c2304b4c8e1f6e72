"""Says on standard error whom a command waits for, while it waits for the lock of a table."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rowlock.cli.session import Call
from rowlock.errors import RowlockError

if TYPE_CHECKING:
    from rowlock.session_info import LockInfo

# How long a command waits in silence, and between two looks at the locks.
LOOK_S = 2.0
# How long the end of a command waits for a look that has begun.
_LAST_LOOK_S_MAX = 1.0


@contextmanager
def noting_lock_waits(call: Call, table: str) -> Iterator[None]:
    """Within the block, a note names the holders for whom this process waits, after LOOK_S, and when others hold it.

    The server is asked in a thread of its own, because the command's thread waits for it.
    """
    watch = _Watch(call, table)
    thread = threading.Thread(target=watch.run, name="rowlock lock waits", daemon=True)
    thread.start()
    try:
        yield
    finally:
        watch.end()
        thread.join(_LAST_LOOK_S_MAX)


class _Watch:
    def __init__(self, call: Call, table: str) -> None:
        self._call = call
        self._client = call.client
        self._table = table
        self._is_over = threading.Event()
        # A note is printed under it, so that none comes after the block.
        self._printing = threading.Lock()

    def run(self) -> None:
        # Here, because protobuf is slow to import, and the command has imported it by now.
        from rowlock._core.session_requests import default_owner

        shown = ""
        while not self._is_over.wait(LOOK_S):
            try:
                found = waits_of(self._client.locks(self._table), default_owner())
            except RowlockError:
                # The command itself reports what is wrong.
                continue
            with self._printing:
                if found and found != shown and not self._is_over.is_set():
                    self._call.output.note(
                        f"waiting for a lock of table {self._table}: {found}. 'rowlock locks {self._table}' shows it; "
                        f"--timeout says how long to wait, now {self._call.timeout:g} s"
                    )
                    shown = found

    def end(self) -> None:
        with self._printing:
            self._is_over.set()


def waits_of(locks: Sequence[LockInfo], owner: str) -> str:
    """Returns for whom the owner's requests wait, as text; empty if none waits."""
    names = {name for lock in locks if lock.owner == owner and not lock.is_held for name in lock.waits_for}
    return ", ".join(
        f"{lock.holder} ({lock.owner}, {lock.purpose}) {'holds it' if lock.is_held else 'waits for it too'}"
        for lock in locks
        if lock.holder in names
    )
