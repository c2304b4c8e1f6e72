"""Turns the changes of one row mutation into cells, in order: each change sees the effect of those before it.

A mutation gets one write number, and within one write number a tombstone never hides a put. So the changes are
collapsed here: a put that a later delete of the same mutation covers is dropped, and of two puts with one timestamp the
later one wins. The result is correct when it is read as "tombstones first, then puts".

An increment or append reads the column's newest visible cell, of the row as stored and of the mutation so far.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import TypeGuard

from rowlock_proto.shown_names import column_text, row_text

from rowlock_regionserver.cells import NEWEST, PUT, Family, ReadPoint
from rowlock_regionserver.errors import CounterOverflowError, LimitExceededError, NotACounterError
from rowlock_regionserver.found_cells import FoundCell, loaded
from rowlock_regionserver.operations import Append, Change, Delete, DeleteKind, Increment, Put, RowResult
from rowlock_regionserver.region.idempotency.answer_size import AnswerSize
from rowlock_regionserver.region.mutate.family_change import FamilyChange
from rowlock_regionserver.region.mutate.row_state import RowState
from rowlock_regionserver.row_puts import RowPuts
from rowlock_regionserver.versions.visibility import after_alters, live_versions, visible_cells
from rowlock_regionserver.wal.mutation import UnnumberedCell

COUNTER = struct.Struct(">q")
COUNTER_BYTES = COUNTER.size
COUNTER_MIN, COUNTER_MAX = -(1 << 63), (1 << 63) - 1


def reads_the_row(change: Change) -> bool:
    """Whether the change must read its column before it can be made."""
    if isinstance(change, Delete):
        return change.kind is DeleteKind.VERSION and change.timestamp is None
    return not isinstance(change, Put)


def are_puts(changes: Sequence[Change]) -> TypeGuard[Sequence[Put]]:
    """Whether all changes are puts, which depend on nothing that the row holds."""
    if type(changes) is RowPuts:
        return True
    return type(changes[0]) is Put if len(changes) == 1 else set(map(type, changes)) == {Put}


def only_puts(
    changes: Sequence[Put], families: Mapping[bytes, Family], stamp: int
) -> list[tuple[int, list[UnnumberedCell]]]:
    """Returns the collapsed cells of a mutation of puts alone: the fast path for the common case."""
    if type(changes) is RowPuts:
        columns, negative = changes.columns, -stamp
        cells = [(qualifier, negative, PUT, value) for qualifier, value in columns.ascending(changes.values)]
        return [(families[columns.family].number, cells)]
    values: dict[bytes, bytes] = {}
    first = changes[0].family
    for family, qualifier, value, timestamp in changes:
        if timestamp is not None or family != first:
            return _puts_of_families(changes, families, stamp)
        values[qualifier] = value
    cells = [(qualifier, -stamp, PUT, values[qualifier]) for qualifier in sorted(values)]
    return [(families[first].number, cells)]


def _puts_of_families(
    changes: Sequence[Put], families: Mapping[bytes, Family], stamp: int
) -> list[tuple[int, list[UnnumberedCell]]]:
    by_family: dict[int, dict[tuple[bytes, int], bytes]] = {}
    for change in changes:
        timestamp = stamp if change.timestamp is None else change.timestamp
        puts = by_family.setdefault(families[change.family].number, {})
        puts[change.qualifier, -timestamp] = change.value
    return [
        (number, [(qualifier, timestamp, PUT, value) for (qualifier, timestamp), value in sorted(puts.items())])
        for number, puts in sorted(by_family.items())
    ]


class RowChanger:
    """Collapses the changes of one row mutation. Reads `row_state` only for changes that need it.

    Counts new cells of increments and appends in `answer` as they are made.
    """

    def __init__(
        self,
        row: bytes,
        families: Mapping[bytes, Family],
        row_state: RowState,
        now_ms: int,
        stamp: int,
        cell_bytes_max: int,
        answer: AnswerSize,
    ) -> None:
        self._row = row
        self._families = families
        self._row_state = row_state
        self._now = ReadPoint(NEWEST, now_ms)
        self._stamp = stamp
        self._cell_bytes_max = cell_bytes_max
        self._answer = answer
        self._changes: dict[int, FamilyChange] = {}
        # By family number and qualifier: the stored live cells that this mutation has not deleted, the newest last.
        self._live: dict[tuple[int, bytes], list[FoundCell]] = {}
        self._results: list[tuple[bytes, bytes, int, bytes]] = []

    def apply(self, change: Change) -> None:
        """Makes one more change. Raises InvalidRequestError subclasses; then the caller drops the whole mutation."""
        match change:
            case Put(family, qualifier, value, timestamp):
                self._of(family).put(qualifier, self._stamp if timestamp is None else timestamp, value)
            case Delete():
                self._delete(change)
            case Increment(family, qualifier, amount):
                self._increment(family, qualifier, amount)
            case Append(family, qualifier, suffix):
                self._append(family, qualifier, suffix)

    def cells(self) -> list[tuple[int, list[UnnumberedCell]]]:
        """Returns the collapsed cells by family number, in store order; omits families without any."""
        by_family = [(number, change.cells()) for number, change in sorted(self._changes.items())]
        return [(number, cells) for number, cells in by_family if cells]

    def result(self, seen: Sequence[tuple[bytes, bytes, int, bytes]], *, condition_met: bool) -> RowResult:
        return RowResult(condition_met, tuple(seen), tuple(self._results), self._stamp)

    def _of(self, family: bytes) -> FamilyChange:
        number = self._families[family].number
        change = self._changes.get(number)
        if change is None:
            change = self._changes[number] = FamilyChange()
        return change

    def _delete(self, delete: Delete) -> None:
        if delete.kind is DeleteKind.ROW:
            for family in self._families:
                self._of(family).delete_family(delete.timestamp, self._stamp)
        elif delete.kind is DeleteKind.FAMILY:
            self._of(delete.family).delete_family(delete.timestamp, self._stamp)
        elif delete.kind is DeleteKind.COLUMN:
            self._of(delete.family).delete_column(delete.qualifier, delete.timestamp, self._stamp)
        else:
            timestamp = delete.timestamp
            if timestamp is None:
                newest = self._newest(delete.family, delete.qualifier)
                if newest is None:
                    return  # There is no version to delete; a tombstone would hide nothing.
                timestamp = -newest[1]
            self._of(delete.family).delete_version(delete.qualifier, timestamp)

    def _increment(self, family: bytes, qualifier: bytes, amount: int) -> None:
        newest = self._newest(family, qualifier)
        before = 0
        if newest is not None:
            value = loaded(newest[4])
            if len(value) != COUNTER_BYTES:
                raise NotACounterError(
                    f"can't increment {column_text(family, qualifier)} of row {row_text(self._row)}: a counter is 8 "
                    f"bytes, big-endian, and the cell has {len(value)}; delete it, or put a counter there first",
                    row=self._row,
                    family=family,
                    qualifier=qualifier,
                )
            (before,) = COUNTER.unpack(value)
        after = before + amount
        if not COUNTER_MIN <= after <= COUNTER_MAX:
            raise CounterOverflowError(
                f"incrementing {column_text(family, qualifier)} of row {row_text(self._row)} from {before} by {amount} "
                "would leave 64 signed bits; the counter stays as it is",
                row=self._row,
                family=family,
                qualifier=qualifier,
            )
        self._put_newer(family, qualifier, newest, COUNTER.pack(after))

    def _append(self, family: bytes, qualifier: bytes, suffix: bytes) -> None:
        newest = self._newest(family, qualifier)
        byte_count = len(suffix) + (0 if newest is None else len(newest[4]))
        if byte_count > self._cell_bytes_max:
            raise LimitExceededError(
                f"appending to {column_text(family, qualifier)} of row {row_text(self._row)} would make a cell of "
                f"{byte_count} bytes, more than cell_bytes_max = {self._cell_bytes_max}; the cell stays as it is",
                limit="cell_bytes_max",
                limit_value=self._cell_bytes_max,
                found=byte_count,
                row=self._row,
                family=family,
                qualifier=qualifier,
            )
        self._put_newer(family, qualifier, newest, suffix if newest is None else loaded(newest[4]) + suffix)

    def _put_newer(self, family: bytes, qualifier: bytes, newest: FoundCell | None, value: bytes) -> None:
        """Puts a value with the stamp, or with the timestamp of the cell that was read if that is later."""
        timestamp = self._stamp if newest is None else max(self._stamp, -newest[1])
        self._of(family).put(qualifier, timestamp, value)
        self._results.append((family, qualifier, timestamp, value))
        self._answer.add(self._results[-1])

    def _newest(self, family_name: bytes, qualifier: bytes) -> FoundCell | None:
        """Returns the column's newest visible cell, with the mutation's earlier changes applied."""
        family = self._families[family_name]
        change = self._of(family_name)
        newest = self._newest_stored(family, change, qualifier)
        own = change.newest_put(qualifier)
        if own is not None and (newest is None or own[0] >= -newest[1]):
            newest = (qualifier, -own[0], -NEWEST, PUT, own[1])
        if newest is None or not family.time_to_live_ms:
            return newest
        visible = visible_cells([newest], self._now, family)
        return visible[0] if visible else None  # If it has expired, all older ones have too.

    def _newest_stored(self, family: Family, change: FamilyChange, qualifier: bytes) -> FoundCell | None:
        """Returns the column's newest stored version, expired or not, that the mutation has not deleted."""
        cells = self._row_state.column_cells(family, qualifier)
        if family.past:
            cells = after_alters(cells, family)
        # If no tombstone comes first, nothing hides the newest put.
        if not cells or (cells[0][3] == PUT and qualifier and not change.may_hide(qualifier)):
            return cells[0] if cells else None
        column = (family.number, qualifier)
        live = self._live.get(column)
        if live is None:
            events = [(-cell[2], cell[3] == PUT, cell[1], cell[3], cell) for cell in cells]
            live = self._live[column] = live_versions(events, family.versions)[::-1]
        while live and change.hides(qualifier, -live[-1][1]):
            live.pop()
        return live[-1] if live else None
