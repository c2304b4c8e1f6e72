"""Changes that read their row: COMPARE and what follows it, for one row (write_path.py, steps 3 to 6)."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from rowlock_regionserver.cells import Durability
from rowlock_regionserver.commit.numbering import Numbering
from rowlock_regionserver.errors import RegionServerError
from rowlock_regionserver.operations import Change, Increment, RowMutation, RowOutcome, RowResult
from rowlock_regionserver.region.idempotency.answer_size import AnswerSize
from rowlock_regionserver.region.mutate.conditional import NewestRow, changed_timestamp_max, compare
from rowlock_regionserver.region.mutate.lone_increment import incremented, lone_increment
from rowlock_regionserver.region.mutate.row_changer import RowChanger
from rowlock_regionserver.region.mutate.row_commit import RowCommit
from rowlock_regionserver.region.mutate.row_state import RowState
from rowlock_regionserver.region.region_parts import RegionParts
from rowlock_regionserver.table import Table

# An outcome, the write number that must be published before it is sent, and the bytes of its cells in the answer.
PendingOutcome = tuple[RowOutcome, int, int]


class ReadingChanges:
    """Makes the changes of one region that depend on what the row holds. Thread-safe."""

    def __init__(self, parts: RegionParts, numbering: Numbering, commit: RowCommit) -> None:
        self._stores = parts.stores
        self._mvcc = parts.mvcc
        self._clock = parts.shared.clock
        self._config = parts.shared.config
        self._numbering = numbering
        self._commit = commit

    def change(
        self, table: Table, mutation: RowMutation, stamp: int, durability: Durability, budget: int
    ) -> PendingOutcome:
        """Takes steps 3 to 6 for a mutation that reads the row. Returns errors as outcomes."""
        state = RowState(self._stores.served.lookups, mutation.row, self._mvcc.read_point)
        try:
            if self._numbering.reads_rows(stamp):
                cells_of_row = itertools.chain.from_iterable(map(state.family_cells, table.families))
                stamp = self._numbering.stamp_later_than(mutation.row, cells_of_row, stamp)
            increment = lone_increment(mutation)
            if increment is not None:
                made = self._increment(table, mutation, increment, state, stamp, durability, budget)
                if made is not None:
                    return made
            return self._compare_and_change(table, mutation, state, stamp, durability, budget)
        except RegionServerError as error:
            # The error may reveal an unpublished write, so it waits for that write.
            return error.without_frames(), state.newest_write_number, 0

    def _increment(
        self,
        table: Table,
        mutation: RowMutation,
        increment: Increment,
        state: RowState,
        stamp: int,
        durability: Durability,
        budget: int,
    ) -> PendingOutcome | None:
        """Takes steps 3 to 6 for a mutation that is one increment; None if `_compare_and_change` must take them."""
        family = table.by_name[increment.family]
        made = incremented(increment, family, state.newest_column_cells(family, increment.qualifier), stamp)
        if made is None:
            return None
        result = RowResult(results=(made.answer,), timestamp=stamp)
        answer = AnswerSize(mutation.row, budget, self._config.request_bytes_max)
        answer.add(made.answer)
        cells = ((family.number, (made.cell,)),)
        write_number = self._commit.commit(table, mutation.row, cells, mutation.request, result, durability)
        return result, write_number, answer.byte_count

    def _compare_and_change(
        self, table: Table, mutation: RowMutation, state: RowState, stamp: int, durability: Durability, budget: int
    ) -> tuple[RowResult, int, int]:
        """3 COMPARE and 4 STAMP for a mutation that reads the row, then 5 and 6 if it changes anything."""
        now_ms = self._clock.now_ms()
        changes: Sequence[Change] = mutation.changes
        is_met = True
        seen: tuple[tuple[bytes, bytes, int, bytes], ...] = ()
        read_timestamp_max = 0
        answer = AnswerSize(mutation.row, budget, self._config.request_bytes_max)
        if mutation.condition is not None:
            newest = NewestRow(state, table.by_name, now_ms)
            comparison = compare(mutation.condition, mutation.row, newest, answer)
            is_met, seen = comparison.is_met, comparison.seen
            changes = mutation.changes if is_met else mutation.otherwise
            read_timestamp_max = max(comparison.timestamp_max, changed_timestamp_max(changes, newest))
        if not changes:
            return RowResult(is_met, seen), state.newest_write_number, answer.byte_count
        stamp = max(stamp, read_timestamp_max)
        changer = RowChanger(mutation.row, table.by_name, state, now_ms, stamp, self._config.cell_bytes_max, answer)
        for change in changes:
            changer.apply(change)
        cells = changer.cells()
        if not cells:  # It only deletes versions that do not exist.
            return RowResult(is_met, seen), state.newest_write_number, answer.byte_count
        result = changer.result(seen, condition_met=is_met)
        write_number = self._commit.commit(
            table, mutation.row, cells, mutation.request, result, durability, answer.byte_count
        )
        return result, write_number, answer.byte_count
