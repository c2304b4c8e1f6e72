"""Write numbers and stamps that are never allocated twice, not even after a restart.

Both are reserved in the log in blocks, ahead of their use. A reader may see a write that is then lost with the machine
(durability below fsync), and its number or stamp must not be used for another write. A start reserves nothing: the
first write after it does.
"""

from __future__ import annotations

from collections.abc import Iterable

from rowlock_regionserver.clock import Clock
from rowlock_regionserver.commit.mvcc import Mvcc
from rowlock_regionserver.commit.stamps import Stamps
from rowlock_regionserver.config import Config
from rowlock_regionserver.errors import DeadlineError
from rowlock_regionserver.found_cells import FoundCell
from rowlock_regionserver.wal.log import Log

# How many rows' last timestamps are held in memory while rows must be read before a change.
_GIVEN_MAX = 1000
# More than a reservation takes in the log.
_RESERVATION_BYTES = 128


class Numbering:
    """One region's write numbers and stamps, with their reservations. Thread-safe."""

    def __init__(self, region_id: int, mvcc: Mvcc, stamps: Stamps, log: Log, config: Config, clock: Clock) -> None:
        self._region_id = region_id
        self._mvcc = mvcc
        self._stamps = stamps
        self._log = log
        self._clock = clock
        self._timestamp_ahead_ms_max = config.timestamp_ahead_ms_max
        self._numbers_per_block = config.write_numbers_per_leap
        # By row: the stamp of its last change in `stamp_later_than`, and the timestamp of that change. Some rows only;
        # an entry is written with the row's lock held.
        self._given: dict[bytes, tuple[int, int]] = {}
        # Guarded by the log's order lock:
        self._numbers_until = mvcc.last
        self._stamps_until = stamps.newest + 1
        with log.order:
            # Reserves nothing new. The log knows a region from its first reservation on.
            log.reserve(region_id, self._numbers_until, self._stamps_until)

    # Stamps.

    @property
    def newest_stamp(self) -> int:
        """The greatest stamp that a cell has or that lies in a timestamp range of a client."""
        return self._stamps.newest

    @property
    def timestamp_max(self) -> int:
        """The latest timestamp that a client may set. A later one would hide puts that come after it."""
        return max(self._clock.now_ms() + self._timestamp_ahead_ms_max, self._stamps.newest)

    def reads_rows(self, stamp: int) -> bool:
        """Whether a call with this stamp must read a row before it changes the row: cells may have later stamps."""
        return stamp <= self._stamps.cells_until

    def next_stamp(self) -> int | None:
        """4 STAMP. The caller holds the rows' locks. None: release them, and call again after `wait_for_stamp`."""
        return self._stamps.next()

    def wait_for_stamp(self, deadline: float) -> None:
        """Blocks for up to a millisecond. The caller holds no lock. Raises DeadlineError."""
        if self._clock.monotonic() >= deadline:
            raise DeadlineError("the deadline passed while the change waited for its timestamp; nothing was changed")
        self._clock.wait_for_next_ms()

    def stamp(self, deadline: float) -> int:
        """Returns the next stamp; blocks until there is one. The caller holds no lock. Raises DeadlineError."""
        while (stamp := self.next_stamp()) is None:
            self.wait_for_stamp(deadline)
        return stamp

    def stamp_later_than(self, row: bytes, cells: Iterable[FoundCell], stamp: int) -> int:
        """Returns a timestamp for a change of the row that is later than the stamps of `cells`, the row's cells.

        Changes with the same stamp share a timestamp, and others do not. The caller holds the row's lock.
        """
        until = self._stamps.newest
        timestamp = max((-cell[1] for cell in cells if -cell[1] <= until), default=0)
        if timestamp < stamp:
            later = stamp
        else:
            later = timestamp if self._given.get(row) == (stamp, timestamp) else timestamp + 1
            self._stamps.extend_cells(later)
        if len(self._given) >= _GIVEN_MAX:
            self._given.clear()  # At worst, changes that could share a timestamp get different ones.
        self._given[row] = stamp, later
        return later

    def pass_over(self, timestamp: int, *, is_reserved: bool) -> None:
        """Makes all further stamps later than this timestamp; if it is reserved, also after a restart.

        The caller does not hold the log's order lock. Raises StoppingError.
        """
        self._stamps.pass_over(timestamp)
        if is_reserved:
            self._reserve_beyond(timestamp)

    def pass_over_cells(self) -> None:
        """Makes all further stamps later than those of existing cells, so that rows need not be read.

        That stays true while the caller holds the gate exclusively. It does not hold the log's order lock. Raises
        StoppingError.
        """
        newest = self._stamps.pass_over_cells()
        if newest is not None:
            self._reserve_beyond(newest)

    def _reserve_beyond(self, timestamp: int) -> None:
        with self._log.order:
            if timestamp >= self._stamps_until:
                self._reserve()

    def release_unused(self) -> None:
        """Ends the reservation of stamps that were not used. Raises RegionServerError."""
        with self._log.order:
            if self._stamps.newest + 1 < self._stamps_until:
                self._log.check_space(_RESERVATION_BYTES)
                stamps_until = self._stamps.newest + 1
                self._log.reserve(self._region_id, self._numbers_until, stamps_until)
                self._stamps_until = stamps_until

    # Write numbers.

    def begin(self) -> int:
        """5 BEGIN: allocates the next write number. The caller holds the log's order lock, and appends at once."""
        if self._mvcc.last >= self._numbers_until or self._stamps.newest >= self._stamps_until:
            self._reserve()
        return self._mvcc.begin()

    def _reserve(self) -> None:
        """Reserves the next block in the log. The caller holds the log's order lock."""
        numbers_until = self._numbers_until
        if self._mvcc.last >= numbers_until:
            numbers_until = self._mvcc.last + self._numbers_per_block
        stamps_until = self._stamps.bound()
        self._log.reserve(self._region_id, numbers_until, stamps_until)
        # Last: without memory for the record, nothing is reserved.
        self._numbers_until, self._stamps_until = numbers_until, stamps_until
