"""How a request of many rows is divided into stays inside the gate, so that it holds up others for few rows only."""

from __future__ import annotations

from collections.abc import Sequence

from rowlock_regionserver.operations import RowMutation
from rowlock_regionserver.region.mutate.changes import are_puts

# Rows of one request that are changed in one stay inside the gate. Who wants the gate alone, a flush say, waits for no
# more, and until then nobody else comes in: with 100,000 increments in one stay other rows waited 2.5 s.
ROWS_PER_GATE_HOLD = 64
# A mutation of more puts is applied before its record is appended, by who is alone inside the gate: under the order
# lock, for which the writers of all regions wait, it would take a millisecond for each thousand.
CELLS_UNDER_ORDER_MAX = 1000


def next_gate_batch(mutations: Sequence[RowMutation], left: Sequence[int]) -> tuple[Sequence[int], bool]:
    """Which of those that are left are changed in one stay inside the gate, and whether alone: one long one is."""
    stay = left[:ROWS_PER_GATE_HOLD]
    for count, i in enumerate(stay):
        mutation = mutations[i]
        if len(mutation.changes) > CELLS_UNDER_ORDER_MAX and mutation.condition is None and are_puts(mutation.changes):
            return (stay[:count], False) if count else (stay[:1], True)
    return stay, False


def distinct_ascending(rows: list[bytes]) -> Sequence[bytes]:
    """The rows to be locked, each once, in the one order in which all callers lock them."""
    return rows if len(rows) == 1 else sorted(set(rows))
