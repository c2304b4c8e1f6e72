"""A filter evaluated on a window of rows gives the same results and errors as on each row."""

from __future__ import annotations

from collections import Counter

import numpy as np
from rowlock_regionserver.arrow.columns import binary_array
from rowlock_regionserver.errors import FilterTypeError
from rowlock_regionserver.operations import RowFilter
from rowlock_regionserver.row_ranges import clipped, is_empty
from rowlock_regionserver.scan.filter_columns import FilterResult, NewestValues, evaluated
from rowlock_regionserver.scan.filters import ColumnName, matches_row
from rowlock_regionserver.scan.ranges import rows_that_may_match

from tests.property.scan_cases import FAMILY_NAMES, QUALIFIERS, ROWS, VALUES, random_filter
from tests.seeds import generator_of

CASES = range(1500)


def evaluated_on(row_filter: RowFilter, table: list[dict[ColumnName, bytes]], is_candidate: list[bool]) -> FilterResult:
    """Returns the vector evaluation; row i of the table is ROWS[i]."""

    def newest(family: bytes, qualifier: bytes) -> NewestValues:
        found = [(place, row[(family, qualifier)]) for place, row in enumerate(table) if (family, qualifier) in row]
        return NewestValues(
            np.array([place for place, _ in found], np.int64), binary_array([value for _, value in found])
        )

    return evaluated(row_filter, binary_array(ROWS), newest, np.array(is_candidate))


def test_a_window_is_filtered_like_its_rows() -> None:
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
        is_candidate = [generator.random() < 0.8 for _ in ROWS]
        result = evaluated_on(row_filter, table, is_candidate)
        may_match = rows_that_may_match(row_filter)
        for place, row in enumerate(ROWS):
            found: object = bool(result.matches[place])
            if result.mismatches[place]:
                assert not found
                found = result.error(place, row).message
            expected: object = False
            if is_candidate[place]:
                try:
                    expected = matches_row(row_filter, row, table[place])
                except FilterTypeError as error:
                    expected = error.message
            assert found == expected, f"case {case}, row {row!r}: {row_filter}"
            is_outside = is_empty(clipped((row, row + b"\x00"), may_match))
            assert not (is_outside and expected), f"case {case}: {row!r} is not in {may_match}"
            counts["mismatch" if isinstance(found, str) else found] += 1
    assert min(counts[True], counts[False], 10 * counts["mismatch"]) > len(CASES), counts
