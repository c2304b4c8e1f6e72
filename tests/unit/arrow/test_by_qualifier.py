"""A function of qualifiers is computed once if they repeat from row to row, with the same result."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
from rowlock_regionserver.arrow.by_qualifier import by_qualifier
from rowlock_regionserver.arrow.columns import Column, binary_array, cells_table
from rowlock_regionserver.arrow.masks import places_among
from rowlock_regionserver.cells import PUT

from tests.seeds import generator_of

OPERANDS = binary_array([b"b", b"", b"cc"])


def computed(rows: list[list[bytes]]) -> tuple[list[int], int]:
    """Returns the place of each cell's qualifier among the operands, and how many elements were computed."""
    table = cells_table(
        [b"%03d" % row for row in range(len(rows))],
        [[(qualifier, -1, -1, PUT, b"") for qualifier in qualifiers] for qualifiers in rows],
    )
    looked_at = 0

    def compute(qualifiers: Column) -> npt.NDArray[np.int16]:
        nonlocal looked_at
        looked_at += len(qualifiers)
        return places_among(qualifiers, OPERANDS)

    return by_qualifier(table, compute).tolist(), looked_at


def expected(rows: list[list[bytes]]) -> list[int]:
    operands = OPERANDS.to_pylist()
    return [operands.index(qualifier) if qualifier in operands else -1 for row in rows for qualifier in row]


@pytest.mark.parametrize("qualifiers", [[b"", b"a", b"b"], [b"cc"], [b""], [b"b", b"cc", b"d", b"dd"]])
def test_qualifiers_that_repeat_are_looked_at_once(qualifiers: list[bytes]) -> None:
    rows = [qualifiers] * 20
    assert computed(rows) == (expected(rows), len(qualifiers))


@pytest.mark.parametrize(
    "rows",
    [
        [[b"a", b"b"], [b"a", b"c"]],  # other bytes of the same lengths
        [[b"a", b"bb"], [b"aa", b"b"]],  # the same bytes of other lengths
        [[b"a", b"b"], [b"a"], [b"a", b"b"]],
        [[b"b"], [b"a", b"b"]],
        [[b"a", b"b", b"cc"]],
    ],
)
def test_others_are_looked_at_each(rows: list[list[bytes]]) -> None:
    assert computed(rows) == (expected(rows), sum(map(len, rows)))


def test_the_last_row_may_lack_columns() -> None:
    rows = [[b"a", b"b", b"cc"]] * 5 + [[b"a", b"b"]]
    assert computed(rows) == (expected(rows), 3)


def test_random_rows_give_the_same_as_each_cell_alone() -> None:
    for seed in range(300):
        generator = generator_of(seed)
        names = [b"", b"a", b"b", b"c", b"cc"]
        first = sorted(generator.sample(names, generator.randint(1, 5)))
        rows = [
            first if generator.random() < 0.9 else sorted(generator.sample(names, generator.randint(1, 5)))
            for _ in range(generator.randint(1, 8))
        ]
        assert computed(rows)[0] == expected(rows), f"seed {seed}"
