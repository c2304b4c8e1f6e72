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
5. If APPEND fails, no cell of the write remains in memory, and its number completes empty. If APPEND succeeds, only the
   log completes the number: when the record is as durable as requested.
"""

from __future__ import annotations

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
        self._note: Note | None = None  # guarded by the log's order lock for writing

    @property
    def are_changes_noted(self) -> bool:
        """Whether the payload of a change that is not logged is needed too. For a holder of the gate."""
        return self._note is not None

    def note_changes(self, note: Note | None) -> None:
        """Calls `note` with number, kind and payload of each change from now on, under the log's order lock; None: ends
        that. Nobody else holds the gate when it begins.
        """
        with self._log.order:
            self._note = note

    def commit(self, kind: int, payload: bytes, durability: Durability, apply: Callable[[int], None]) -> int:
        """BEGIN, APPEND and APPLY. Calls `apply` with the write number, and returns the number.

        With durability SKIP nothing is logged, and the payload counts only if changes are noted. Raises
        RegionServerError; then nothing was changed.
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
