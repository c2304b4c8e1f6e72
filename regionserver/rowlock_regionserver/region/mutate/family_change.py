"""The changes of one mutation in one family of its row, collapsed: puts and tombstones, column by column.

A mutation may have as many changes as fit into a request, all of one column or each of another. So a change looks only
at its own column. A delete of the family without a timestamp drops all earlier puts at once. One with a timestamp is
recorded, and a column drops its puts up to that timestamp when it is looked at next.
"""

from __future__ import annotations

from bisect import bisect_left
from heapq import heappop, heappush

from rowlock_regionserver.cells import DELETE_COLUMN, DELETE_FAMILY, DELETE_VERSION, PUT
from rowlock_regionserver.wal.mutation import UnnumberedCell

_NOTHING = -1  # Below every timestamp.


class _Puts:
    """The puts of one column."""

    __slots__ = ("_newest_first", "_oldest_first", "deletes_seen", "values")

    def __init__(self) -> None:
        self.values: dict[int, bytes] = {}  # by timestamp
        # Heaps of the keys of `values`, and of some removed ones: inserting an older put into a list would move it.
        self._newest_first: list[int] = []  # negated
        self._oldest_first: list[int] = []
        self.deletes_seen = 0  # the count of family deletes that came before these puts, or were applied to them

    def put(self, timestamp: int, value: bytes) -> None:
        if timestamp not in self.values:
            heappush(self._newest_first, -timestamp)
            heappush(self._oldest_first, timestamp)
        self.values[timestamp] = value

    def newest(self) -> int:
        """The newest timestamp; _NOTHING without any."""
        newest_first = self._newest_first
        while newest_first and -newest_first[0] not in self.values:
            heappop(newest_first)
        return -newest_first[0] if newest_first else _NOTHING

    def drop(self, timestamp: int) -> None:
        self.values.pop(timestamp, None)

    def drop_through(self, timestamp: int) -> None:
        oldest_first = self._oldest_first
        while oldest_first and oldest_first[0] <= timestamp:
            self.values.pop(heappop(oldest_first), None)


class FamilyChange:
    """The changes of one family. A delete covers the mutation's earlier puts, and what is stored.

    A delete without a timestamp covers everything up to the stamp, and every earlier put.
    """

    __slots__ = ("_column_deletes", "_delete_count", "_deletes", "_puts", "_version_deletes")

    def __init__(self) -> None:
        self._puts: dict[bytes, _Puts] = {}
        # Family deletes as (number of earlier ones, last timestamp deleted), without those that a later one exceeds.
        self._deletes: list[tuple[int, int]] = []
        self._delete_count = 0
        # By qualifier: the last timestamp deleted; and the single timestamps deleted.
        self._column_deletes: dict[bytes, int] = {}
        self._version_deletes: dict[bytes, set[int]] = {}

    def put(self, qualifier: bytes, timestamp: int, value: bytes) -> None:
        puts = self._puts_of(qualifier)
        if puts is None:
            puts = self._puts[qualifier] = _Puts()
            puts.deletes_seen = self._delete_count
        puts.put(timestamp, value)

    def newest_put(self, qualifier: bytes) -> tuple[int, bytes] | None:
        """Returns timestamp and value of the column's newest put that no later delete covers."""
        puts = self._puts_of(qualifier)
        if puts is None or not puts.values:
            return None
        timestamp = puts.newest()
        return timestamp, puts.values[timestamp]

    def delete_family(self, timestamp: int | None, stamp: int) -> None:
        through = timestamp
        if through is None:
            newest = [put[0] for qualifier in self._puts if (put := self.newest_put(qualifier)) is not None]
            through = max([stamp, *newest])
            self._puts.clear()
        while self._deletes and self._deletes[-1][1] <= through:
            self._deletes.pop()
        self._deletes.append((self._delete_count, through))
        self._delete_count += 1

    def delete_column(self, qualifier: bytes, timestamp: int | None, stamp: int) -> None:
        puts = self._puts_of(qualifier)
        through = timestamp
        if through is None:
            through = max(stamp, puts.newest()) if puts is not None else stamp
        if puts is not None:
            puts.drop_through(through)
        self._column_deletes[qualifier] = max(through, self._column_deletes.get(qualifier, _NOTHING))

    def delete_version(self, qualifier: bytes, timestamp: int) -> None:
        puts = self._puts_of(qualifier)
        if puts is not None:
            puts.drop(timestamp)
        self._version_deletes.setdefault(qualifier, set()).add(timestamp)

    def may_hide(self, qualifier: bytes) -> bool:
        """Whether some delete may cover stored versions of the column."""
        return bool(self._deletes) or qualifier in self._column_deletes or qualifier in self._version_deletes

    def hides(self, qualifier: bytes, timestamp: int) -> bool:
        """Whether a delete covers the stored version of this timestamp."""
        return (
            timestamp <= self._family_deleted_through()
            or timestamp <= self._column_deletes.get(qualifier, _NOTHING)
            or timestamp in self._version_deletes.get(qualifier, ())
        )

    def cells(self) -> list[UnnumberedCell]:
        """Returns the collapsed cells in store order. One tombstone replaces several of one kind that it covers."""
        cells: list[UnnumberedCell] = []
        for qualifier in self._puts:
            puts = self._puts_of(qualifier)
            if puts is not None:
                cells += [(qualifier, -timestamp, PUT, value) for timestamp, value in puts.values.items()]
        for qualifier, through in self._column_deletes.items():
            cells.append((qualifier, -through, DELETE_COLUMN, b""))
        for qualifier, timestamps in self._version_deletes.items():
            cells += [(qualifier, -timestamp, DELETE_VERSION, b"") for timestamp in timestamps]
        if self._deletes:
            cells.append((b"", -self._family_deleted_through(), DELETE_FAMILY, b""))
        cells.sort()
        return cells

    def _family_deleted_through(self) -> int:
        return self._deletes[0][1] if self._deletes else _NOTHING

    def _puts_of(self, qualifier: bytes) -> _Puts | None:
        """Returns the column's puts, without those that family deletes cover."""
        puts = self._puts.get(qualifier)
        if puts is not None and puts.deletes_seen < self._delete_count:
            # Each delete in the list exceeds all after it, so the first new one reaches furthest.
            since = bisect_left(self._deletes, (puts.deletes_seen, _NOTHING))
            puts.drop_through(self._deletes[since][1])
            puts.deletes_seen = self._delete_count
        return puts
