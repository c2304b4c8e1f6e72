"""The vectorised visibility rules against the plain ones and the model, on random rows with many collisions."""

from __future__ import annotations

import random

import pytest
from rowlock_regionserver.cells import (
    DELETE_COLUMN,
    DELETE_FAMILY,
    DELETE_VERSION,
    PUT,
    Cell,
    Family,
    ReadPoint,
)
from rowlock_regionserver.versions.visibility import visible_cells

from tests.property.visibility_model import (
    TIMESTAMP_MAX,
    WRITE_NUMBER_MAX,
    cells_by_row,
    literal_visible_cells,
    random_family,
    random_row,
    table_of,
)
from tests.seeds import drawn_seed
from tests.unit.versions.masked_tables import visible

TABLES = 100
ROWS_PER_TABLE = 120  # 12,000 rows in all


@pytest.fixture
def generator() -> random.Random:
    seed = drawn_seed()
    return random.Random(seed)


def _random_read_point(generator: random.Random) -> ReadPoint:
    return ReadPoint(generator.randint(0, WRITE_NUMBER_MAX + 1), generator.randint(0, TIMESTAMP_MAX + 3))


def test_vectors_and_state_machine_answer_as_the_model(generator: random.Random) -> None:
    for _ in range(TABLES):
        rows = [random_row(generator) for _ in range(ROWS_PER_TABLE)]
        family = random_family(generator)
        read_point = _random_read_point(generator)
        by_vectors = cells_by_row(visible(table_of(rows), read_point, family), len(rows))
        for cells, answer in zip(rows, by_vectors, strict=True):
            model = literal_visible_cells(cells, read_point, family)
            assert visible_cells(cells, read_point, family) == model, f"{cells} at {read_point} in {family}"
            assert answer == model, f"{cells} at {read_point} in {family}"


def test_a_long_column_of_every_kind_answers_as_the_state_machine(generator: random.Random) -> None:
    """Covers thousands of events in one column, with tombstones of the column and of its family."""
    for versions in (1, 2, 7, 200):
        kinds = generator.choices([PUT, DELETE_VERSION, DELETE_COLUMN, DELETE_FAMILY], [90, 30, 1, 1], k=1500)
        cells: list[Cell] = sorted(
            (b"" if kind == DELETE_FAMILY else b"q", -generator.randrange(500), -number, kind, b"%d" % number)
            for number, kind in enumerate(kinds, start=1)
        )
        family = Family(1, b"f", versions=versions)
        for read_point in (10, 500, 1500):
            at = ReadPoint(read_point, 0)
            expected = visible_cells(cells, at, family)
            assert cells_by_row(visible(table_of([cells]), at, family), 1)[0] == expected
            if read_point <= 500:  # the model takes time with the square of the events
                assert literal_visible_cells(cells, at, family) == expected
