"""Write numbers and stamps that a restart never hands out again.

Both are reserved in leaps in the log, ahead of their use: a write may be seen by a reader and then be lost with the
machine (durability below fsync), and its number or stamp must not come back with another meaning.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from rowlock_regionserver.cells import Durability
from rowlock_regionserver.config import Config
from rowlock_regionserver.region.mvcc import Mvcc
from rowlock_regionserver.region.stamps import Stamps
from rowlock_regionserver.wal.log import Log


class Numbering:
    """One region's write numbers and stamps, with their reservations."""

    def __init__(self, region_id: int, mvcc: Mvcc, stamps: Stamps, log: Log, config: Config) -> None:
        self._region_id = region_id
        self._mvcc = mvcc
        self._stamps = stamps
        self._log = log
        self._numbers_per_leap = config.write_numbers_per_leap
        self._stamp_leap_ms = config.stamp_leap_ms
        # Guarded by the log's order lock:
        self._numbers_until = 0
        self._stamps_until = 0

    def next_stamp(self) -> int:
        """4 STAMP. Who writes with it holds the row's lock."""
        return self._stamps.next()

    def begin(self) -> int:
        """5 BEGIN: the next write number. The caller holds the log's order lock and appends with it at once."""
        if self._mvcc.last >= self._numbers_until or self._stamps.last >= self._stamps_until:
            self.reserve()
        return self._mvcc.begin()

    def append_applied(self, kind: int, payload: bytes, durability: Durability, take_back: Callable[[], None]) -> int:
        """5 BEGIN + APPEND of a write whose cells are applied already, under the number that is next. Gives the number.

        The caller holds the gate alone, so nobody else of the region begins a write; the writers of all regions wait
        for the record and not for its cells. When the log refuses it, these are taken back and the number is empty.
        With durability SKIP nothing is logged.
        """
        with self._log.order:
            write_number = self.begin()
            complete = partial(self._mvcc.complete, write_number)
            try:
                if durability is Durability.SKIP:
                    self._log.pass_through(complete)
                else:
                    self._log.append(self._region_id, write_number, kind, payload, durability, complete)
            except BaseException:
                take_back()
                complete()
                raise
        return write_number

    def reserve(self) -> None:
        """Logs the next leap. The caller holds the log's order lock."""
        self._numbers_until = self._mvcc.last + self._numbers_per_leap
        self._stamps_until = self._stamps.last + self._stamp_leap_ms
        self._log.reserve(self._region_id, self._numbers_until, self._stamps_until)
