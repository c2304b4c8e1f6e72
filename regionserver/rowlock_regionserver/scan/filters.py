"""Row filters: checks them, tells which columns they read, and evaluates them on one row.

A filter reads the newest visible value of each column that it names, whatever the projection, the time range and the
number of versions of the answer. A comparison, pattern or set does not match an absent column; that holds for NOT_EQUAL
too. `NotOf` is the logical not of its part, so NotOf(ColumnComparison(...)) matches where the column is absent.
AllOf() is true, AnyOf() is false.

The parts of AllOf and AnyOf are evaluated from left to right, and stop when the result is known. A stored value that
doesn't fit the type of a part is an error only if that part is reached, so an earlier part can guard a later one.

filter_columns.py applies the same rules to a whole window.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from rowlock_proto.shown_names import column_text, name_text, row_text

from rowlock_regionserver.arrow.columns import binary_array
from rowlock_regionserver.arrow.regular_expressions import EXPRESSION_BYTES_MAX, matches_expression, problem_of
from rowlock_regionserver.config import Config
from rowlock_regionserver.errors import (
    FamilyNotFoundError,
    FilterTypeError,
    InvalidRequestError,
    LimitExceededError,
    listed,
)
from rowlock_regionserver.operations import (
    AllOf,
    AnyOf,
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
    ValueType,
)
from rowlock_regionserver.scan.values import NOUNS, compare_value, read_value

# (family, qualifier)
ColumnName = tuple[bytes, bytes]

_EXPRESSIONS = (PatternKind.MATCHES, PatternKind.MATCHES_TEXT)
# An error shows this much of an unknown family's name: more than any existing family's name has.
FAMILY_BYTES_SHOWN = 128


def check_filter(row_filter: RowFilter, family_names: Collection[bytes], config: Config) -> None:
    """Checks that the filter can be evaluated, before anything is done.

    Raises LimitExceededError when it is nested deeper than `filter_depth_max` or names a qualifier that is too long,
    FamilyNotFoundError when the table lacks a family, and FilterTypeError when an operand doesn't fit its type.
    """
    _check(row_filter, family_names, config, 1)


def _check(row_filter: RowFilter, family_names: Collection[bytes], config: Config, depth: int) -> None:
    if depth > config.filter_depth_max:
        raise LimitExceededError(
            f"the filter is nested deeper than {config.filter_depth_max} levels (filter_depth_max); make it flatter",
            limit="filter_depth_max",
            limit_value=config.filter_depth_max,
            found=depth,
        )
    if isinstance(row_filter, AllOf | AnyOf):
        for part in row_filter.filters:
            _check(part, family_names, config, depth + 1)
    elif isinstance(row_filter, NotOf):
        _check(row_filter.filter, family_names, config, depth + 1)
    elif isinstance(row_filter, RowPattern):
        _check_pattern(row_filter.kind, row_filter.operand)
    elif not isinstance(row_filter, RowComparison | RowPrefix):
        check_family(row_filter.family, family_names)
        check_qualifier(row_filter.family, row_filter.qualifier, config)
        if isinstance(row_filter, ColumnComparison):
            check_operand(row_filter.operand, row_filter.type, row_filter.family, row_filter.qualifier)
        elif isinstance(row_filter, ColumnPattern):
            _check_pattern(row_filter.kind, row_filter.operand)


def _check_pattern(kind: PatternKind, operand: bytes) -> None:
    """Raises InvalidRequestError for a malformed regular expression, LimitExceededError for one that is too long."""
    if kind not in _EXPRESSIONS:
        return
    if len(operand) > EXPRESSION_BYTES_MAX:
        raise LimitExceededError(
            f"a regular expression of {len(operand)} bytes is longer than {EXPRESSION_BYTES_MAX}",
            limit="expression_bytes_max",
            limit_value=EXPRESSION_BYTES_MAX,
            found=len(operand),
        )
    problem = problem_of(operand, is_text=kind is PatternKind.MATCHES_TEXT)
    if problem is not None:
        raise InvalidRequestError(
            f"the regular expression {_shown(operand)} is malformed: {problem}; the syntax is that of RE2"
        )


def check_family(family: bytes, family_names: Collection[bytes]) -> None:
    """Raises FamilyNotFoundError unless the table has the family."""
    if family not in family_names:
        raise FamilyNotFoundError(
            f"the table has no column family {name_text(family)}; it has: {listed(family_names)}",
            family=family[:FAMILY_BYTES_SHOWN],
        )


def check_qualifier(family: bytes, qualifier: bytes, config: Config) -> None:
    """Raises LimitExceededError when no column can have the qualifier."""
    if len(qualifier) > config.qualifier_bytes_max:
        raise LimitExceededError(
            f"a qualifier of {len(qualifier)} bytes is longer than {config.qualifier_bytes_max} (qualifier_bytes_max)",
            limit="qualifier_bytes_max",
            limit_value=config.qualifier_bytes_max,
            found=len(qualifier),
            family=family,
            qualifier=qualifier[: config.qualifier_bytes_max],
        )


def check_operand(operand: bytes, value_type: ValueType, family: bytes = b"", qualifier: bytes = b"") -> None:
    """Raises FilterTypeError when the operand doesn't fit the type."""
    try:
        read_value(operand, value_type)
    except ValueError as error:
        where = f" for column {column_text(family, qualifier)}" if family else ""
        raise FilterTypeError(
            f"the operand {_shown(operand)}{where} is not {NOUNS[value_type]}; encode it as the comparison's type",
            family=family,
            qualifier=qualifier,
        ) from error


def mismatch_error(row: bytes, family: bytes, qualifier: bytes, value: bytes, value_type: ValueType) -> FilterTypeError:
    """Returns the error for a stored value that doesn't fit the type with which a filter reads it."""
    return FilterTypeError(
        f"column {column_text(family, qualifier)} of row {row_text(row)} holds {_shown(value)}, which is not "
        f"{NOUNS[value_type]}; compare it as another type, or exclude such rows by an earlier part of the filter",
        row=row,
        family=family,
        qualifier=qualifier,
    )


def _shown(value: bytes) -> str:
    return repr(value) if len(value) <= 40 else f"{value[:40]!r}... ({len(value)} bytes)"


def required_columns(row_filter: RowFilter | None) -> frozenset[ColumnName]:
    """Returns the columns that the filter reads; none for None."""
    if row_filter is None or isinstance(row_filter, RowComparison | RowPrefix | RowPattern):
        return frozenset()
    if isinstance(row_filter, AllOf | AnyOf):
        return frozenset().union(*(required_columns(part) for part in row_filter.filters))
    if isinstance(row_filter, NotOf):
        return required_columns(row_filter.filter)
    return frozenset(((row_filter.family, row_filter.qualifier),))


def matches_row(row_filter: RowFilter, row: bytes, newest: Mapping[ColumnName, bytes]) -> bool:
    """Returns whether the row matches; `newest` has the newest visible value of each required column that is present.

    Raises FilterTypeError, with row and column, when the filter reaches a value that doesn't fit its type.
    """
    if isinstance(row_filter, AllOf):
        return all(matches_row(part, row, newest) for part in row_filter.filters)
    if isinstance(row_filter, AnyOf):
        return any(matches_row(part, row, newest) for part in row_filter.filters)
    if isinstance(row_filter, NotOf):
        return not matches_row(row_filter.filter, row, newest)
    if isinstance(row_filter, RowPrefix):
        return row.startswith(row_filter.prefix)
    if isinstance(row_filter, RowPattern):
        return _matches_pattern(row_filter, row)
    if isinstance(row_filter, RowComparison):
        return compare_value(row, row_filter.op, row_filter.operand, ValueType.BYTES)
    value = newest.get((row_filter.family, row_filter.qualifier))
    if isinstance(row_filter, ColumnPresence):
        return (value is not None) == row_filter.present
    if value is None:
        return False
    if isinstance(row_filter, ColumnIn):
        return value in row_filter.operands
    if isinstance(row_filter, ColumnPattern):
        return _matches_pattern(row_filter, value)
    try:
        return compare_value(value, row_filter.op, row_filter.operand, row_filter.type)
    except ValueError as error:
        raise mismatch_error(row, row_filter.family, row_filter.qualifier, value, row_filter.type) from error


def _matches_pattern(pattern: ColumnPattern | RowPattern, value: bytes) -> bool:
    if pattern.kind == PatternKind.STARTS_WITH:
        return value.startswith(pattern.operand)
    if pattern.kind == PatternKind.ENDS_WITH:
        return value.endswith(pattern.operand)
    if pattern.kind == PatternKind.CONTAINS:
        return pattern.operand in value
    is_text = pattern.kind == PatternKind.MATCHES_TEXT
    return bool(matches_expression(binary_array([value]), pattern.operand, is_text=is_text)[0])
