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
    ProtectedReadPoints,
    ReadPoint,
    from_then_on,
)
from rowlock_regionserver.versions.visibility import retained_cells, visible_cells

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
from tests.unit.versions.masked_tables import retained, visible

TABLES = 100
ROWS_PER_TABLE = 120  # 12,000 rows in all


@pytest.fixture
def generator() -> random.Random:
    seed = drawn_seed()
    return random.Random(seed)


def _random_read_point(generator: random.Random) -> ReadPoint:
    return ReadPoint(generator.randint(0, WRITE_NUMBER_MAX + 1), generator.randint(0, TIMESTAMP_MAX + 3))


def _random_spans(generator: random.Random, newest: int) -> ProtectedReadPoints:
    """Returns protected read points: one range from a read point on, and often others before it."""
    *edges, current = sorted(generator.choices(range(newest + 1), k=generator.choice([1, 1, 2, 3, 5])))
    spans = [(edge, edge) for edge in edges]
    if len(edges) > 2:
        spans[:2] = [(edges[0], edges[1])]
    return (*spans, *from_then_on(current))


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


def test_vectors_and_plain_rule_keep_the_same_at_a_flush(generator: random.Random) -> None:
    for _ in range(TABLES):
        rows = [random_row(generator) for _ in range(ROWS_PER_TABLE)]
        family = random_family(generator)
        spans = _random_spans(generator, WRITE_NUMBER_MAX)
        by_vectors = cells_by_row(retained(table_of(rows), spans, family), len(rows))
        for cells, kept in zip(rows, by_vectors, strict=True):
            expected = retained_cells(cells, spans, family.versions)
            assert kept == expected, f"{cells} at {spans} in {family}"


def _moved(cells: list[Cell], write_numbers: int) -> list[Cell]:
    """Returns the cells with greater write numbers."""
    return sorted((cell[0], cell[1], cell[2] - write_numbers, cell[3], cell[4]) for cell in cells)


def test_no_read_misses_what_a_flush_drops(generator: random.Random) -> None:
    """Every read keeps its answer, with older and later data with tombstones and a bulk batch of puts."""
    dropped = dropped_behind_tombstones = 0
    for _ in range(TABLES * ROWS_PER_TABLE // 4):
        older = random_row(generator, cells_max=5)
        flushed = _moved(random_row(generator, cells_max=8), WRITE_NUMBER_MAX)
        later = _moved(random_row(generator, cells_max=5), 2 * WRITE_NUMBER_MAX)
        bulk = [cell for cell in _moved(random_row(generator, cells_max=3), WRITE_NUMBER_MAX) if cell[3] == PUT]
        taken = {cell[:3] for cell in flushed}
        elsewhere = older + [cell for cell in bulk if cell[:3] not in taken] + later
        family = random_family(generator)
        spans = _random_spans(generator, 3 * WRITE_NUMBER_MAX)
        kept = retained_cells(flushed, spans, family.versions)
        dropped += len(flushed) - len(kept)
        if any(cell[3] != PUT for cell in flushed):
            dropped_behind_tombstones += sum(_is_touched(cell, flushed) for cell in set(flushed) - set(kept))
        for read_point in range(3 * WRITE_NUMBER_MAX + 1):
            if not any(first <= read_point <= last for first, last in spans):
                continue
            at = ReadPoint(read_point, generator.randint(0, TIMESTAMP_MAX + 3))
            expected = literal_visible_cells(elsewhere + flushed, at, family)
            answer = literal_visible_cells(elsewhere + kept, at, family)
            assert answer == expected, f"{elsewhere} + {flushed} at {at}, in {spans}, in {family}"
    assert dropped > TABLES, "the random rows give a flush nothing to drop"
    assert dropped_behind_tombstones > TABLES, "the random rows give a flush nothing to drop behind tombstones"


def _is_touched(put: Cell, cells: list[Cell]) -> bool:
    """Returns whether some tombstone touches the column of the put."""
    return any(cell[3] == DELETE_FAMILY or (cell[3] != PUT and cell[0] == put[0]) for cell in cells)


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
