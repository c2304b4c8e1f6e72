"""Random tables, sources and plans: gets and scans answer what a plain model of all writes answers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st
from rowlock_regionserver.cells import (
    ANSWER_SCHEMA,
    DELETE_COLUMN,
    DELETE_FAMILY,
    DELETE_VERSION,
    NEWEST,
    PUT,
    Family,
    ReadPoint,
)
from rowlock_regionserver.errors import FilterTypeError
from rowlock_regionserver.operations import (
    AllOf,
    AnswerCell,
    AnyOf,
    CellFilter,
    ColumnComparison,
    ColumnIn,
    ColumnPattern,
    ColumnPresence,
    ColumnSelector,
    CompareOp,
    NotOf,
    PatternKind,
    RowComparison,
    RowFilter,
    RowPrefix,
    ScanPlan,
    Selection,
    ValueType,
)
from rowlock_regionserver.scan.batches import CELL_BYTES
from rowlock_regionserver.scan.point import read_row
from rowlock_regionserver.scan.scanner import ScanAnswer, scan
from rowlock_regionserver.scan.windows import View

from tests.property.scan_model import ListSource, MisfitError, Model, Write

NOW = 40

rows = st.sampled_from([b"a", b"a\x00", b"ab", b"b", b"b\xff", b"c", b"\xff", b"\xff\xff"])
qualifiers = st.sampled_from([b"", b"p", b"q", b"qq", b"\xff"])
family_names = st.sampled_from([b"B", b"f", b"g"])
values = st.sampled_from([b"", b"a", b"b", b"7", b"-12", b"\x00\x01", b"\xff\xff", b"ab"])
timestamps = st.integers(0, 50)


@st.composite
def models(draw: st.DrawFn) -> Model:
    names = draw(st.lists(family_names, min_size=1, max_size=3, unique=True))
    families = tuple(
        Family(
            number,
            name,
            versions=draw(st.integers(1, 3)),
            min_versions=draw(st.integers(0, 1)),
            time_to_live_ms=draw(st.sampled_from([0, 0, 15])),
        )
        for number, name in enumerate(names)
    )
    kinds = st.sampled_from([PUT, PUT, PUT, PUT, DELETE_VERSION, DELETE_COLUMN, DELETE_FAMILY])
    numbers = st.integers(1, 8)
    written: dict[tuple[object, ...], Write] = {}
    for _ in range(draw(st.integers(0, 40))):
        kind = draw(kinds)
        write = Write(
            draw(rows),
            draw(st.sampled_from(names)),
            b"" if kind == DELETE_FAMILY else draw(qualifiers),
            draw(timestamps),
            draw(numbers),
            kind,
            draw(values) if kind == PUT else b"",
        )
        # A write number holds one cell of a column, timestamp and kind: batches are collapsed before they are applied.
        written[(write.row, write.family, write.qualifier, write.timestamp, write.write_number, kind)] = write
    read_point = ReadPoint(draw(st.sampled_from([NEWEST, 8, 5, 0])), NOW)
    return Model(families, tuple(written.values()), read_point)


operations = st.sampled_from(CompareOp)
# Operands that fit each type the model knows.
typed_operands = st.one_of(
    st.tuples(st.just(ValueType.BYTES), values),
    st.tuples(st.just(ValueType.INT16), st.sampled_from([b"\x00\x01", b"\xff\xff", b"\x00\x00"])),
    st.tuples(st.just(ValueType.TEXT_INT), st.sampled_from([b"7", b"-12", b"0"])),
)
leaves: st.SearchStrategy[RowFilter] = st.one_of(
    st.builds(RowPrefix, st.sampled_from([b"", b"a", b"b", b"\xff"])),
    st.builds(RowComparison, operations, rows | st.just(b"")),
    st.builds(ColumnPresence, family_names, qualifiers, st.booleans()),
    st.builds(ColumnIn, family_names, qualifiers, st.frozensets(values, max_size=3)),
    st.builds(ColumnPattern, family_names, qualifiers, st.sampled_from(PatternKind), values),
    st.builds(
        lambda family, qualifier, op, typed: ColumnComparison(family, qualifier, op, typed[1], typed[0]),
        family_names,
        qualifiers,
        operations,
        typed_operands,
    ),
)


def combined(parts: st.SearchStrategy[RowFilter]) -> st.SearchStrategy[RowFilter]:
    lists = st.lists(parts, max_size=3).map(tuple)
    return st.one_of(lists.map(AllOf), lists.map(AnyOf), parts.map(NotOf))


filters = st.recursive(leaves, combined, max_leaves=5)
bounds = st.one_of(st.just(b""), rows, rows.map(lambda row: row + b"\x00"))


@st.composite
def cell_filters(draw: st.DrawFn) -> CellFilter:
    value_type, operand = draw(typed_operands)
    optional = st.none() | qualifiers
    return CellFilter(
        draw(optional),
        draw(optional),
        draw(optional),
        draw(st.none() | operations),
        operand,
        value_type,
        draw(st.booleans()),
        draw(st.booleans()),
        draw(st.sampled_from([0, 0, 1, 2])),
        draw(st.sampled_from([0, 0, 1, 2])),
    )


@st.composite
def selections(draw: st.DrawFn) -> Selection:
    columns = st.lists(st.builds(ColumnSelector, family_names, st.none() | qualifiers), max_size=3).map(tuple)
    start, stop = draw(st.sampled_from([(0, 0), (0, 0), (10, 0), (0, 30), (10, 30), (20, 20)]))
    return Selection(
        draw(st.just(()) | columns),
        start,
        stop,
        draw(st.integers(1, 3)),
        draw(st.none() | filters),
        draw(st.just(CellFilter()) | cell_filters()),
    )


@st.composite
def plans(draw: st.DrawFn) -> ScanPlan:
    return ScanPlan(
        draw(selections()),
        tuple(draw(st.lists(st.tuples(bounds, bounds), max_size=3))),
        draw(st.sampled_from([0, 0, 1, 2, 5])),
        draw(st.booleans()),
        draw(st.sampled_from([1, 70, 200, 1 << 20])),
        draw(st.sampled_from([1, 2, 50_000])),
    )


@st.composite
def stores(draw: st.DrawFn, model: Model) -> list[tuple[Family, list[ListSource]]]:
    """The model's writes dealt out to sources, families in any order."""
    result = []
    for family in draw(st.permutations(model.families)):
        hands: list[list[Write]] = [[] for _ in range(draw(st.integers(1, 3)))]
        for write in model.writes:
            if write.family == family.name:
                hands[draw(st.integers(0, len(hands) - 1))].append(write)
        sources = [ListSource(hand, in_chunks=draw(st.booleans()), is_eager=draw(st.booleans())) for hand in hands]
        result.append((family, sources))
    return result


def answered(answers: Sequence[ScanAnswer]) -> Iterator[tuple[bytes, AnswerCell]]:
    for answer in answers:
        for cell in answer.table.to_pylist():
            yield cell["row"], (cell["family"], cell["qualifier"], cell["timestamp"], cell["value"])


def scanned(
    sources_now: Callable[[], View], plan: ScanPlan, model: Model, start: bytes, stop: bytes, window_bytes: int
) -> tuple[list[ScanAnswer], bytes | None]:
    """The scan's batches, and the row at which it found a misfit."""
    answers = []
    try:
        for answer in scan(sources_now, plan, start, stop, model.read_point, window_bytes=window_bytes):
            answers.append(answer)
    except FilterTypeError as error:
        return answers, error.row
    return answers, None


@settings(max_examples=200, deadline=None)
@given(st.data(), models(), plans(), bounds, bounds, st.sampled_from([1, 2, 5, 1 << 20]))
def test_scan_answers_what_the_model_answers(
    data: st.DataObject, model: Model, plan: ScanPlan, start: bytes, stop: bytes, window_bytes: int
) -> None:
    view = data.draw(stores(model))
    answers, misfit = scanned(lambda: view, plan, model, start, stop, window_bytes)
    expected: list[tuple[bytes, list[AnswerCell]]] = []
    expected_misfit = None
    try:
        for row in model.scan(plan, start, stop):
            expected.append(row)
    except MisfitError as error:
        expected_misfit = error.row
    assert misfit == expected_misfit
    cells = list(answered(answers))
    wanted = [(row, cell) for row, of_row in expected for cell in of_row]
    if misfit is None:
        assert cells == wanted
        assert sum(answer.row_count for answer in answers) == len(expected)
        event(f"rows answered: {min(len(expected), 3)}")
    else:
        assert cells == wanted[: len(cells)]
        event("a misfit ended the scan")
    check_batches(answers, plan)


def check_batches(answers: Sequence[ScanAnswer], plan: ScanPlan) -> None:
    """Sizes, whole rows and counts of each batch."""
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
        assert not ended & set(row_bytes), "a row goes on in a batch after the one that ended it"
        last = cells[-1]["row"]
        if answer.row_continues:
            assert len(row_bytes) == 1, "only a row that is larger than a batch is cut"
            assert answers[number + 1].table.column("row")[0].as_py() == last
        assert answer.row_count == len(row_bytes) - answer.row_continues
        ended |= set(row_bytes) - ({last} if answer.row_continues else set())


@settings(max_examples=200, deadline=None)
@given(st.data(), models(), selections())
def test_get_answers_what_the_model_answers(data: st.DataObject, model: Model, selection: Selection) -> None:
    by_number = {family.number: (family, sources) for family, sources in data.draw(stores(model))}
    for row in [*model.rows(), b"absent"]:
        try:
            expected = model.row(row, selection)
        except MisfitError:
            with pytest.raises(FilterTypeError) as raised:
                read_row(by_number, row, selection, model.read_point)
            assert raised.value.row == row
        else:
            assert read_row(by_number, row, selection, model.read_point) == expected, row


@settings(max_examples=100, deadline=None)
@given(st.data(), models(), plans(), st.sampled_from([1, 2, 5]))
def test_scan_goes_on_when_its_sources_change(
    data: st.DataObject, model: Model, plan: ScanPlan, window_bytes: int
) -> None:
    """Between any two windows, all cells may move to other sources, and writes beyond the read point may come."""
    views = data.draw(st.lists(stores(model), min_size=2, max_size=3))
    choices = data.draw(st.lists(st.integers(0, len(views) - 1), min_size=1, max_size=6))
    asked = 0

    def sources_now() -> View:
        nonlocal asked
        asked += 1
        return views[choices[asked % len(choices)]]

    answers, misfit = scanned(sources_now, plan, model, b"", b"", window_bytes)
    fixed, fixed_misfit = scanned(lambda: views[0], plan, model, b"", b"", 1 << 20)
    assert misfit == fixed_misfit
    if misfit is None:
        assert list(answered(answers)) == list(answered(fixed))
