"""Row filters judged on a whole window of rows at once; by the rules of filters.py, its twin for one row.

Each part of a filter gets the rows on which its answer still matters, so parts are reached in the same order and on
the same rows as there. A row whose value doesn't fit the type of a part that is reached is a misfit: it doesn't match,
and whoever wants to answer beyond it raises the error of it. Which parts it meets after that is of no account.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from rowlock_regionserver.arrow.columns import Column, Integers, Mask, boolean_array
from rowlock_regionserver.arrow.masks import compares, is_one_of, matches_pattern
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
    RowPrefix,
)
from rowlock_regionserver.scan.filters import misfit_error
from rowlock_regionserver.scan.values import compare_column


@dataclass(frozen=True, slots=True)
class NewestValues:
    """One column's newest visible value in each row that has it: `rows` are the rows' places in the window, rising."""

    rows: Integers
    values: Column


@dataclass(frozen=True, slots=True)
class Misfits:
    """Rows where a comparison met a value that doesn't fit its type; they rise."""

    rows: Integers
    values: Column
    comparison: ColumnComparison


@dataclass(frozen=True, slots=True)
class Judgement:
    """Which rows of a window match, and which can't be judged; none is both."""

    matches: Mask
    misfits: Mask
    reasons: tuple[Misfits, ...]

    def error(self, row: int, key: bytes) -> FilterTypeError:
        """The error of the misfit at `row`, whose key is `key`."""
        for reason in self.reasons:
            place = int(np.searchsorted(reason.rows, row))
            if place < len(reason.rows) and reason.rows[place] == row:
                value = reason.values[place].as_py()
                assert isinstance(value, bytes)
                comparison = reason.comparison
                return misfit_error(key, comparison.family, comparison.qualifier, value, comparison.type)
        raise AssertionError(f"row {key!r} is no misfit")


def mask(row_filter: RowFilter, keys: Column, newest: Callable[[bytes, bytes], NewestValues], asked: Mask) -> Judgement:
    """Judges the rows of `keys` that are `asked`; newest(family, qualifier) is called for columns that are reached."""
    judge = _Judge(keys, newest)
    matches = judge.judge(row_filter, asked)
    return Judgement(matches & ~judge.misfits, judge.misfits, tuple(judge.reasons))


class _Judge:
    def __init__(self, keys: Column, newest: Callable[[bytes, bytes], NewestValues]) -> None:
        self._keys = keys
        self._newest = newest
        self.misfits = np.zeros(len(keys), np.bool_)
        self.reasons: list[Misfits] = []

    def judge(self, part: RowFilter, asked: Mask) -> Mask:
        """Which of the rows `asked` match; false elsewhere."""
        if not asked.any():
            return asked
        if isinstance(part, AllOf):
            matches = asked
            for inner in part.filters:
                matches = self.judge(inner, matches)
            return matches
        if isinstance(part, AnyOf):
            open_rows = asked
            for inner in part.filters:
                open_rows = open_rows & ~self.judge(inner, open_rows)
            return asked & ~open_rows
        if isinstance(part, NotOf):
            return asked & ~self.judge(part.filter, asked)
        if isinstance(part, RowPrefix):
            return asked & matches_pattern(self._keys, PatternKind.STARTS_WITH, part.prefix)
        if isinstance(part, RowComparison):
            return asked & compares(self._keys, part.op, part.operand)
        return self._judge_column(part, asked)

    def _judge_column(self, part: ColumnComparison | ColumnPresence | ColumnPattern | ColumnIn, asked: Mask) -> Mask:
        newest = self._newest(part.family, part.qualifier)
        matches = np.zeros(len(asked), np.bool_)
        if isinstance(part, ColumnPresence):
            matches[newest.rows] = True
            return asked & (matches if part.present else ~matches)
        reached = asked[newest.rows]
        rows = newest.rows[reached]
        values = newest.values if reached.all() else newest.values.filter(boolean_array(reached))
        if isinstance(part, ColumnIn):
            matches[rows] = is_one_of(values, part.operands)
        elif isinstance(part, ColumnPattern):
            matches[rows] = matches_pattern(values, part.kind, part.operand)
        else:
            matches[rows], fits = compare_column(values, part.op, part.operand, part.type)
            if not fits.all():
                self.misfits[rows[~fits]] = True
                self.reasons.append(Misfits(rows[~fits], values.filter(boolean_array(~fits)), part))
        return matches
