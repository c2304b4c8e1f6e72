"""Random tables, sources and plans: gets and scans give the answers of a plain model of all writes.

Each case is made from the run's seed and its number; a failure names both, and `check_scan(case)` or so replays it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial

import pyarrow as pa
import pytest
from rowlock_regionserver.cells import ANSWER_SCHEMA
from rowlock_regionserver.errors import FilterTypeError
from rowlock_regionserver.found_cells import loaded
from rowlock_regionserver.operations import AnswerCell, FormColumn, FormPart, ScanPlan, Selection
from rowlock_regionserver.scan.line_answer import LineForm
from rowlock_regionserver.scan.point import read_row
from rowlock_regionserver.scan.ranges import RowsAt
from rowlock_regionserver.scan.row_answers import point_answer
from rowlock_regionserver.scan.row_form import RowLayout
from rowlock_regionserver.scan.scanner import ScanAnswer, scan
from rowlock_regionserver.scan.wide_rows import RowReading
from rowlock_regionserver.scan.window_split import View

from tests.drawn_cases import case_count
from tests.property.scan_cases import (
    random_model,
    random_plan,
    random_range,
    random_row_form,
    random_selection,
    random_stores,
)
from tests.property.scan_model import MismatchError, Model
from tests.seeds import generator_of
from tests.unit.scan.whole_scans import CELL_BYTES

ALL_CASES = range(500)
CASES = ALL_CASES[: case_count(len(ALL_CASES), 60)]


def answered(answers: Sequence[ScanAnswer]) -> Iterator[tuple[bytes, AnswerCell]]:
    for answer in answers:
        for cell in answer.table.to_pylist():
            yield cell["row"], (cell["family"], cell["qualifier"], cell["timestamp"], cell["value"])


def scanned(
    sources_now: Callable[[], View], plan: ScanPlan, model: Model, start: bytes, stop: bytes, window_bytes: int
) -> tuple[list[ScanAnswer], bytes | None]:
    """Returns the scan's batches, and the row at which it found a mismatch."""
    answers = []
    try:
        for answer in scan(sources_now, plan, (RowsAt((start, stop), model.read_point),), window_bytes=window_bytes):
            answers.append(answer)
    except FilterTypeError as error:
        return answers, error.row
    return answers, None


def check_all(check: Callable[[int], str], answered_min: float) -> None:
    """Checks all cases. They would prove little if most answers were empty, or if none had a mismatch."""
    endings: Counter[str] = Counter()
    for case in ALL_CASES:
        if case >= len(CASES) and endings["answered"] > answered_min * len(CASES):
            break  # A few runs have few answers at first.
        endings[check(case)] += 1
    assert endings["answered"] > answered_min * len(CASES), endings
    # Few cases have one, so a few runs have none so far.
    more = iter(range(endings.total(), 5000))
    while not endings["mismatch"]:
        endings[check(next(more))] += 1


def test_scan_answers_what_the_model_answers() -> None:
    check_all(check_scan, 1 / 6)


def test_row_form_lays_out_what_the_model_answers() -> None:
    check_all(check_row_form, 1 / 6)


def test_lines_are_answered_as_the_model_answers() -> None:
    check_all(partial(check_row_form, of_lines=True), 1 / 2)


def laid_out(row: bytes, cells: Sequence[AnswerCell], form: Sequence[FormColumn]) -> tuple[object, ...]:
    """Returns the line of a row in row form: the first cell of each column."""
    line: list[object] = [row]
    for column in form:
        found = [cell for cell in cells if cell[:2] == (column.family, column.qualifier)]
        line.append(found[0][3 if column.part is FormPart.VALUE else 2] if found else None)
    return tuple(line)


def check_row_form(case: int, *, of_lines: bool = False) -> str:
    """Compares one scan in row form with the model; returns how it ended. `of_lines`: of a plan that takes lines."""
    generator = generator_of(case)
    model, plan = random_model(generator), random_plan(generator)
    if of_lines:
        where = plan.selection.where if generator.random() < 0.5 else None
        plan = replace(plan, selection=Selection(where=where), fixed_size=generator.random() < 0.5)
    form = random_row_form(generator, plan.selection)
    plan = replace(plan, row_form=form)
    assert not of_lines or LineForm.of(plan.selection, RowLayout(form)) is not None
    view = random_stores(model, generator)
    window_bytes = generator.choice([1, 2, 5, 1 << 20])
    expected = []
    expected_mismatch = None
    try:
        for row, cells in model.scan(plan, b"", b""):
            expected.append(laid_out(row, cells, form))
    except MismatchError as error:
        expected_mismatch = error.row
    answers, mismatch = scanned(lambda: view, plan, model, b"", b"", window_bytes)
    assert mismatch == expected_mismatch, f"case {case}"
    lines = []
    for answer in answers:
        answer.table.validate(full=True)
        assert answer.table.schema.names == ["row", *map(str, range(len(form)))], f"case {case}"
        assert 0 < answer.row_count == answer.table.num_rows <= plan.batch_rows, f"case {case}"
        # A column of fixed size that becomes binary, because other parts of the batch are, gets offsets too.
        offset_bytes = 4 * len(form) * answer.row_count if plan.fixed_size else 0
        assert answer.row_count == 1 or line_bytes(answer.table) <= plan.batch_bytes + offset_bytes, f"case {case}"
        assert not answer.row_continues, f"case {case}"
        lines += list(zip(*[column.to_pylist() for column in answer.table.columns], strict=True))
    if mismatch is not None:
        assert lines == expected, f"case {case}"
        return "mismatch"
    assert lines == expected, f"case {case}"
    return "answered" if expected else "nothing"


def line_bytes(table: pa.Table) -> int:
    """Returns the table's bytes as batches count them: for each cell an offset or a number, and the bytes."""
    return sum(
        4 + len(value or b"") if kind == pa.binary() else kind.byte_width
        for column, kind in zip(table.columns, table.schema.types, strict=True)
        for value in column.to_pylist()
    )


def check_scan(case: int) -> str:
    """Compares one scan with the model; returns how it ended."""
    generator = generator_of(case)
    model, plan = random_model(generator), random_plan(generator)
    view = random_stores(model, generator)
    start, stop = random_range(generator) if generator.random() < 0.2 else (b"", b"")
    window_bytes = generator.choice([1, 2, 5, 1 << 20])
    expected: list[tuple[bytes, list[AnswerCell]]] = []
    expected_mismatch = None
    try:
        for of_row in model.scan(plan, start, stop):
            expected.append(of_row)
    except MismatchError as error:
        expected_mismatch = error.row
    answers, mismatch = scanned(lambda: view, plan, model, start, stop, window_bytes)
    assert mismatch == expected_mismatch, f"case {case}"
    if mismatch is not None:
        # Whole rows before the mismatch come first, and perhaps the beginning of its row.
        whole = [(row, cell) for row, cell in answered(answers) if row != mismatch]
        assert whole == [(row, cell) for row, cells in expected for cell in cells], f"case {case}"
        return "mismatch"
    check_batches(answers, plan)
    assert list(answered(answers)) == [(row, cell) for row, cells in expected for cell in cells], f"case {case}"
    assert sum(answer.row_count for answer in answers) == len(expected), f"case {case}"
    return "answered" if expected else "nothing"


def check_batches(answers: Sequence[ScanAnswer], plan: ScanPlan) -> None:
    """Checks sizes, whole rows and counts of the batches of a complete scan."""
    ended: set[bytes] = set()
    for number, answer in enumerate(answers):
        assert answer.table.schema.equals(ANSWER_SCHEMA)
        answer.table.validate(full=True)
        assert answer.table.num_rows > 0
        cells = answer.table.to_pylist()
        row_bytes: dict[bytes, int] = {}
        for cell in cells:
            size = sum(len(cell[name]) for name in ("row", "family", "qualifier", "value")) + CELL_BYTES
            row_bytes[cell["row"]] = row_bytes.get(cell["row"], 0) + size
        assert len(row_bytes) <= plan.batch_rows
        assert sum(row_bytes.values()) <= plan.batch_bytes or len(cells) == 1
        assert not ended & set(row_bytes), "a row continues in a batch after the one that ended it"
        last = cells[-1]["row"]
        if answer.row_continues:
            assert len(row_bytes) == 1, "only a row that is larger than a batch is cut"
            assert answers[number + 1].table.column("row")[0].as_py() == last
        assert answer.row_count == len(row_bytes) - answer.row_continues
        ended |= set(row_bytes) - ({last} if answer.row_continues else set())


def test_get_answers_what_the_model_answers() -> None:
    for case in CASES:
        check_get(case)


def check_get(case: int) -> None:
    """Compares a get of each row with the model: of the whole row, and in parts like a long row."""
    generator = generator_of(case)
    model, selection = random_model(generator), random_selection(generator)
    by_number = {family.number: (family, sources) for family, sources in random_stores(model, generator)}
    by_name = sorted(by_number.values(), key=lambda store: store[0].name)
    for row in [*model.rows(), b"absent"]:

        def at_once(row: bytes = row) -> list[AnswerCell]:
            return [(*cell[:3], loaded(cell[3])) for cell in read_row(by_number, row, selection, model.read_point)]

        def in_parts(row: bytes = row) -> list[AnswerCell]:
            reading = RowReading(row, by_name, model.read_point, selection, generator.choice([1, 50, 200, 1 << 20]))
            return [cell for cells in point_answer(reading) for cell in cells]

        for way in (at_once, in_parts):
            try:
                expected = model.row(row, selection)
            except MismatchError:
                with pytest.raises(FilterTypeError) as raised:
                    way()
                assert raised.value.row == row, f"case {case}"
            else:
                assert way() == expected, f"case {case}, row {row!r}, {way.__name__}"


def test_scan_continues_when_its_sources_change() -> None:
    for case in CASES[: case_count(150, 20)]:
        check_moving_scan(case)


def check_moving_scan(case: int) -> None:
    """Compares a scan with one whose cells may all move to other sources between windows."""
    generator = generator_of(case)
    model, plan = random_model(generator), random_plan(generator)
    views = [random_stores(model, generator) for _ in range(3)]
    fixed, fixed_mismatch = scanned(lambda: views[0], plan, model, b"", b"", 1 << 20)
    moving, mismatch = scanned(lambda: generator.choice(views), plan, model, b"", b"", generator.choice([1, 2, 5]))
    assert mismatch == fixed_mismatch, f"case {case}"
    if mismatch is None:
        assert list(answered(moving)) == list(answered(fixed)), f"case {case}"
