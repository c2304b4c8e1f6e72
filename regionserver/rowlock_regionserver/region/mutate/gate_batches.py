"""Divides a request for many rows into batches, each changed under one hold of the gate."""

from __future__ import annotations

from collections.abc import Sequence

from rowlock_regionserver.operations import RowMutation
from rowlock_regionserver.region.mutate.row_changer import are_puts

# Rows of one request that are changed under one hold of the gate. A thread that wants the gate exclusively, a flush for
# example, waits for one hold at most, and newcomers wait behind it: with 100,000 increments under one hold other rows
# waited 2.5 s.
ROWS_PER_GATE_HOLD = 64
# A mutation of more puts holds the gate exclusively and applies before it appends. Under the order lock, for which the
# writers of all regions wait, applying would take a millisecond for each thousand.
CELLS_UNDER_ORDER_MAX = 1000


def next_gate_batch(mutations: Sequence[RowMutation], remaining: Sequence[int]) -> tuple[Sequence[int], bool]:
    """Returns the indices of the next batch, and whether it needs the gate exclusively, as one long mutation does."""
    batch = remaining[:ROWS_PER_GATE_HOLD]
    for count, i in enumerate(batch):
        mutation = mutations[i]
        if len(mutation.changes) > CELLS_UNDER_ORDER_MAX and mutation.condition is None and are_puts(mutation.changes):
            return (batch[:count], False) if count else (batch[:1], True)
    return batch, False


def distinct_ascending(rows: list[bytes]) -> Sequence[bytes]:
    """Returns the rows to lock, each once, in ascending order, in which every caller locks them."""
    return rows if len(rows) == 1 else sorted(set(rows))
