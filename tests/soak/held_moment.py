"""One moment of the whole table, held for minutes: one scan is open all the time, and short ones come and go.

At the moment the table is read through a snapshot and compared with the model. Whatever is read later must be the same,
byte for byte: rows, columns, timestamps and values.
"""

from __future__ import annotations

import bisect
import random
import time
from collections.abc import Callable, Mapping

import rowlock

from tests.soak.held_reads import HeldScan, HeldSnapshot
from tests.soak.model import Read, Row

_WHOLE = (b"", b"\xff")
_SHORT_ROWS = 30


class HeldMoment:
    """Used by one thread. No other thread may write while it is made."""

    def __init__(
        self,
        client: rowlock.Client,
        table: rowlock.Table[bytes],
        moment: Mapping[bytes, Row],
        read: Callable[[], Read],
        seconds: float,
        generator: random.Random,
    ) -> None:
        self._table = table
        self._random = generator
        self._began = time.monotonic()
        self._seconds = seconds
        until = self._began + seconds
        self._snapshot = HeldSnapshot(client, table, _WHOLE, False, until, moment, read)
        self._scan = HeldScan(client, table, _WHOLE, False, until, moment, read, self._snapshot.snapshot)
        self._cells = list(self._snapshot.cells(reverse=False))
        self._rows = sorted({cell.row for cell in self._cells})
        self._given = 1
        self.short_scans = 0

    @property
    def is_over(self) -> bool:
        return time.monotonic() >= self._began + self._seconds

    def turn(self) -> list[str]:
        """Reads as much of the open scan as its time allows, and makes a short scan. Returns problems."""
        share = min(0.95, (time.monotonic() - self._began) / self._seconds)
        wanted = int(len(self._cells) * share)
        self._scan.advance(max(0, wanted - self._given))
        self._given = max(wanted, self._given)
        first = self._random.randrange(len(self._rows))
        rows = self._rows[first : first + _SHORT_ROWS]
        reverse = self._random.random() < 0.5
        found = self._snapshot.cells_of((rows[0], rows[-1] + b"\x00"), reverse=reverse)
        self.short_scans += 1
        low = bisect.bisect_left(self._cells, rows[0], key=lambda cell: cell.row)
        high = bisect.bisect_right(self._cells, rows[-1], key=lambda cell: cell.row)
        expected = self._cells[low:high]
        if sorted(found, key=lambda cell: cell.row) != expected:
            return [
                f"a short scan of a moment held for {time.monotonic() - self._began:.0f} s differs from {rows[0]!r}"
            ]
        return []

    def finish(self) -> list[str]:
        """Reads the open scan to its end. Returns problems."""
        # Before and after: when the model judges expiry, and when the snapshot was read first.
        problems = self._scan_problems()
        return [*problems, *self._snapshot.finish()]

    def _scan_problems(self) -> list[str]:
        problems = self._scan.finish()
        found = self._scan.read_all()
        by_moment = {(cell.row, cell.column, cell.timestamp): cell.value for cell in self._cells}
        surely_other = [
            cell
            for cell in found
            if not cell.column.startswith(b"e:")
            and by_moment.get((cell.row, cell.column, cell.timestamp)) != cell.value
        ]
        return [*problems, *(f"the open scan found {cell}, the snapshot did not" for cell in surely_other[:3])]
