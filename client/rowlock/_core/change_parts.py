"""The parts of one write number that a change feed has returned, in case that they are sent again.

The server returns a number that is too large for one answer in parts: by family, then by row, and of a large row by
column. A part ends between two rows, or between two columns of a row. If its region is split or merged before the last
part, the regions that have its rows then begin the number again, and what was returned has to be left out.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from rowlock._codec.arrow_buffers import int64_array

# What identifies a cell here.
_COLUMNS = ("row", "family", "qualifier", "write_number")


class ReturnedParts:
    """The parts of the rows [start, stop) of a region; an empty stop means no bound. For one thread."""

    def __init__(self, start: bytes, stop: bytes) -> None:
        self._start = start
        self._stop = stop
        self._families: list[bytes] = []  # in the order of parts; all but the last are complete
        self._newest: pa.Table | None = None  # the part

    def add(self, part: pa.Table) -> None:
        """Adds the next part. All its changes have one write number, the same as in the parts before."""
        if part.num_rows:
            found = part.column("family").unique().to_pylist()
            self._families += [family for family in found if family is not None and family not in self._families]
            self._newest = part

    def ends_by(self, stop: bytes) -> bool:
        """Returns whether all rows come before `stop`; an empty one is the end of the table."""
        return not stop or bool(self._stop and self._stop <= stop)

    def without(self, changes: pa.Table) -> pa.Table:
        """Returns the changes without those that were returned. Reads them one by one: it is rarely called.

        In these rows the number has only changes of the region that is gone, because those after it take numbers
        beyond its last one.
        """
        if self._newest is None:
            return changes
        number = self._newest.column("write_number")[0].as_py()
        *complete, last = self._families
        end = max([(row, qualifier) for row, family, qualifier, _ in _cells(self._newest) if family == last])
        kept = [
            place
            for place, (row, family, qualifier, of) in enumerate(_cells(changes))
            if of != number
            or row < self._start
            or (self._stop and row >= self._stop)
            or not (family in complete or (family == last and (row, qualifier) <= end))
        ]
        return changes if len(kept) == len(changes) else changes.take(int64_array(np.array(kept, np.int64)))


def _cells(changes: pa.Table) -> list[tuple[bytes, bytes, bytes, int]]:
    """Returns (row, family, qualifier, write number) of each change."""
    return list(zip(*[changes.column(name).to_pylist() for name in _COLUMNS], strict=True))
