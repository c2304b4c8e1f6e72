"""Rows that each batch of a scan reads from their blocks by itself."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pytest
from rowlock_regionserver.arrow.columns import Column, binary_array, cells_table
from rowlock_regionserver.arrow.line_values import fixed_size
from rowlock_regionserver.arrow.lines import Lines
from rowlock_regionserver.cells import Compression, Family, ReadPoint
from rowlock_regionserver.errors import CorruptionError
from rowlock_regionserver.files import Files
from rowlock_regionserver.memstore.arrow_segment import ArrowSegment
from rowlock_regionserver.operations import ColumnComparison, CompareOp, FormColumn, FormPart, ScanPlan, Selection
from rowlock_regionserver.scan import scanner
from rowlock_regionserver.scan.batches import Batches, ScanAnswer
from rowlock_regionserver.scan.form_rows import of_lines
from rowlock_regionserver.scan.row_form import RowLayout
from rowlock_regionserver.scan.scanner import Scan, scan
from rowlock_regionserver.scan.unread_rows import UnreadRows
from rowlock_regionserver.sources import LinesWanted, Source
from rowlock_regionserver.storefile import format as layout
from rowlock_regionserver.storefile import shares
from rowlock_regionserver.storefile.cache import BlockCache
from rowlock_regionserver.storefile.info import StoreFileInfo
from rowlock_regionserver.storefile.stored_block import StoredBlocks
from rowlock_regionserver.storefile.wide_blocks import WideBlocks
from rowlock_regionserver.storefile.wide_run import WideRun

from tests.unit.scan.whole_scans import all_rows_at
from tests.unit.storefile.store_file_case import Case
from tests.unit.storefile.test_wide_blocks import chunks_of, written

_COUNT = 8000
_WIDTHS = (90, 33, 80)
_NAMES = (b"a", b"b", b"c")
_LINE_BYTES = sum(_WIDTHS)
_BLOCK_BYTES = 16 * 1024
_BATCH_BYTES = 100_000
_WINDOW_BYTES = 200_000
# As cells, or in row form.
_CELLS = ScanPlan(lines=True, batch_bytes=_BATCH_BYTES)
_FORM = ScanPlan(
    row_form=tuple([FormColumn(b"f", name, part) for name in reversed(_NAMES) for part in FormPart]),
    fixed_size=True,
    compressed=True,
    batch_bytes=_BATCH_BYTES,
)
_NOW = ReadPoint(100, 1 << 40)

# Row, qualifier, timestamp and value.
AnsweredCell: TypeAlias = tuple[bytes | None, bytes, int | None, bytes | None]


@pytest.fixture
def case(tmp_path: Path) -> Iterator[Case]:
    case = Case(tmp_path, Files())
    case.family = replace(case.family, block_bytes=_BLOCK_BYTES // 2)
    yield case
    case.close()


@pytest.fixture(autouse=True)
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets batches of a few blocks be read one by one."""
    monkeypatch.setattr(scanner, "COMPRESSED_BYTES_MIN", 1)
    monkeypatch.setattr(scanner, "UNREAD_BYTES_MIN", _BATCH_BYTES)


def random_column(width: int, seed: int, count: int = _COUNT) -> Column:
    """Returns values that don't shrink."""
    return fixed_size(width, count, None, pa.py_buffer(np.random.default_rng(seed).bytes(width * count)))


def random_lines() -> Lines:
    rows = binary_array([b"k%06d" % number for number in range(_COUNT)])
    columns = tuple([random_column(width, seed) for seed, width in enumerate(_WIDTHS)])
    return Lines(rows, np.arange(_COUNT).reshape(1, -1) + 5, np.full((1, 1), 7), _NAMES, columns)


@pytest.fixture(scope="module")
def lines() -> Lines:
    return random_lines()


class Views:
    """The sources of one family, and how often a scan asked for them: once a window."""

    def __init__(self, case: Case, *sources: Source) -> None:
        self._family = case.family
        self._sources = list(sources)
        self.others: list[tuple[Family, Sequence[Source]]] = []
        self.count = 0

    def __call__(self) -> list[tuple[Family, Sequence[Source]]]:
        self.count += 1
        return [(self._family, self._sources), *self.others]

    def answers(self, plan: ScanPlan, read_point: ReadPoint = _NOW) -> Scan:
        return scan(self, plan, all_rows_at(read_point), window_bytes=_WINDOW_BYTES)


def cells_of(answers: Iterable[ScanAnswer], plan: ScanPlan) -> list[AnsweredCell]:
    """Returns the cells of the answers, which are rows in columns or cells."""
    cells: list[AnsweredCell] = []
    for answer in answers:
        columns = answer.columns or plan.row_form
        elements = [column.to_pylist() for column in answer.table.columns]
        if columns is None:
            cells += [(row, name, stamp, value) for row, _, name, stamp, value in zip(*elements, strict=True)]
            continue
        of_columns = dict(zip(columns, elements[1:], strict=True))
        stamps = {column.qualifier: each for column, each in of_columns.items() if column.part is FormPart.TIMESTAMP}
        for place, row in enumerate(elements[0]):
            for name in _NAMES:
                # Without a form, one column of timestamps may be that of all.
                stamp = stamps.get(name, next(iter(stamps.values())))[place]
                cells.append((row, name, stamp, of_columns[FormColumn(b"f", name, FormPart.VALUE)][place]))
    return cells


def cells_of_lines(lines: Lines) -> list[AnsweredCell]:
    rows, stamps = lines.rows.to_pylist(), lines.timestamps[0].tolist()
    columns = [column.to_pylist() for column in lines.columns]
    return [
        (row, name, stamps[place], columns[column][place])
        for place, row in enumerate(rows)
        for column, name in enumerate(_NAMES)
    ]


BOTH = pytest.mark.parametrize("plan", [_CELLS, _FORM], ids=["cells", "form"])


@BOTH
@pytest.mark.parametrize(("start", "stop"), [(0, _COUNT), (123, 7001)])
def test_each_batch_reads_its_own_rows(
    case: Case, lines: Lines, unread: list[bool], plan: ScanPlan, start: int, stop: int
) -> None:
    _, run = written(case, lines)
    answers: list[ScanAnswer] = []
    before, row_count = run.statistics().block_read_bytes, 0
    for answer in Views(case, run).answers(replace(plan, ranges=((b"k%06d" % start, b"k%06d" % stop),))):
        answers.append(answer)
        row_count += answer.row_count
        # Beside the values these are keys, of a whole window, and the rest of the first block and of the last.
        keys = 4 * _WINDOW_BYTES // 10
        assert run.statistics().block_read_bytes - before <= row_count * (_LINE_BYTES + 16) + keys + 3 * _BLOCK_BYTES
    assert len(answers) >= (stop - start) * _LINE_BYTES // _BATCH_BYTES
    assert cells_of(answers, plan) == cells_of_lines(lines.slice(start, stop))
    assert unread
    assert all(unread)


@BOTH
def test_a_damaged_value_ends_a_scan_after_the_batches_before_it(case: Case, lines: Lines, plan: ScanPlan) -> None:
    info, run = written(case, lines)
    blocks = chunks_of(case, info)
    middle = len(blocks) // 2
    place, chunks = blocks[middle]
    damaged = place + layout.HEADER_BYTES + chunks.directory.starts[chunks.directory.form.columns[1].values]
    raw = bytearray(case.path.read_bytes())
    raw[damaged + 5] ^= 1
    case.path.write_bytes(raw)
    answers: list[ScanAnswer] = []
    with pytest.raises(CorruptionError) as raised:
        answers.extend(Views(case, run).answers(plan))
    assert raised.value.offset == damaged
    found = sum(answer.row_count for answer in answers)
    before = sum(chunks.directory.line_count for _, chunks in blocks[:middle])
    assert before - 1.1 * _BATCH_BYTES / _LINE_BYTES < found <= before
    assert cells_of(answers, plan) == cells_of_lines(lines.slice(0, found))


@pytest.fixture
def unread(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether the blocks of each window but of small ones are left unread."""
    found: list[bool] = []
    init = StoredBlocks.__init__

    def noted(self: StoredBlocks, *args: Any) -> None:
        init(self, *args)
        if len(self.numbers) >= 5:
            found.append(self.leaves_unread)

    monkeypatch.setattr(StoredBlocks, "__init__", noted)
    return found


def test_windows_of_rows_that_stay_unread_are_larger(case: Case, lines: Lines, unread: list[bool]) -> None:
    _, run = written(case, lines)
    views = Views(case, run)
    answers = views.answers(_FORM)
    assert sum(answer.row_count for answer in answers) == _COUNT
    assert unread
    assert all(unread)
    # The first windows are small.
    assert views.count <= _COUNT * _LINE_BYTES // (16 * _WINDOW_BYTES) + 3


def test_a_scan_counts_the_rows_that_it_has_read(case: Case, lines: Lines) -> None:
    _, run = written(case, lines)
    held = []
    for plan in (_FORM, replace(_FORM, batch_bytes=_BATCH_BYTES - 1)):
        answers = Views(case, run).answers(plan)
        held.append(max(answers.bytes_held for _ in answers))
    assert held[0] < 2.5 * _WINDOW_BYTES  # keys of small blocks, counted twice, and timestamps
    assert held[1] > 1.5 * _WINDOW_BYTES  # a window, and the part of it that the next batch begins with


@pytest.mark.parametrize(
    "plan",
    [
        replace(_FORM, reverse=True),
        replace(_FORM, row_limit=_COUNT),
        replace(_CELLS, row_limit=_COUNT),
        replace(_FORM, batch_bytes=_BATCH_BYTES - 1),
        replace(_FORM, selection=Selection(where=ColumnComparison(b"f", b"a", CompareOp.GREATER_OR_EQUAL, b""))),
    ],
    ids=["reverse", "limit", "limit of cells", "small batches", "filter"],
)
def test_other_scans_read_a_window_at_once(case: Case, lines: Lines, unread: list[bool], plan: ScanPlan) -> None:
    _, run = written(case, lines)
    found = cells_of(Views(case, run).answers(plan), plan)
    rows = [cell[0] for cell in found]
    assert rows == sorted(rows, reverse=plan.reverse)  # type: ignore[type-var]
    assert set(found) == set(cells_of_lines(lines))
    assert len(found) == len(_NAMES) * _COUNT
    assert unread
    assert not any(unread)


@BOTH
def test_rows_before_those_of_another_source_are_read_at_once(
    case: Case, lines: Lines, unread: list[bool], plan: ScanPlan
) -> None:
    _, run = written(case, lines)
    last = b"k%06d" % (_COUNT - 1)
    expected = [*cells_of_lines(lines)[: -len(_NAMES)], *[(last, name, 9_000, b"new") for name in _NAMES]]
    newer = ArrowSegment(cells_table([last], [[(name, -9_000, -50, 0, b"new") for name in _NAMES]]))
    assert cells_of(Views(case, run, newer).answers(plan), plan) == expected
    assert unread
    assert not any(unread)


def test_rows_after_those_of_another_source_stay_unread(case: Case, lines: Lines, unread: list[bool]) -> None:
    _, run = written(case, lines)
    first = b"k%06d" % 0
    newer = ArrowSegment(cells_table([first], [[(name, -9_000, -50, 0, b"new") for name in _NAMES]]))
    expected = [*[(first, name, 9_000, b"new") for name in _NAMES], *cells_of_lines(lines)[len(_NAMES) :]]
    assert cells_of(Views(case, run, newer).answers(_FORM), _FORM) == expected
    # The file's first windows are read before the other source has ended.
    assert unread[0] is False
    assert unread[-2:] == [True, True]


@BOTH
def test_rows_that_may_be_hidden_are_read_at_once(case: Case, lines: Lines, unread: list[bool], plan: ScanPlan) -> None:
    seen, unseen = (
        lines.slice(0, _COUNT // 2),
        replace(lines, write_numbers=np.full((1, 1), 8)).slice(_COUNT // 2, _COUNT),
    )
    _, run = written(case, seen, unseen)
    assert cells_of(Views(case, run).answers(plan, ReadPoint(7, 1 << 40)), plan) == cells_of_lines(seen)
    assert not any(unread)


def pieces_with_other_widths(lines: Lines) -> tuple[Lines, Lines]:
    """Returns two pieces, of which no block has rows of both."""
    longer = replace(lines, values=(random_column(91, 9), *lines.values[1:]))
    line_bytes = _LINE_BYTES + 11 + 8  # with the row, its offset, and the timestamp
    count = 51 * (_BLOCK_BYTES // line_bytes)
    return lines.slice(0, count), longer.slice(count, _COUNT)


def widths_of(case: Case, info: StoreFileInfo) -> set[tuple[int, ...]]:
    return {tuple(chunk.width for chunk in chunks.directory.form.chunks) for _, chunks in chunks_of(case, info)}


@BOTH
def test_a_window_of_blocks_with_other_widths_is_read_at_once(
    case: Case, lines: Lines, unread: list[bool], plan: ScanPlan
) -> None:
    pieces = pieces_with_other_widths(lines)
    info, run = written(case, *pieces)
    assert len(widths_of(case, info)) == 2
    assert cells_of(Views(case, run).answers(plan), plan) == [*cells_of_lines(pieces[0]), *cells_of_lines(pieces[1])]
    assert True in unread
    assert False in unread


def test_a_window_looks_for_keys_once(
    case: Case, lines: Lines, unread: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is cut where the widths change, and so has a second reader."""
    _, run = written(case, *pieces_with_other_widths(lines))
    looked_for: list[Sequence[int]] = []
    keys_or_directories = WideBlocks.keys_or_directories

    def noted(self: WideBlocks, numbers: Sequence[int]) -> object:
        looked_for.append(numbers)
        return keys_or_directories(self, numbers)

    monkeypatch.setattr(WideBlocks, "keys_or_directories", noted)
    views = Views(case, run)
    assert sum(answer.row_count for answer in views.answers(_FORM)) == _COUNT
    assert False in unread
    assert len(looked_for) <= views.count


def test_cached_blocks_with_other_widths_are_not_left_unread(
    case: Case, lines: Lines, monkeypatch: pytest.MonkeyPatch
) -> None:
    pieces = pieces_with_other_widths(lines)
    info, run = written(case, *pieces, cache=BlockCache(1 << 22))
    for row in pieces[1].rows.to_pylist()[::50]:
        assert row is not None
        assert run.row_cells(row)
    widths = [chunks.directory.form.chunks for _, chunks in chunks_of(case, info)]
    left_unread: list[range] = []
    init = StoredBlocks.__init__

    def noted(self: StoredBlocks, *args: Any) -> None:
        init(self, *args)
        if self.leaves_unread:
            left_unread.append(self.numbers)

    monkeypatch.setattr(StoredBlocks, "__init__", noted)
    assert cells_of(Views(case, run).answers(_FORM), _FORM) == [*cells_of_lines(pieces[0]), *cells_of_lines(pieces[1])]
    assert left_unread
    assert all(len({widths[number] for number in numbers}) == 1 for numbers in left_unread)


def test_a_window_of_narrow_rows_has_the_keys_of_a_window(case: Case, unread: list[bool]) -> None:
    """Their timestamps take as much as their values."""
    count = 60_000
    rows = binary_array([b"k%06d" % number for number in range(count)])
    values = random_column(24, 1, count)
    narrow = Lines(rows, np.arange(count).reshape(1, -1) + 5, np.full((1, 1), 7), (b"a",), (values,))
    _, run = written(case, narrow)
    plan = replace(_FORM, row_form=(FormColumn(b"f", b"a", FormPart.VALUE),))
    views = Views(case, run)
    assert sum(answer.row_count for answer in views.answers(plan)) == count
    assert unread
    assert all(unread)
    assert views.count >= count * 15 // _WINDOW_BYTES


def test_a_block_is_kept_and_counted_until_all_of_it_is_answered(case: Case, lines: Lines) -> None:
    _, run = written(case, lines)
    rows = unread_rows(run)
    keys_bytes = rows.bytes_held
    block = rows.lines.slices[1].block
    start, count = rows.lines.counts[0], rows.lines.counts[1]
    read_count = run.statistics().block_read_count
    parts = [rows.slice(start, count // 2).table()]
    assert rows.bytes_held - keys_bytes >= count * _LINE_BYTES
    parts.append(rows.slice(start + count // 2, count - count // 2).table())
    assert rows.bytes_held == keys_bytes
    assert block._chunks is None  # type: ignore[attr-defined]
    assert run.statistics().block_read_count - read_count == 1
    assert pa.concat_tables(parts).column(0).to_pylist() == lines.slice(start, start + count).rows.to_pylist()


@pytest.mark.parametrize("row", [b"k%06d", b"k%d"], ids=["rows of one length", "rows of several"])
def test_cached_blocks_are_kept_by_the_cache_only(case: Case, lines: Lines, row: bytes) -> None:
    lines = replace(lines, rows=binary_array(sorted(row % number for number in range(_COUNT))))
    _, run = written(case, lines, cache=BlockCache(1 << 22))
    for number in range(1, 12):
        run._blocks.block(number)
    rows = unread_rows(run)
    start, count = sum(rows.lines.counts[:3]), rows.lines.counts[3]
    for some, first in ((rows, 0), (rows.slice(start, count), start)):
        assert all(each.block._chunks is None for each in some.lines.slices)  # type: ignore[attr-defined]
        table = some.table()
        assert all(each.block._chunks is None for each in some.lines.slices)  # type: ignore[attr-defined]
        assert table.column(0).to_pylist() == lines.rows.slice(first, some.num_rows).to_pylist()


def test_rows_that_were_read_before_a_source_was_alone_are_in_their_batch(
    case: Case, lines: Lines, unread: list[bool]
) -> None:
    """The other source has a block around the range's start, and no row in the range: so it seems to have some."""
    _, run = written(case, lines)
    other_case = Case(case.folder / "other", Files(), case.family)
    other_case.folder.mkdir()
    rows = binary_array([b"k%06d!" % number for number in (*range(40), *range(_COUNT - 40, _COUNT))])
    columns = tuple([random_column(width, 20 + width, 80) for width in _WIDTHS])
    _, other = written(other_case, Lines(rows, np.full((1, 1), 5), np.full((1, 1), 8), _NAMES, columns))
    plan = replace(_FORM, ranges=((b"k%06d" % 100, b"k%06d" % 7000),))
    answers = Views(case, run, other).answers(plan)
    held = []
    found = []
    for answer in answers:
        held.append(answers.bytes_held)
        found.append(answer)
    other_case.close()
    assert cells_of(found, plan) == cells_of_lines(lines.slice(100, 7000))
    assert True in unread
    assert max(held) < 3 * _WINDOW_BYTES


def test_a_count_reads_many_blocks_at_once(case: Case, lines: Lines) -> None:
    """It needs neither rows nor values."""
    _, run = written(case, lines)
    views = Views(case, run)
    plan = replace(_FORM, row_form=(), without_keys=True)
    assert sum(answer.row_count for answer in views.answers(plan)) == _COUNT
    assert views.count <= 2


def test_a_column_of_a_family_without_rows_is_null(case: Case, lines: Lines, unread: list[bool]) -> None:
    assert _FORM.row_form is not None
    absent = [FormColumn(b"g", b"a", part) for part in FormPart]
    plan = replace(_FORM, row_form=(*absent, *_FORM.row_form))
    _, run = written(case, lines)
    views = Views(case, run)
    views.others.append((Family(2, b"g"), []))
    answers = list(views.answers(plan))
    assert cells_of(answers, plan) == cells_of_lines(lines)
    assert all(answer.table.column(place).null_count == answer.row_count for answer in answers for place in (1, 2))
    assert unread
    assert all(unread)
    assert views.count <= _COUNT * _LINE_BYTES // (4 * _WINDOW_BYTES) + 3


def test_a_column_that_the_table_lacks_is_null(case: Case, lines: Lines, unread: list[bool]) -> None:
    assert _FORM.row_form is not None
    plan = replace(_FORM, row_form=(FormColumn(b"f", b"z", FormPart.VALUE), *_FORM.row_form))
    _, run = written(case, lines)
    answers = list(Views(case, run).answers(plan))
    assert cells_of(answers, plan) == cells_of_lines(lines)
    assert sum(answer.table.column(1).null_count for answer in answers) == _COUNT
    assert unread
    assert not any(unread)


def test_rows_of_many_columns_may_have_to_become_cells(
    case: Case, lines: Lines, unread: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scanner, "COLUMNS_MAX", len(_NAMES) - 1)
    _, run = written(case, lines)
    assert cells_of(Views(case, run).answers(_CELLS), _CELLS) == cells_of_lines(lines)
    assert unread
    assert not any(unread)


def test_large_blocks_are_not_left_unread(
    case: Case, lines: Lines, unread: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A part of a block that is answered keeps the whole block in memory."""
    monkeypatch.setattr(shares, "_UNREAD_BLOCK_BYTES_MAX", _BLOCK_BYTES // 2)
    _, run = written(case, lines)
    assert cells_of(Views(case, run).answers(_FORM), _FORM) == cells_of_lines(lines)
    assert unread
    assert not any(unread)


def test_blocks_that_are_cached_are_answered_from_there(case: Case, lines: Lines, unread: list[bool]) -> None:
    info, run = written(case, lines, cache=BlockCache(1 << 20))
    for row in (b"k000050", b"k004000"):
        assert run.row_cells(row)
    assert cells_of(Views(case, run).answers(_FORM), _FORM) == cells_of_lines(lines)
    # Each block once, by the gets or by the scan.
    assert run.statistics().block_read_count == info.wide_block_count
    assert unread
    assert all(unread)


def test_compressed_blocks_after_plain_ones_are_not_left_unread(case: Case, lines: Lines, unread: list[bool]) -> None:
    case.family = replace(case.family, compression=Compression.ZSTD)
    alike = replace(lines, values=(fixed_size(90, _COUNT, None, pa.py_buffer(bytes(90 * _COUNT))), *lines.values[1:]))
    pieces = lines.slice(0, _COUNT // 2), alike.slice(_COUNT // 2, _COUNT)
    _, run = written(case, *pieces)
    found = cells_of(Views(case, run).answers(_FORM), _FORM)
    assert found == [*cells_of_lines(pieces[0]), *cells_of_lines(pieces[1])]
    assert True in unread
    assert False in unread


def unread_rows(run: WideRun) -> UnreadRows:
    """Returns a window of the run's first rows."""
    wanted = LinesWanted(compressed=True, unread_columns_max=100)
    found = run.read_rows(b"", b"", _WINDOW_BYTES, lines=wanted).lines
    assert found is not None
    form = RowLayout(_FORM.row_form or (), fixed_size=True)
    rows = of_lines(found, form.families[b"f"]).answer(form, reverse=False)
    assert isinstance(rows, UnreadRows)
    return rows


@pytest.mark.parametrize("are_keys", [False, True])
def test_rows_of_two_windows_with_other_columns_are_joined_when_they_are_read(
    case: Case, lines: Lines, tmp_path_factory: pytest.TempPathFactory, *, are_keys: bool
) -> None:
    longer = replace(lines, values=(random_column(91, 9), *lines.values[1:]))
    if are_keys:
        longer = replace(lines, rows=binary_array([b"key%06d" % number for number in range(_COUNT)]))
    first, again = (unread_rows(written(case, lines)[1]) for _ in range(2))
    other_case = Case(tmp_path_factory.mktemp("other"), Files())
    other_case.family = case.family
    other = unread_rows(written(other_case, longer)[1])
    count = first.num_rows
    assert other.num_rows > 100
    batches = Batches(1 << 30, 1 << 30)
    for rows in (first, again, other):
        assert not list(batches.add(rows, np.arange(rows.num_rows)))
    [answer] = batches.drain()
    expected = [*2 * cells_of_lines(lines.slice(0, count)), *cells_of_lines(longer.slice(0, other.num_rows))]
    assert cells_of([answer], _FORM) == expected
    other_case.close()
