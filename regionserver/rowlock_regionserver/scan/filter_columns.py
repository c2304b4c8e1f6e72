"""Evaluates row filters on a whole window of rows at once: the vector twin of filters.py.

Each part of a filter is evaluated only on the rows where its result matters, so parts are reached in the same order and
on the same rows as in filters.py. A row in which a part reads a value that doesn't fit its type is a mismatch: it does
not match, and a caller that answers beyond it must raise its error. What later parts say of such a row is ignored.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from rowlock_regionserver.arrow.columns import Column, Integers, Mask, boolean_array
from rowlock_regionserver.arrow.masks import compares, is_one_of, matches_pattern
from rowlock_regionserver.arrow.regular_expressions import matches_expression
from rowlock_regionserver.errors import FilterTypeError
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
)
from rowlock_regionserver.scan.filters import mismatch_error
from rowlock_regionserver.scan.values import compare_column


@dataclass(frozen=True, slots=True)
class NewestValues:
    """One column's newest visible value in each row that has it. `rows` are places in the window, ascending."""

    rows: Integers
    values: Column


@dataclass(frozen=True, slots=True)
class Mismatches:
    """The rows, ascending, in which a comparison read a value that doesn't fit its type."""

    rows: Integers
    values: Column
    comparison: ColumnComparison


@dataclass(frozen=True, slots=True)
class FilterResult:
    """Which rows of a window match, and which have a type mismatch; none is both."""

    matches: Mask
    mismatches: Mask
    reasons: tuple[Mismatches, ...]

    def error(self, row: int, key: bytes) -> FilterTypeError:
        """Returns the error of the mismatch at `row`, whose key is `key`."""
        for reason in self.reasons:
            place = int(np.searchsorted(reason.rows, row))
            if place < len(reason.rows) and reason.rows[place] == row:
                value = reason.values[place].as_py()
                assert isinstance(value, bytes)
                comparison = reason.comparison
                return mismatch_error(key, comparison.family, comparison.qualifier, value, comparison.type)
        raise AssertionError(f"row {key!r} is not a mismatch")


def evaluated(
    row_filter: RowFilter, keys: Column, newest: Callable[[bytes, bytes], NewestValues], candidates: Mask
) -> FilterResult:
    """Evaluates the filter on the candidate rows of `keys`. newest(family, qualifier) is called only when needed."""
    evaluation = _Evaluation(keys, newest)
    matches = evaluation.matches(row_filter, candidates)
    return FilterResult(matches & ~evaluation.mismatches, evaluation.mismatches, tuple(evaluation.reasons))


class _Evaluation:
    def __init__(self, keys: Column, newest: Callable[[bytes, bytes], NewestValues]) -> None:
        self._keys = keys
        self._newest = newest
        self.mismatches = np.zeros(len(keys), np.bool_)
        self.reasons: list[Mismatches] = []

    def matches(self, part: RowFilter, candidates: Mask) -> Mask:
        """Returns which of the candidates match; false elsewhere."""
        if not candidates.any():
            return candidates
        if isinstance(part, AllOf):
            matches = candidates
            for inner in part.filters:
                matches = self.matches(inner, matches)
            return matches
        if isinstance(part, AnyOf):
            open_rows = candidates
            for inner in part.filters:
                open_rows = open_rows & ~self.matches(inner, open_rows)
            return candidates & ~open_rows
        if isinstance(part, NotOf):
            return candidates & ~self.matches(part.filter, candidates)
        if isinstance(part, RowPrefix):
            return candidates & matches_pattern(self._keys, PatternKind.STARTS_WITH, part.prefix)
        if isinstance(part, RowPattern):
            return candidates & _matches(self._keys, part.kind, part.operand)
        if isinstance(part, RowComparison):
            return candidates & compares(self._keys, part.op, part.operand)
        return self._column_matches(part, candidates)

    def _column_matches(
        self, part: ColumnComparison | ColumnPresence | ColumnPattern | ColumnIn, candidates: Mask
    ) -> Mask:
        newest = self._newest(part.family, part.qualifier)
        matches = np.zeros(len(candidates), np.bool_)
        if isinstance(part, ColumnPresence):
            matches[newest.rows] = True
            return candidates & (matches if part.present else ~matches)
        reached = candidates[newest.rows]
        rows = newest.rows[reached]
        values = newest.values if reached.all() else newest.values.filter(boolean_array(reached))
        if isinstance(part, ColumnIn):
            matches[rows] = is_one_of(values, part.operands)
        elif isinstance(part, ColumnPattern):
            matches[rows] = _matches(values, part.kind, part.operand)
        else:
            matches[rows], fits = compare_column(values, part.op, part.operand, part.type)
            if not fits.all():
                self.mismatches[rows[~fits]] = True
                self.reasons.append(Mismatches(rows[~fits], values.filter(boolean_array(~fits)), part))
        return matches


def _matches(values: Column, kind: PatternKind, operand: bytes) -> Mask:
    if kind in (PatternKind.MATCHES, PatternKind.MATCHES_TEXT):
        return matches_expression(values, operand, is_text=kind is PatternKind.MATCHES_TEXT)
    return matches_pattern(values, kind, operand)
