"""Judging a window of rows at once gives what judging them one by one gives, errors included."""

from __future__ import annotations

from collections import Counter

import numpy as np
from rowlock_regionserver.arrow.columns import binary_array
from rowlock_regionserver.errors import FilterTypeError
from rowlock_regionserver.operations import RowFilter
from rowlock_regionserver.scan.filter_columns import Judgement, NewestValues, mask
from rowlock_regionserver.scan.filters import ColumnName, matches_row
from rowlock_regionserver.scan.ranges import clipped, is_empty, rows_that_may_match

from tests.property.scan_cases import FAMILY_NAMES, QUALIFIERS, ROWS, VALUES, random_filter
from tests.seeds import generator_of

CASES = range(1500)


def judged(row_filter: RowFilter, table: list[dict[ColumnName, bytes]], asked: list[bool]) -> Judgement:
    """The columns' answer; row i of the table is ROWS[i]."""

    def newest(family: bytes, qualifier: bytes) -> NewestValues:
        found = [(place, row[(family, qualifier)]) for place, row in enumerate(table) if (family, qualifier) in row]
        return NewestValues(
            np.array([place for place, _ in found], np.int64), binary_array([value for _, value in found])
        )

    return mask(row_filter, binary_array(ROWS), newest, np.array(asked))


def test_window_is_judged_as_its_rows_are() -> None:
    counts: Counter[object] = Counter()
    for case in CASES:
        generator = generator_of(case)
        some_values = generator.choice(VALUES)
        table = [
            {
                (family, qualifier): generator.choice(some_values)
                for family in FAMILY_NAMES
                for qualifier in QUALIFIERS
                if generator.random() < 0.6
            }
            for _ in ROWS
        ]
        row_filter = random_filter(generator, 5)
        asked = [generator.random() < 0.8 for _ in ROWS]
        judgement = judged(row_filter, table, asked)
        may_match = rows_that_may_match(row_filter)
        for place, row in enumerate(ROWS):
            found: object = bool(judgement.matches[place])
            if judgement.misfits[place]:
                assert not found
                found = judgement.error(place, row).message
            expected: object = False
            if asked[place]:
                try:
                    expected = matches_row(row_filter, row, table[place])
                except FilterTypeError as error:
                    expected = error.message
            assert found == expected, f"case {case}, row {row!r}: {row_filter}"
            is_outside = is_empty(clipped((row, row + b"\x00"), may_match))
            assert not (is_outside and expected), f"case {case}: {row!r} is not in {may_match}"
            counts["misfit" if isinstance(found, str) else found] += 1
    assert min(counts[True], counts[False], 10 * counts["misfit"]) > len(CASES), counts
