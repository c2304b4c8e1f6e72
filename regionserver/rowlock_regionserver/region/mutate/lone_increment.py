"""A mutation that is one increment, made without a RowChanger: the fast path of counters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from rowlock_regionserver.cells import PUT, Family
from rowlock_regionserver.found_cells import FoundCell, loaded
from rowlock_regionserver.operations import AnswerCell, Increment, RowMutation
from rowlock_regionserver.region.mutate.row_changer import COUNTER, COUNTER_BYTES, COUNTER_MAX, COUNTER_MIN
from rowlock_regionserver.wal.mutation import UnnumberedCell


class Incremented(NamedTuple):
    """The new cell of a counter, as it is stored and as it is answered."""

    cell: UnnumberedCell
    answer: AnswerCell


def lone_increment(mutation: RowMutation) -> Increment | None:
    """The increment, if that is the whole mutation."""
    changes = mutation.changes
    if len(changes) == 1 and mutation.condition is None:
        change = changes[0]
        if type(change) is Increment:
            return change
    return None


def incremented(change: Increment, family: Family, cells: Sequence[FoundCell], stamp: int) -> Incremented | None:
    """Increments the counter whose column has these cells, in store order, and perhaps tombstones that hide them.

    Returns None if RowChanger must do it: cells may be hidden or expired, or it is an error.
    """
    qualifier = change.qualifier
    if family.past or family.time_to_live_ms or not qualifier:
        return None
    before, timestamp = 0, stamp
    if cells:
        _, negative_timestamp, _, _, value = cells[0]
        if len(value) != COUNTER_BYTES:
            return None  # The value of a tombstone is empty. If none comes first, none hides the newest cell.
        (before,) = COUNTER.unpack(loaded(value))
        timestamp = max(stamp, -negative_timestamp)
    after = before + change.amount
    if not COUNTER_MIN <= after <= COUNTER_MAX:
        return None
    value = COUNTER.pack(after)
    return Incremented((qualifier, -timestamp, PUT, value), (change.family, qualifier, timestamp, value))
