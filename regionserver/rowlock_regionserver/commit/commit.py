"""The commit of a write: its number, its log record and its cells, in one order for all writes.

    commit           under the log's order lock: BEGIN, APPEND, APPLY
    commit_applied   APPLY; then under the log's order lock: BEGIN, APPEND

1. BEGIN takes the next write number, APPEND puts the record into the log's buffer, APPLY puts the cells into the
   memstores.
2. The order lock makes log order the order of write numbers.
3. `commit` applies under the order lock too. The log thread takes the buffer under that lock, so each record in it
   has its cells applied, and a synced number may be published at once.
4. `commit_applied` is for changes of many cells: the order lock is held for the record alone, and writers of other
   regions do not wait for the cells. The caller must hold the region's gate exclusively. No other write of the region
   begins, so the next number is known before BEGIN, and no reader sees cells of a number that is not published.
5. While a region is split, each change is noted after APPEND, also one that is not logged (note_changes).
6. If APPEND fails, no cell of the write remains in memory, and its number completes empty. If APPEND succeeds, only the
   log completes the number: when the record is as durable as requested.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from typing import Protocol

from rowlock_regionserver.cells import Durability
from rowlock_regionserver.commit.mvcc import Mvcc

TakeBack = Callable[[], None]
Note = Callable[[int, int, bytes], None]

# Python 3.11 finds a global ten times as fast as a member in its enum.
_SKIP = Durability.SKIP


class Numbers(Protocol):
    """Allocates write numbers (numbering.py)."""

    def begin(self) -> int: ...


class RecordLog(Protocol):
    """Takes records (wal/log.py)."""

    @property
    def order(self) -> AbstractContextManager[object]: ...

    def append(
        self,
        region_id: int,
        write_number: int,
        kind: int,
        payload: bytes,
        durability: Durability,
        complete: Callable[[], None],
    ) -> None: ...

    def pass_through(self, complete: Callable[[], None]) -> None: ...


class Commit:
    """Commits the writes of one region. Thread-safe."""

    def __init__(self, region_id: int, mvcc: Mvcc, numbers: Numbers, log: RecordLog) -> None:
        self._region_id = region_id
        self._mvcc = mvcc
        self._numbers = numbers
        self._log = log
        self._noting = threading.Condition()
        self._note: Note | None = None  # written with both locks

    @property
    def are_changes_noted(self) -> bool:
        """Whether changes are noted. Does not change while the caller holds the gate."""
        return self._note is not None

    def wait_while_noted(self, seconds: float) -> bool:
        """Blocks until changes are not noted any more; returns False if they still are then. The caller has no lock."""
        with self._noting:
            return self._noting.wait_for(lambda: self._note is None, max(0.0, seconds))

    def note_changes(self, note: Note | None) -> None:
        """Passes number, kind and payload of each further change to `note`, under the log's order lock.

        None: no longer. To begin, the caller holds the gate exclusively. `note` must not raise.
        """
        with self._noting, self._log.order:
            self._note = note
            self._noting.notify_all()

    def commit(self, kind: int, payload: bytes, durability: Durability, apply: Callable[[int], None]) -> int:
        """BEGIN, APPEND and APPLY. Calls `apply` with the write number, and returns the number.

        With durability SKIP nothing is logged. Raises RegionServerError; then nothing was changed.
        """
        with self._log.order:
            write_number = self._numbers.begin()
            try:
                self._append(write_number, kind, payload, durability)
            except BaseException:
                self._mvcc.complete(write_number)
                raise
            apply(write_number)
        return write_number

    def commit_applied(
        self, kind: int, payload: bytes, durability: Durability, apply: Callable[[int], TakeBack]
    ) -> int:
        """APPLY, then BEGIN and APPEND. Returns the write number.

        The caller holds the gate exclusively. `apply` returns a function that removes the cells again.
        """
        next_number = self._mvcc.last + 1
        take_back = apply(next_number)
        with self._log.order:
            try:
                write_number = self._numbers.begin()
            except BaseException:
                take_back()
                raise
            try:
                assert write_number == next_number, "another write began while the gate was held exclusively"
                self._append(write_number, kind, payload, durability)
            except BaseException:
                take_back()
                self._mvcc.complete(write_number)
                raise
        return write_number

    def _append(self, write_number: int, kind: int, payload: bytes, durability: Durability) -> None:
        complete = partial(self._mvcc.complete, write_number)
        if durability is _SKIP:
            self._log.pass_through(complete)
        else:
            self._log.append(self._region_id, write_number, kind, payload, durability, complete)
        if self._note is not None:
            self._note(write_number, kind, payload)
