"""COMPARE: evaluates a condition on a row's newest state, and collects the cells that it compared.

Every comparison means "stored op given", by unsigned bytes. An absent cell fails every comparison, NOT_EQUAL too; a
check without an operand tests for absence (EQUAL) or presence (NOT_EQUAL). An empty value is a value.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from rowlock_regionserver.cells import NEWEST, Cell, Family, ReadPoint
from rowlock_regionserver.found_cells import FoundCell, loaded
from rowlock_regionserver.operations import AnswerCell, Change, Check, CompareOp, Condition, Existence, Put, RowMutation
from rowlock_regionserver.region.idempotency.answer_size import AnswerSize
from rowlock_regionserver.region.mutate.row_changer import reads_the_row
from rowlock_regionserver.region.mutate.row_state import RowState
from rowlock_regionserver.row_puts import RowPuts
from rowlock_regionserver.scan.filters import matches_row, required_columns
from rowlock_regionserver.versions.visibility import visible_cells

COMPARISONS: Mapping[CompareOp, Callable[[bytes, bytes], bool]] = {
    CompareOp.EQUAL: operator.eq,
    CompareOp.NOT_EQUAL: operator.ne,
    CompareOp.LESS: operator.lt,
    CompareOp.LESS_OR_EQUAL: operator.le,
    CompareOp.GREATER: operator.gt,
    CompareOp.GREATER_OR_EQUAL: operator.ge,
}


@dataclass(frozen=True, slots=True)
class Comparison:
    """The outcome of a condition. `timestamp_max`: of the compared cells; the changes get no earlier stamp."""

    is_met: bool
    seen: tuple[AnswerCell, ...]
    timestamp_max: int


class NewestRow:
    """The newest visible cell of each column of a row, unpublished writes included."""

    def __init__(self, state: RowState, families: Mapping[bytes, Family], now_ms: int) -> None:
        self._state = state
        self._families = families
        self._now = ReadPoint(NEWEST, now_ms)

    def cell(self, family_name: bytes, qualifier: bytes) -> FoundCell | None:
        """Returns the column's newest visible cell."""
        family = self._families[family_name]
        visible = visible_cells(self._state.column_cells(family, qualifier), self._now, family)
        # visible_cells has removed the family tombstones, so only cells of this column remain.
        return visible[0] if visible else None

    def loaded_cell(self, family_name: bytes, qualifier: bytes) -> Cell | None:
        """Returns the column's newest visible cell with its value loaded."""
        cell = self.cell(family_name, qualifier)
        return None if cell is None else (*cell[:4], loaded(cell[4]))

    def exists(self) -> bool:
        """Whether the row has a visible cell. Reads until it finds one."""
        return any(self._state.has_visible(family, self._now) for family in self._families.values())


def families_read(mutation: RowMutation) -> Collection[bytes] | None:
    """Returns the names of the families that COMPARE of this mutation may read; None means all."""
    condition = mutation.condition
    if condition is None:
        if type(mutation.changes) is RowPuts:
            return ()
        return {change.family for change in mutation.changes if reads_the_row(change)}
    if reads_whole_rows(mutation):
        return None
    changed = {change.family for change in (*mutation.changes, *mutation.otherwise)}
    return changed.union(check.family for check in condition.checks)


def reads_whole_rows(mutation: RowMutation) -> bool:
    """Whether COMPARE of this mutation may read any cell of the row."""
    condition = mutation.condition
    return condition is not None and (condition.filter is not None or condition.existence is not Existence.ANY)


def compare(condition: Condition, row: bytes, newest: NewestRow, answer: AnswerSize) -> Comparison:
    """Evaluates the condition: checks, existence, filter.

    Reads the column of every check, even after one has failed, because the answer lists them all; their bytes are
    counted in `answer`. So it does for the columns of the filter, if the condition asks for them. Evaluates the filter
    only if checks and existence hold, so a check can guard it against a value that does not fit its type.
    """
    is_met = True
    seen: list[AnswerCell] = []
    timestamp_max = 0
    read: dict[tuple[bytes, bytes], Cell | None] = {}  # A column may be checked more than once.

    def listed_cell(column: tuple[bytes, bytes]) -> Cell | None:
        if column not in read:
            cell = read[column] = newest.loaded_cell(*column)
            if cell is not None:
                seen.append((*column, -cell[1], cell[4]))
                answer.add(seen[-1])
        return read[column]

    for check in condition.checks:
        cell = listed_cell((check.family, check.qualifier))
        timestamp_max = max(timestamp_max, -cell[1] if cell is not None else 0)
        is_met = _holds(check, cell) and is_met
    if condition.returns_filtered:
        for column in sorted(required_columns(condition.filter)):
            listed_cell(column)
    if condition.existence is not Existence.ANY:
        is_met = newest.exists() is (condition.existence is Existence.PRESENT) and is_met
    if is_met and condition.filter is not None:
        values: dict[tuple[bytes, bytes], bytes] = {}
        for column in required_columns(condition.filter):
            cell = read[column] if column in read else newest.loaded_cell(*column)
            if cell is not None:
                values[column] = cell[4]
                timestamp_max = max(timestamp_max, -cell[1])
        # A filter is a predicate over a row: it does not hold for an absent one.
        is_met = newest.exists() and matches_row(condition.filter, row, values)
    return Comparison(is_met, tuple(seen), timestamp_max)


def changed_timestamp_max(changes: Sequence[Change], newest: NewestRow) -> int:
    """Returns the newest timestamp of the columns to be put: a conditional put must be newer than what it compared."""
    timestamp_max = 0
    for change in changes:
        if isinstance(change, Put) and change.timestamp is None:
            cell = newest.cell(change.family, change.qualifier)
            if cell is not None:
                timestamp_max = max(timestamp_max, -cell[1])
    return timestamp_max


def _holds(check: Check, cell: Cell | None) -> bool:
    if check.operand is None:
        if check.op is CompareOp.EQUAL:
            return cell is None
        return cell is not None
    return cell is not None and COMPARISONS[check.op](cell[4], check.operand)
