"""A plain model of reads: computes the answers of gets and scans from the list of all writes, by simple loops.

It shares no rule with the code under test: visibility, filters, selections and limits are written out again here in
the simplest way, and `list_source.ListSource` is a source that only sorts.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Iterator
from dataclasses import dataclass

from rowlock_regionserver.cells import (
    DELETE_COLUMN,
    DELETE_FAMILY,
    DELETE_VERSION,
    PUT,
    Family,
    ReadPoint,
)
from rowlock_regionserver.operations import (
    AllOf,
    AnswerCell,
    AnyOf,
    CellFilter,
    ColumnComparison,
    ColumnIn,
    ColumnPattern,
    ColumnPresence,
    NotOf,
    PatternKind,
    RowComparison,
    RowFilter,
    RowPattern,
    RowPrefix,
    ScanPlan,
    Selection,
    ValueType,
)

from tests.property.list_source import Write


class MismatchError(Exception):
    """A filter read a value of `row` that doesn't fit its type."""

    def __init__(self, row: bytes) -> None:
        super().__init__(row)
        self.row = row


@dataclass(frozen=True, slots=True)
class Model:
    """All writes of a table, and the answers of reads at a read point."""

    families: tuple[Family, ...]
    writes: tuple[Write, ...]
    read_point: ReadPoint

    def rows(self) -> list[bytes]:
        return sorted({write.row for write in self.writes})

    def row(self, row: bytes, selection: Selection) -> list[AnswerCell]:
        """Returns the answer of a get. Raises MismatchError."""
        seen: list[AnswerCell] = []
        newest: dict[tuple[bytes, bytes], bytes] = {}
        for family in sorted(self.families, key=lambda family: family.name):
            for qualifier, versions in sorted(self._visible(row, family).items()):
                newest[(family.name, qualifier)] = versions[0][1]
                if not _is_asked(selection, family.name, qualifier):
                    continue
                in_time = [
                    (family.name, qualifier, timestamp, value)
                    for timestamp, value in versions
                    if selection.time_start <= timestamp
                    and (not selection.time_stop or timestamp < selection.time_stop)
                ]
                seen += in_time[: selection.versions]
        if not seen or (selection.where is not None and not _matches(selection.where, row, newest)):
            return []
        return list(_filtered(seen, row, selection.cells))

    def scan(self, plan: ScanPlan, start: bytes, stop: bytes) -> Iterator[tuple[bytes, list[AnswerCell]]]:
        """Yields the answer of a scan, row by row. Raises MismatchError when it reaches such a row."""
        count = 0
        for row in reversed(self.rows()) if plan.reverse else self.rows():
            ranges = plan.ranges or ((b"", b""),)
            if not _is_in((start, stop), row) or not any(_is_in(asked, row) for asked in ranges):
                continue
            cells = self.row(row, plan.selection)
            if cells:
                yield row, cells
                count += 1
                if count == plan.row_limit:
                    return

    def _visible(self, row: bytes, family: Family) -> dict[bytes, list[tuple[int, bytes]]]:
        """Returns (timestamp, value) by qualifier, newest first."""
        events = [write for write in self.writes if write.row == row and write.family == family.name]
        live: dict[bytes, dict[int, bytes]] = {}
        # Within one write number the tombstones come first.
        for write in sorted(events, key=lambda write: (write.write_number, write.kind == PUT)):
            if write.write_number > self.read_point.write_number:
                continue
            apply_write(write, live, family.versions)
        return seen_versions(live, family, self.read_point.now_ms)


def apply_write(write: Write, live: dict[bytes, dict[int, bytes]], versions: int) -> None:
    """Applies a write to the live values of its row and family, by qualifier and timestamp."""
    column = live.setdefault(write.qualifier, {})
    if write.kind == PUT:
        column[write.timestamp] = write.value
        if len(column) > versions:
            del column[min(column)]
    elif write.kind == DELETE_VERSION:
        column.pop(write.timestamp, None)
    elif write.kind == DELETE_COLUMN:
        _remove_up_to(column, write.timestamp)
    else:
        assert write.kind == DELETE_FAMILY
        for hidden in live.values():
            _remove_up_to(hidden, write.timestamp)


def seen_versions(
    live: dict[bytes, dict[int, bytes]], family: Family, now_ms: int
) -> dict[bytes, list[tuple[int, bytes]]]:
    """Returns (timestamp, value) of the live versions that are seen, by qualifier, newest first."""
    seen = {}
    for qualifier, column in live.items():
        versions = [
            (timestamp, value)
            for place, (timestamp, value) in enumerate(sorted(column.items(), reverse=True))
            if place < family.min_versions or not family.time_to_live_ms or timestamp + family.time_to_live_ms > now_ms
        ]
        if versions:
            seen[qualifier] = versions
    return seen


def _remove_up_to(column: dict[int, bytes], timestamp: int) -> None:
    for old in [old for old in column if old <= timestamp]:
        del column[old]


def _is_in(row_range: tuple[bytes, bytes], row: bytes) -> bool:
    return row_range[0] <= row and (not row_range[1] or row < row_range[1])


def _is_asked(selection: Selection, family: bytes, qualifier: bytes) -> bool:
    return not selection.columns or any(
        column.family == family and column.qualifier in (None, qualifier) for column in selection.columns
    )


_OPERATORS = (operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge)


def _matches(part: RowFilter, row: bytes, newest: dict[tuple[bytes, bytes], bytes]) -> bool:
    match part:
        case AllOf(parts):
            return all(_matches(inner, row, newest) for inner in parts)
        case AnyOf(parts):
            return any(_matches(inner, row, newest) for inner in parts)
        case NotOf(inner):
            return not _matches(inner, row, newest)
        case RowPrefix(prefix):
            return row[: len(prefix)] == prefix
        case RowComparison(op, operand):
            return bool(_OPERATORS[op](row, operand))
        case RowPattern(kind, operand):
            return pattern_matches(kind, operand, row)
        case ColumnPresence(family, qualifier, present):
            return ((family, qualifier) in newest) == present
        case _:
            value = newest.get((part.family, part.qualifier))
            return value is not None and _value_matches(part, value, row)


def _value_matches(part: ColumnComparison | ColumnPattern | ColumnIn, value: bytes, row: bytes) -> bool:
    if isinstance(part, ColumnIn):
        return value in part.operands
    if isinstance(part, ColumnPattern):
        return pattern_matches(part.kind, part.operand, value)
    return bool(_OPERATORS[part.op](_number(value, part.type, row), _number(part.operand, part.type, row)))


def pattern_matches(kind: PatternKind, operand: bytes, value: bytes) -> bool:
    """Whether the pattern matches; for regular expressions that mean the same in Python but for `$`."""
    operand = operand.replace(b"$", rb"\Z") if kind >= PatternKind.MATCHES else operand
    match kind:
        case PatternKind.STARTS_WITH:
            return value[: len(operand)] == operand
        case PatternKind.ENDS_WITH:
            return value[len(value) - len(operand) :] == operand and len(value) >= len(operand)
        case PatternKind.CONTAINS:
            return operand in value
        case PatternKind.MATCHES:
            return re.search(operand, value) is not None
        case PatternKind.MATCHES_TEXT:
            try:
                return re.search(operand.decode(), value.decode()) is not None
            except UnicodeDecodeError:
                return False


def _number(value: bytes, value_type: ValueType, row: bytes) -> bytes | int:
    """Compares values of three types; the tests of values.py cover the others."""
    if value_type == ValueType.BYTES:
        return value
    if value_type == ValueType.INT16:
        if len(value) != 2:
            raise MismatchError(row)
        return int.from_bytes(value, "big", signed=True)
    assert value_type == ValueType.TEXT_INT
    digits = value.decode("latin-1")
    if not digits.isascii() or not digits.removeprefix("-").isdigit():
        raise MismatchError(row)
    return int(digits)


def _filtered(cells: list[AnswerCell], row: bytes, cell_filter: CellFilter) -> Iterator[AnswerCell]:
    place = -1
    left = []
    for cell in cells:
        qualifier, value = cell[1], cell[3]
        if cell_filter.qualifier_prefix and not qualifier.startswith(cell_filter.qualifier_prefix):
            continue
        if cell_filter.qualifier_start and qualifier < cell_filter.qualifier_start:
            continue
        if cell_filter.qualifier_stop and qualifier >= cell_filter.qualifier_stop:
            continue
        if cell_filter.value_op is not None:
            stored = _number(value, cell_filter.value_type, row)
            if not _OPERATORS[cell_filter.value_op](
                stored, _number(cell_filter.value_operand, cell_filter.value_type, row)
            ):
                continue
        left.append(cell)
    for family, qualifier, timestamp, value in left:
        place += 1
        if cell_filter.first_key_only and place > 0:
            continue
        if place < cell_filter.cell_offset:
            continue
        if cell_filter.cell_limit and place >= cell_filter.cell_offset + cell_filter.cell_limit:
            continue
        yield (family, qualifier, timestamp, b"" if cell_filter.keys_only else value)
