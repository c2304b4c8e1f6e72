"""Random tables, sources and limits: scans that are read row by row give the answers of a plain model of all writes.

Each case is made from the run's seed and its number; a failure names both, and `check_case(case, ...)` replays it.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
from rowlock_regionserver.cells import PUT
from rowlock_regionserver.few_rows import FewRows
from rowlock_regionserver.files import Files
from rowlock_regionserver.found_cells import FoundCell
from rowlock_regionserver.operations import EVERYTHING, ScanPlan, Selection
from rowlock_regionserver.scan import short_scan
from rowlock_regionserver.scan.batches import ScanAnswer
from rowlock_regionserver.scan.newest_rows import NewestRows
from rowlock_regionserver.scan.ranges import RowsAt
from rowlock_regionserver.scan.scanner import scan
from rowlock_regionserver.scan.window_split import View
from rowlock_regionserver.sources import FewWanted, Reading, Source
from rowlock_regionserver.storefile.open_files import OpenFiles

from tests.drawn_cases import case_count
from tests.property.scan_cases import QUALIFIERS, random_model, random_range, random_selection, random_stores
from tests.property.scan_model import Model
from tests.property.test_scan_of_real_sources import sources_of
from tests.seeds import generator_of

CASES = range(case_count(500, 80))
REAL_CASES = range(case_count(60, 12))
Row = tuple[bytes, dict[bytes, bytes]]


@pytest.fixture(autouse=True)
def few_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Crosses the edges between rounds, sources and answers."""
    monkeypatch.setattr(short_scan, "ROWS_MAX", 3)
    monkeypatch.setattr(short_scan, "UNLIMITED_ROWS_MAX", 2)
    monkeypatch.setattr(short_scan, "SOURCES_MAX", 100)


def rows_of(answer: ScanAnswer) -> Iterator[Row]:
    """Yields the rows of an answer of newest rows, or of cells."""
    found = answer.rows
    if isinstance(found, NewestRows):
        assert len(found) == answer.row_count == len(found.sets_of_rows) == len(found.values)
        for row, place, values in zip(found.rows, found.sets_of_rows, found.values, strict=True):
            assert values, f"row {row!r} has no value"
            yield row, dict(zip(found.column_sets[place], values, strict=True))
        return
    rows: dict[bytes, dict[bytes, bytes]] = {}
    for cell in answer.table.to_pylist():
        rows.setdefault(cell["row"], {})[cell["family"] + b":" + cell["qualifier"]] = cell["value"]
    yield from rows.items()


def random_columns(generator: random.Random) -> Selection:
    """Selects all columns in half of the cases, else some."""
    return Selection(random_selection(generator).columns) if generator.random() < 0.5 else EVERYTHING


def rows_in_model(model: Model, plan: ScanPlan) -> list[Row]:
    return [
        (row, {family + b":" + qualifier: value for family, qualifier, _, value in cells})
        for row, cells in model.scan(plan, b"", b"")
    ]


def check_scan(sources_now: Callable[[], View], plan: ScanPlan, model: Model, case: str) -> Sequence[ScanAnswer]:
    """Compares a scan with the model, also in the order of each row's columns; returns its answers."""
    rows_at = (RowsAt((b"", b""), model.read_point),)
    answers = list(scan(sources_now, plan, rows_at, window_bytes=5, reading=lambda: Reading.CACHED))
    found = [row for answer in answers for row in rows_of(answer)]
    expected = rows_in_model(model, plan)
    assert found == expected, case
    assert [list(columns) for _, columns in found] == [list(columns) for _, columns in expected], case
    return answers


def counted(answers: Sequence[ScanAnswer]) -> Counter[str]:
    return Counter("row by row" if isinstance(answer.rows, NewestRows) else "windows" for answer in answers)


def test_rows_read_one_by_one_are_those_of_the_model() -> None:
    answers: Counter[str] = Counter()
    for case in CASES:
        generator = generator_of(case)
        model = random_model(generator)
        view = random_stores(model, generator)
        if generator.random() < 0.8:
            for source in [source for _, sources in view for source in sources]:
                source.away_from = 1 << 30
        ranges = tuple(random_range(generator) for _ in range(generator.choice([0, 0, 1, 3])))
        ranges = tuple((start, stop) for start, stop in ranges if not stop or start <= stop)
        plan = ScanPlan(random_columns(generator), ranges, row_limit=generator.choice([0, 1, 2, 5]), newest_rows=True)
        answers += counted(check_scan(lambda view=view: view, plan, model, f"case {case}"))  # type: ignore[misc]
    # The cases would prove little if the windows answered most of them.
    assert answers["row by row"] > len(CASES) / 2, answers
    assert answers["windows"] > len(CASES) / 50, answers


def test_rows_of_real_sources_are_those_of_the_model(tmp_path: Path) -> None:
    answers: Counter[str] = Counter()
    for case in REAL_CASES:
        generator = generator_of(case)
        folder = tmp_path / str(case)
        folder.mkdir()
        open_files = OpenFiles(Files())
        model = random_model(generator)
        view = [*sources_of(model, folder, generator, open_files).values()]
        for row_limit in (0, 1, 3, 5):
            plan = ScanPlan(random_columns(generator), row_limit=row_limit, newest_rows=True)
            answers += counted(check_scan(lambda view=view: view, plan, model, f"case {case}"))  # type: ignore[misc]
        open_files.close_idle()
    assert answers["row by row"] > len(REAL_CASES) / 2, answers


def test_few_rows_of_a_source_are_those_of_its_other_reads(tmp_path: Path) -> None:
    forms: Counter[str] = Counter()
    for case in REAL_CASES:
        generator = generator_of(case)
        folder = tmp_path / str(case)
        folder.mkdir()
        open_files = OpenFiles(Files())
        model = random_model(generator)
        for _, sources in sources_of(model, folder, generator, open_files).values():
            for source in sources:
                start, stop = random_range(generator) if generator.random() < 0.5 else (b"", b"")
                if not stop or start <= stop:
                    columns = generator.choice([None, frozenset(generator.sample(QUALIFIERS, 2)), frozenset([b"-"])])
                    for rows_max, bytes_max in ((1, 1 << 20), (2, 1 << 20), (5, 1), (100, 1 << 20)):
                        wanted = FewWanted(rows_max, bytes_max, Reading.CACHED, columns)
                        forms += check_source(source, start, stop, wanted, f"case {case}")
        open_files.close_idle()
    assert min(forms["lines"], forms["cells"]) > len(REAL_CASES), forms


def check_source(source: Source, start: bytes, stop: bytes, wanted: FewWanted, case: str) -> Counter[str]:
    """Reads the rows of a range, a few at a time, and compares their cells; returns in which form they came."""
    forms: Counter[str] = Counter()
    found: list[bytes] = []
    after = start
    while True:
        few = source.few_rows(after, stop, wanted)
        assert few is not None, case
        assert few.rows or few.frontier is None, case
        for place, row in enumerate(few.rows):
            cells, of_row = list(few.cells_of(place)), source.row_cells(row)
            assert cells_wanted(cells, wanted) == cells_wanted(of_row, wanted), f"{case}, {row!r}"
            assert set(cells) <= set(of_row), f"{case}, {row!r}"
        if few.lines_of is not None:
            check_lines(few, source, wanted, case)
        forms["cells" if few.lines_of is None else "lines"] += 1
        found += few.rows
        if few.frontier is None:
            break
        assert few.rows[-1] < few.frontier, case
        after = few.frontier
    table = source.read_rows(start, stop, 1 << 30).table
    assert found == list(dict.fromkeys(table.column(0).to_pylist())), case
    return forms


def cells_wanted(cells: Sequence[FoundCell], wanted: FewWanted) -> list[FoundCell]:
    """Returns the cells of wanted columns, and the tombstones, which may hide them."""
    return [cell for cell in cells if wanted.columns is None or cell[0] in wanted.columns or cell[3] != PUT]


def check_lines(few: FewRows, source: Source, wanted: FewWanted, case: str) -> None:
    """The values of the lines are those of the cells, whatever many of the rows are asked for."""
    assert few.lines_of is not None
    assert few.facts is not None
    for count in {1, len(few.rows)}:
        lines = few.lines_of(count)
        assert len(lines.of_rows) == count, case
        for row, values in zip(few.rows, lines.of_rows, strict=False):
            cells = cells_wanted(source.row_cells(row), wanted)
            present = [each for each in zip(lines.qualifiers, values, strict=True) if each[1] is not None]
            assert present == [(cell[0], cell[4]) for cell in cells], f"{case}, {row!r}"
            assert lines.has_nulls or len(present) == len(values), case
            assert all(-cell[2] <= few.facts.write_number_max for cell in cells), case
            assert all(-cell[1] >= few.facts.timestamp_min for cell in cells), case
