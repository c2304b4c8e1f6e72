"""The retained cells of several sources come in small tables, with a pause between them."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa
import pytest
from rowlock_regionserver.arrow import merge
from rowlock_regionserver.arrow.columns import cells_table
from rowlock_regionserver.arrow.line_forming import lines_of
from rowlock_regionserver.arrow.lines import Lines, cells_of
from rowlock_regionserver.arrow.sorted_cells import SortedCells
from rowlock_regionserver.arrow.sorted_run import SortedRun
from rowlock_regionserver.cells import DELETE_COLUMN, NEWEST, Cell, ProtectedReadPoints, from_then_on
from rowlock_regionserver.found_cells import NO_LIMIT, AwayValue
from rowlock_regionserver.memstore.arrow_segment import ArrowSegment
from rowlock_regionserver.memstore.lines_segment import LinesSegment
from rowlock_regionserver.memstore.row_segment import RowSegment
from rowlock_regionserver.scan import source_chunks
from rowlock_regionserver.scan.retained_tables import retained_tables
from rowlock_regionserver.scan.source_chunks import SourceChunks, Step
from rowlock_regionserver.sources import Chunk, LinesWanted, Reading, Source
from rowlock_regionserver.versions.retention import Retention
from rowlock_regionserver.versions.retention_columns import retained

from tests.seeds import drawn_seed


def cell(write_number: int) -> Cell:
    return (b"q", -1, -write_number, 0, b"v" * 100)


EVERYTHING = Retention(from_then_on(0))  # every number is protected


def rows_of(table: pa.Table | Lines) -> list[bytes]:
    assert isinstance(table, pa.Table)
    return [row.as_py() for row in table.column("row")]


def test_a_pause_stands_between_windows_of_all_cells_in_order() -> None:
    rows = [b"%03d" % number for number in range(90)]
    written = RowSegment(1)
    for row in rows[::3]:
        written.apply(row, [cell(1)], lambda: from_then_on(0))
    written.seal()
    bulk = [ArrowSegment(cells_table(rows[first::3], [[cell(first + 1)]] * 30)) for first in (1, 2)]
    events: list[object] = []
    windows = retained_tables([written, *bulk], EVERYTHING, 1, 500, 500, between=lambda: events.append("pause"))
    for window in windows:
        events.append(window)
    tables = [event for event in events if isinstance(event, pa.Table)]
    assert [row for table in tables for row in rows_of(table)] == rows
    assert len(tables) > 10
    assert all(table.nbytes < 3000 for table in tables)
    assert events[1::2] == ["pause"] * len(tables)


def test_sources_that_are_merged_are_read_in_smaller_pieces_and_later_ones_only_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(source_chunks, "SOURCE_BYTES_MIN", 100)
    asked: dict[int, list[int]] = {}

    class Recorded(ArrowSegment):
        def read_rows(
            self,
            start: bytes,
            stop: bytes,
            bytes_max: int,
            row_bytes_max: int = NO_LIMIT,
            *,
            reverse: bool = False,
            lines: LinesWanted | None = None,
            reading: Reading = Reading.BULK,
        ) -> Chunk:
            asked.setdefault(id(self), []).append(bytes_max)
            return super().read_rows(start, stop, bytes_max, row_bytes_max, reverse=reverse)

    def segment(first: int, stop: int, write_number: int) -> Recorded:
        rows = [b"%03d" % number for number in range(first, stop)]
        return Recorded(cells_table(rows, [[cell(write_number)]] * len(rows)))

    alone = segment(0, 40, 1)
    three = [segment(40, 80, number) for number in (2, 3, 4)]
    tables = list(retained_tables([*three, alone], EVERYTHING, 1, 1200, 1500))
    assert [row for table in tables for row in rows_of(table)] == sorted(
        [*(b"%03d" % number for number in range(40)), *3 * [b"%03d" % number for number in range(40, 80)]]
    )
    assert max(asked[id(alone)]) == 1200
    for merged in three:
        assert asked[id(merged)][:2] == [100, 500], "what comes in is read a little, and then its share"


@pytest.mark.parametrize("timestamps", ["one for all", "one a line", "one a cell"])
def test_cells_of_lines_that_have_expired_are_dropped(timestamps: str) -> None:
    def cells_of_row(row: int) -> list[Cell]:
        first = 5 if timestamps == "one for all" else row
        second = 9 if timestamps == "one a cell" and row in (3, 4, 7) else first
        # Rows without the second cell have no number there.
        second_cell = [(b"b", -second, -row, 0, b"w" * row)] if row % 2 else []
        return [(b"a", -first, -1, 0, b"v"), *second_cell, (b"c", -first, -1, 0, b"" if row == 7 else b"x")]

    rows = [b"%d" % row for row in range(10)]
    written = cells_table(rows, [cells_of_row(row) for row in range(10)])
    lines, _ = lines_of(written)
    assert lines is not None
    assert len(lines.timestamps) == (3 if timestamps == "one a cell" else 1)
    for expired in range(-1, 10):
        found = []
        for piece in retained_tables([LinesSegment(lines)], Retention(from_then_on(1), True, expired), 1, 1000):
            assert isinstance(piece, Lines)
            piece.check()
            assert piece.has_cells().all()
            found += cells_of(piece).to_pylist()
        assert found == [each for each in written.to_pylist() if each["timestamp"] > expired], expired


@pytest.mark.parametrize(("horizon", "kept"), [(0, 10), (1, 5)])
def test_cells_of_lines_that_a_change_feed_retains_stay_although_they_have_expired(horizon: int, kept: int) -> None:
    rows = [b"%d" % row for row in range(10)]
    lines, _ = lines_of(
        cells_table(rows, [[(b"a", -row, -1, 0, b"v"), (b"b", -row, -1, 0, b"w")] for row in range(10)])
    )
    assert lines is not None
    retention = Retention(from_then_on(horizon), True, expired_through=4, retained_after=horizon)
    pieces = list(retained_tables([LinesSegment(lines)], retention, 1, 1000))
    tables = [cells_of(piece) if isinstance(piece, Lines) else piece for piece in pieces]
    assert sum(table.num_rows for table in tables) == 2 * kept


def test_windows_of_lines_grow_and_windows_of_cells_stay_small(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [b"%04d" % number for number in range(2000)]
    pieces = list(retained_tables([lines_segment(rows, [cell(1)])], EVERYTHING, 1, 1000, 4000))
    assert all(isinstance(piece, Lines) for piece in pieces)
    counts = [len(piece) for piece in pieces]
    assert counts[0] < 50
    assert counts == sorted(counts[:-1]) + counts[-1:], counts
    assert 6 * counts[0] < counts[-2] < 10 * counts[0], counts
    written = RowSegment(1)
    for row in rows:
        written.apply(row, [cell(1)], lambda: from_then_on(0))
    written.seal()
    read_rows, requested = written.read_rows, []

    def noted(start: bytes, stop: bytes, bytes_max: int, *rest: object, **named: object) -> Chunk:
        requested.append(bytes_max)
        return read_rows(start, stop, bytes_max, *rest, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(written, "read_rows", noted)
    assert sum(map(len, retained_tables([written], EVERYTHING, 1, 1000, 4000))) == len(rows)
    assert set(requested) == {1000}


def test_lines_pass_as_they_are_where_no_row_is_in_two_sources() -> None:
    def segment(numbers: range, write_number: int) -> LinesSegment:
        return lines_segment([b"%03d" % number for number in numbers], [cell(write_number)])

    def kinds_of(sources: list[Source]) -> set[type]:
        pieces = list(retained_tables(sources, EVERYTHING, 1, 300, 900))
        tables = [piece if isinstance(piece, pa.Table) else cells_of(piece) for piece in pieces]
        rows = [row for table in tables for row in rows_of(table)]
        assert rows == sorted(row for source in sources for row in rows_of(source.read_rows(b"", b"", 1 << 20).table))
        return {type(piece) for piece in pieces}

    even, odd = segment(range(0, 80, 2), 1), segment(range(1, 80, 2), 2)
    assert kinds_of([even, odd]) == {Lines}
    assert kinds_of([segment(range(40), 1), segment(range(40, 80), 2)]) == {Lines}
    assert kinds_of([even, odd, segment(range(100, 140), 3)]) == {Lines}
    assert kinds_of([even, segment(range(0, 80, 2), 2)]) == {pa.Table}
    versions = LinesSegment.merged([even, segment(range(0, 80, 2), 2)])
    assert versions is not None
    assert kinds_of([versions]) == {pa.Table}
    single = RowSegment(1)
    single.apply(b"001", [cell(3)], lambda: from_then_on(0))
    single.seal()
    assert kinds_of([even, single]) == {Lines}
    alone = RowSegment(1)
    for number in range(1, 80, 2):
        alone.apply(b"%03d" % number, [cell(3)], lambda: from_then_on(0))
    alone.seal()
    pieces = list(retained_tables([segment(range(0, 80, 4), 1), alone], EVERYTHING, 1, 1 << 20))
    assert {type(piece) for piece in pieces} == {pa.Table}, "most cells are not in lines"


@pytest.mark.parametrize(
    ("versions", "protected", "is_one_line"),
    [
        (1, ((3, NEWEST),), True),
        (1, ((2, NEWEST),), False),
        (1, ((1, 1), (3, NEWEST)), False),
        (2, ((3, NEWEST),), False),
    ],
    ids=["newest", "not published", "read before", "two versions"],
)
def test_lines_of_one_row_become_one_line_of_the_newest_cells_where_nothing_else_is_read(
    versions: int, protected: ProtectedReadPoints, is_one_line: bool
) -> None:
    def lines_at(write_number: int, qualifiers: bytes, timestamp: int) -> LinesSegment:
        cells: list[Cell] = [(bytes([q]), -timestamp, -write_number, 0, b"%d" % write_number) for q in qualifiers]
        return lines_segment([b"%03d" % number for number in range(20)], cells)

    # Write 3 has a lower timestamp than 2; they have b in common, 1 and 2 have a, with one timestamp.
    sources = [lines_at(3, b"bc", 5), lines_at(2, b"ab", 7), lines_at(1, b"a", 7)]
    pieces = list(retained_tables(sources, Retention(protected), versions, 1 << 20))
    assert {isinstance(piece, Lines) for piece in pieces} == {is_one_line}
    assert cells_in(pieces).equals(retained_as_cells(sources, Retention(protected), versions))


def cells_in(pieces: list[pa.Table | Lines]) -> pa.Table:
    tables = [cells_of(piece) if isinstance(piece, Lines) else piece for piece in pieces]
    return pa.concat_tables(tables).combine_chunks()


def retained_as_cells(sources: Sequence[Source], retention: Retention, versions: int) -> pa.Table:
    merged = merge.merged([source.read_rows(b"", b"", 1 << 20).run() for source in sources]).table()
    return merged.filter(pa.array(retained(SortedCells.of(merged), retention, versions))).combine_chunks()


def lines_segment(rows: Sequence[bytes], cells: Sequence[Cell]) -> LinesSegment:
    lines, _ = lines_of(cells_table(list(rows), [list(cells)] * len(rows)))
    assert lines is not None
    return LinesSegment(lines)


def test_a_column_that_only_single_puts_have_stays_cells() -> None:
    """Else each line of the window would have a place for it."""
    single = RowSegment(1)
    single.apply(b"050", [(b"rare", -1, -2, 0, b"v")], lambda: from_then_on(2))
    single.seal()
    sources: list[Source] = [lines_segment([b"%03d" % row for row in range(100)], [cell(1)]), single]
    pieces = list(retained_tables(sources, Retention(from_then_on(2)), 1, 1 << 20))
    assert {type(piece) for piece in pieces} == {pa.Table}
    assert cells_in(pieces).num_rows == 101


@pytest.mark.parametrize("protected", [from_then_on(2), from_then_on(0)])
def test_lines_with_few_columns_in_common_are_merged_as_cells(protected: ProtectedReadPoints) -> None:
    """Else each line would have a place for each column: a hundred times the memory."""
    wide: list[Cell] = [(b"w%03d" % number, -1, -2, 0, b"v") for number in range(300)]
    sources: list[Source] = [
        lines_segment([b"%04d" % row for row in range(0, 1000, 2)], [(b"q", -1, -1, 0, b"v"), (b"r", -1, -1, 0, b"v")]),
        lines_segment([b"0001", b"0500"], wide),
    ]
    pieces = list(retained_tables(sources, Retention(protected), 1, 1 << 22))
    assert {type(piece) for piece in pieces} == {pa.Table}
    assert cells_in(pieces).num_rows == 1600


class Away(ArrowSegment):
    """Its only value is not read with its cell."""

    def read_rows(
        self,
        start: bytes,
        stop: bytes,
        bytes_max: int,
        row_bytes_max: int = NO_LIMIT,
        *,
        reverse: bool = False,
        lines: LinesWanted | None = None,
        reading: Reading = Reading.BULK,
    ) -> Chunk:
        chunk = super().read_rows(start, stop, bytes_max, row_bytes_max, reverse=reverse)
        return replace(chunk, away=((0, AwayValue(5, lambda: b"large")),)) if len(chunk) else chunk


def test_a_value_that_is_away_is_not_lost_among_lines() -> None:
    away = Away(cells_table([b"99"], [[(b"q", -1, -2, 0, b"")]]))
    sources: list[Source] = [lines_segment([b"%02d" % row for row in range(9)], [cell(1)]), away]
    pieces = list(retained_tables(sources, Retention(from_then_on(2)), 1, 1 << 20))
    assert cells_in(pieces).to_pylist()[-1]["value"] == b"large"


def address(lines: Lines) -> int:
    values = lines.columns[0].buffers()[1]
    assert values is not None
    return values.address


def test_lines_in_succession_pass_uncopied() -> None:
    segments = [
        lines_segment([b"%02d" % row for row in range(first, first + 9)], [cell(first + 1)]) for first in (0, 9)
    ]
    pieces = list(retained_tables(segments, Retention(from_then_on(99)), 1, 1 << 20))
    found = [address(piece) for piece in pieces if isinstance(piece, Lines)]
    assert found == [address(segment._lines) for segment in segments]


def test_a_line_without_a_cell_does_not_hide_the_older_one() -> None:
    rows = [b"%02d" % number for number in range(10)]

    def segment(write_number: int, *, has_gaps: bool) -> Source:
        cells = [(qualifier, -1, -write_number, 0, b"%d" % write_number) for qualifier in (b"a", b"b")]
        lines, others = lines_of(
            cells_table(rows, [cells[: 1 if has_gaps and number % 2 else 2] for number in range(len(rows))])
        )
        assert lines is not None
        assert not others.num_rows
        return LinesSegment(lines)

    sources = [segment(2, has_gaps=True), segment(1, has_gaps=False)]
    pieces = list(retained_tables(sources, Retention(from_then_on(9)), 1, 1 << 20))
    assert cells_in(pieces).equals(retained_as_cells(sources, Retention(from_then_on(9)), 1))
    assert b"1" in cells_in(pieces).column("value").to_pylist()


def test_windows_of_many_sources_grow_while_they_stay_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    advance = SourceChunks.advance

    def recorded(chunks: SourceChunks, sources: Sequence[Source], bytes_max: int, row_bytes_max: int) -> Step:
        asked.append(bytes_max)
        return advance(chunks, sources, bytes_max, row_bytes_max)

    monkeypatch.setattr(SourceChunks, "advance", recorded)
    sources: list[Source] = [
        lines_segment([b"%05d" % row for row in range(number % 10, 4000, 10)], [cell(number)])
        for number in range(1, 41)
    ]
    deleting = RowSegment(1)
    deleting.apply(b"02000", [(b"q", -1, -50, DELETE_COLUMN, b"")], lambda: from_then_on(99))
    deleting.seal()
    sources.append(deleting)
    retention = Retention(from_then_on(99))
    pieces: list[pa.Table | Lines] = []
    forms: list[type] = []
    for piece in retained_tables(sources, retention, 1, 2000, 16_000):
        pieces.append(piece)
        forms += [type(piece)] * (len(asked) - len(forms))
    assert cells_in(pieces).equals(retained_as_cells(sources, retention, 1))
    of_cells = forms.index(pa.Table)
    growing = [16_000, 32_000, 64_000, 128_000]
    assert asked[: of_cells + 1] == growing + [128_000] * (of_cells - 3)
    assert asked[of_cells + 1 :] == growing + [128_000] * (len(asked) - of_cells - 5)
    assert forms.count(pa.Table) == 1


def test_a_window_that_grew_as_lines_is_merged_as_cells_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    counts: list[int] = []

    def counted(runs: Sequence[SortedRun]) -> SortedRun:
        counts.append(sum(map(len, runs)))
        return merge.merged(runs)

    monkeypatch.setattr("rowlock_regionserver.scan.retained_tables.merged", counted)
    rows = [b"%05d" % row for row in range(4000)]
    sources: list[Source] = [lines_segment(rows, [cell(1)]), lines_segment(rows[3000:], [cell(2)])]
    pieces = list(retained_tables(sources, EVERYTHING, 3, 4000, 16_000))
    assert cells_in(pieces).equals(retained_as_cells(sources, EVERYTHING, 3))
    assert {type(piece) for piece in pieces} == {Lines, pa.Table}
    assert sum(counts) >= 2000
    assert max(counts) <= 2 * 16_000 // 100, counts


@pytest.mark.parametrize("with_tombstones", [False, True])
def test_single_puts_among_lines_are_merged_as_if_all_were_cells(with_tombstones: bool) -> None:
    generator = random.Random(drawn_seed())
    forms: Counter[type] = Counter()
    for _ in range(60):
        has_gaps = generator.random() < 0.5
        numbers = list(range(1, 6))
        generator.shuffle(numbers)
        sources: list[Source] = []
        for number in numbers[1:]:
            timestamp = generator.choice([5, 5, 6, 7])
            columns = b"abc" if not has_gaps else bytes(generator.sample(b"abc", 2))
            rows = sorted(generator.sample(range(60), 30))
            is_by_cell = generator.random() < 0.3
            of_row: list[Cell] = [
                (bytes([q]), -(generator.choice([5, 7]) if is_by_cell else timestamp), -number, 0, b"%d" % number)
                for q in sorted(columns)
            ]
            sources.append(lines_segment([b"%03d" % row for row in rows], of_row))
        single = RowSegment(1)
        for row in generator.sample(range(70), 3):
            kind = generator.choice([0, 0, DELETE_COLUMN]) if with_tombstones else 0
            put = (
                generator.choice([b"a", b"b"]),
                -generator.choice([4, 6, 8]),
                -numbers[0],
                kind,
                b"" if kind else b"s",
            )
            single.apply(b"%03d" % row, [put], lambda: from_then_on(9))
        single.seal()
        sources.insert(generator.randrange(5), single)
        pieces: list[pa.Table | Lines] = []
        form_of_window: dict[int, type] = {}
        windows: list[int] = []
        retention = Retention(from_then_on(9))
        for piece in retained_tables(sources, retention, 1, 500, 2000, merging=windows.append):
            pieces.append(piece)
            form_of_window[len(windows)] = type(piece)
        assert cells_in(pieces).equals(retained_as_cells(sources, retention, 1))
        forms += Counter(form_of_window.values())
    assert forms[Lines] > forms[pa.Table] * (1 if with_tombstones else 3), forms
