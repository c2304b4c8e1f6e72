from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
from rowlock_regionserver.arrow.columns import cells_table
from rowlock_regionserver.arrow.line_forming import lines_of
from rowlock_regionserver.cells import DELETE_COLUMN, NEWEST, PUT, Cell, from_then_on
from rowlock_regionserver.memstore import memstore as memstore_module
from rowlock_regionserver.memstore.arrow_segment import ArrowSegment
from rowlock_regionserver.memstore.lines_segment import LinesSegment
from rowlock_regionserver.memstore.memstore import MERGED_COUNT_MIN, Memstore, MemstoreStatistics

from tests.unit.memstore.invariants import check_memstore


def _apply(memstore: Memstore, row: bytes, write_number: int) -> int:
    cells: list[Cell] = [(b"q", -1, -write_number, 0, b"v")]
    return memstore.apply(row, cells, lambda: from_then_on(0))


def _bulk(row: bytes, write_number: int) -> ArrowSegment:
    return ArrowSegment(cells_table([row], [[(b"q", -1, -write_number, 0, b"bulk")]]))


def _write_numbers(memstore: Memstore, row: bytes) -> list[int]:
    return [-cell[2] for source in memstore.sources() for cell in source.row_cells(row)]


def test_a_new_memstore_is_one_empty_active_segment() -> None:
    memstore = Memstore(1)
    assert memstore.sources() == (memstore.active,)
    assert memstore.statistics() == MemstoreStatistics(
        segment_count=1, row_count=0, cell_count=0, tombstone_count=0, bytes_held=0
    )
    check_memstore(memstore)


def test_writes_go_to_the_new_segment_after_a_switch_and_all_is_read() -> None:
    memstore = Memstore(1)
    _apply(memstore, b"r", 1)
    before = memstore.active
    sealed = memstore.switch()
    _apply(memstore, b"r", 2)
    assert sealed == (before,)
    assert memstore.sources() == (memstore.active, before)
    assert _write_numbers(memstore, b"r") == [2, 1]
    check_memstore(memstore)


def test_a_switch_returns_all_unflushed_segments_newest_first() -> None:
    memstore = Memstore(1)
    _apply(memstore, b"r", 1)
    (first,) = memstore.switch()
    bulk = _bulk(b"r", 2)
    memstore.add_segment(bulk)
    _apply(memstore, b"r", 3)
    active = memstore.active
    assert memstore.switch() == (active, bulk, first)
    check_memstore(memstore)


def test_a_switch_drops_an_empty_active_segment() -> None:
    memstore = Memstore(1)
    assert memstore.switch() == ()
    assert memstore.switch() == ()
    assert memstore.statistics().segment_count == 1


def test_a_flush_drops_what_it_wrote_and_nothing_that_came_since() -> None:
    memstore = Memstore(1)
    _apply(memstore, b"r", 1)
    memstore.add_segment(_bulk(b"r", 2))
    flushed = memstore.switch()
    later = _bulk(b"r", 3)
    memstore.add_segment(later)
    _apply(memstore, b"r", 4)
    view = memstore.sources()
    memstore.drop(flushed)
    assert memstore.sources() == (memstore.active, later)
    assert _write_numbers(memstore, b"r") == [4, 3]
    assert sum(len(source.row_cells(b"r")) for source in view) == 4, "an open view keeps what was dropped"
    check_memstore(memstore)


def test_only_sealed_segments_that_are_held_can_be_dropped() -> None:
    memstore = Memstore(1)
    _apply(memstore, b"r", 1)
    with pytest.raises(AssertionError, match="active"):
        memstore.drop([memstore.active])
    sealed = memstore.switch()
    memstore.drop(sealed)
    with pytest.raises(AssertionError, match="1 segments to drop, 0 of them held"):
        memstore.drop(sealed)


def test_bytes_held_are_the_growth_of_writes_and_the_bulk_buffers_until_dropped() -> None:
    memstore = Memstore(1)
    grown = _apply(memstore, b"a", 1) + _apply(memstore, b"b", 2) + _apply(memstore, b"b", 3)
    assert memstore.bytes_held == grown > 0
    bulk = _bulk(b"c", 4)
    memstore.add_segment(bulk)
    assert memstore.bytes_held == grown + bulk.bytes_held
    statistics = memstore.statistics()
    assert (statistics.segment_count, statistics.row_count, statistics.cell_count) == (2, 3, 4)
    memstore.drop(memstore.switch())
    assert memstore.bytes_held == 0


def test_an_altered_number_of_versions_holds_for_the_segment_after_the_switch() -> None:
    def fill(memstore: Memstore, first: int) -> int:
        for number in range(first, first + 500):
            memstore.apply(b"r", [(b"q", -number, -number, 0, b"v")], lambda: from_then_on(NEWEST))
        return memstore.active.cell_count

    memstore = Memstore(1)
    assert fill(memstore, 1) < 130
    memstore.switch(versions=200)
    assert fill(memstore, 1000) >= 200
    memstore.switch()
    assert fill(memstore, 2000) >= 200


def test_a_memstore_that_recovers_can_be_flushed_meanwhile_and_read_afterwards() -> None:
    memstore = Memstore(1, recovering=True)
    for row in (b"b", b"a"):
        _apply(memstore, row, 1)
    (sealed,) = memstore.switch()
    assert sealed.read_rows(b"", b"", 1000).table.column(0).to_pylist() == [b"a", b"b"]
    memstore.drop([sealed])
    for row in (b"d", b"c"):
        _apply(memstore, row, 2)
    memstore.recovered()
    assert memstore.active.read_rows(b"", b"", 1000).table.column(0).to_pylist() == [b"c", b"d"]
    memstore.switch()
    _apply(memstore, b"e", 3)
    assert memstore.active.read_rows(b"", b"", 1000).table.num_rows == 1
    check_memstore(memstore)


def _lines(write_number: int, row: bytes = b"", qualifiers: Sequence[bytes] = (b"q", b"r")) -> LinesSegment:
    cells: list[Cell] = [(qualifier, -1, -write_number, 0, b"value") for qualifier in qualifiers]
    lines, _ = lines_of(cells_table([row or b"%06d" % write_number], [cells]))
    assert lines is not None
    return LinesSegment(lines)


def test_many_small_segments_of_lines_become_few_and_each_line_is_merged_a_few_times(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    merged_rows = 0
    original = LinesSegment.merged

    def merged(segments: list[LinesSegment]) -> LinesSegment | ArrowSegment | None:
        nonlocal merged_rows
        merged_rows += sum(segment.row_count for segment in segments)
        return original(segments)

    monkeypatch.setattr(LinesSegment, "merged", staticmethod(merged))
    memstore = Memstore(1)
    held = 0
    for number in range(1, 1001):
        held += memstore.add_segment(_lines(number))
        assert memstore.bytes_held == held
        if number % 10 == 0:
            memstore.add_segment(_bulk(b"other", number))
            held = memstore.bytes_held
    segments = [source for source in memstore.sources() if isinstance(source, LinesSegment)]
    assert len(segments) < 12
    assert merged_rows < 8 * 1000
    assert sum(segment.row_count for segment in segments) == 1000
    for number in (1, 500, 1000):
        assert _write_numbers(memstore, b"%06d" % number) == [number, number]
    check_memstore(memstore)


def test_many_small_segments_of_cells_become_few_and_keep_tombstones_and_versions() -> None:
    memstore = Memstore(1)
    held = 0
    for number in range(1, 501):
        kind = DELETE_COLUMN if number % 7 == 0 else PUT
        cells: list[Cell] = [(b"q", -number, -number, kind, b"" if kind else b"value")]
        held += memstore.add_segment(ArrowSegment(cells_table([b"%03d" % (number % 50)], [cells])))
        assert memstore.bytes_held == held
    assert len(memstore.sources()) < 16
    assert memstore.statistics().cell_count == 500
    assert _write_numbers(memstore, b"007") == [457, 407, 357, 307, 257, 207, 157, 107, 57, 7]
    assert any(source.has_tombstones for source in memstore.sources())
    check_memstore(memstore)


def test_what_may_be_taken_back_or_is_being_flushed_is_not_merged() -> None:
    memstore = Memstore(1)
    for number in range(1, 1 + MERGED_COUNT_MIN):
        memstore.add_segment(_lines(number))
    newest = memstore.sources()[1]
    sealed = memstore.switch()
    assert len(sealed) == MERGED_COUNT_MIN
    for number in range(10, 11 + MERGED_COUNT_MIN):
        newest = _lines(number)
        memstore.add_segment(newest)
        memstore.add_segment(_bulk(b"other", number))  # the cells of the same batch
        memstore.drop([newest])
        memstore.add_segment(newest)
    memstore.drop(sealed)
    assert all(source.write_number_min >= 10 for source in memstore.sources()[1:])
    check_memstore(memstore)


def _at_once(action: Callable[[], None]) -> None:
    action()


def _merge(memstore: Memstore, change: Callable[[Callable[[], None]], None] = _at_once) -> int:
    """Returns the growth of memory."""
    growths: list[int] = []
    memstore.merge_run(change, growths.append)
    return sum(growths)


def test_small_segments_of_different_columns_are_merged_too() -> None:
    memstore = Memstore(1)
    held = 0
    for number in range(1, 201):
        held += memstore.insert_segment(_lines(number, b"%03d" % (number % 50), [b"q", b"r"][: 1 + number % 2]))
        held += _merge(memstore)
        assert memstore.bytes_held == held
    assert len(memstore.sources()) < 24
    assert sorted(set(_write_numbers(memstore, b"007"))) == [7, 57, 107, 157]
    check_memstore(memstore)


def test_inserted_segments_are_merged_later_and_count_the_same_bytes() -> None:
    memstore = Memstore(1)
    held = 0
    for number in range(1, 201):
        held += memstore.insert_segment(_lines(number, b"%03d" % (number % 50)))
        assert memstore.bytes_held == held
        held += _merge(memstore)
        assert memstore.bytes_held == held
    assert len(memstore.sources()) < 12
    assert sorted(_write_numbers(memstore, b"007")) == [7, 7, 57, 57, 107, 107, 157, 157]
    check_memstore(memstore)


def test_what_a_bulk_batch_has_merged_or_a_flush_has_is_not_exchanged() -> None:
    memstore = Memstore(1)
    for number in range(1, 1 + MERGED_COUNT_MIN):
        memstore.insert_segment(_lines(number))
    batch = _lines(9)

    def merged_by_a_batch_first(action: Callable[[], None]) -> None:
        memstore.add_segment(batch)
        action()

    before = memstore.bytes_held
    assert _merge(memstore, merged_by_a_batch_first) == 0
    assert len(memstore.sources()) == 3
    assert memstore.bytes_held < before + batch.bytes_held
    assert memstore.statistics().cell_count == 2 * (MERGED_COUNT_MIN + 1)
    memstore.switch()
    for number in range(10, 9 + MERGED_COUNT_MIN):
        memstore.insert_segment(_lines(number))
    assert _merge(memstore) == 0, "with the flushed one there would be enough"
    check_memstore(memstore)


def test_merged_segments_have_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memstore_module, "MERGED_BYTES_MAX", 10 * _lines(1).byte_count)
    memstore = Memstore(1)
    for number in range(1, 101):
        memstore.insert_segment(_lines(number))
        _merge(memstore)
    counts = [segment.cell_count for segment in memstore.sources()[1:]]
    assert sum(counts) == 200
    assert 8 < max(counts) <= 20
    assert len(counts) < 25
    check_memstore(memstore)


def test_one_thread_merges_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    memstore = Memstore(1)
    for number in range(1, 1 + MERGED_COUNT_MIN):
        memstore.insert_segment(_lines(number))
    original, runs = LinesSegment.merged, [0]

    def merged(segments: list[LinesSegment]) -> LinesSegment | ArrowSegment | None:
        runs[0] += 1
        if runs[0] == 1:
            raise MemoryError
        _merge(memstore)  # as another thread would
        return original(segments)

    monkeypatch.setattr(LinesSegment, "merged", staticmethod(merged))
    with pytest.raises(MemoryError):
        _merge(memstore)
    assert _merge(memstore) < 0
    assert runs == [2]
    assert len(memstore.sources()) == 2
    check_memstore(memstore)


def test_a_segment_with_tombstones_is_not_inserted() -> None:
    tombstone: list[Cell] = [(b"q", -1, -1, DELETE_COLUMN, b"")]
    with pytest.raises(AssertionError, match="pruning"):
        Memstore(1).insert_segment(ArrowSegment(cells_table([b"r"], [tombstone])))


def test_lines_of_another_write_are_the_same_but_for_their_number() -> None:
    segment = _lines(1, b"r")
    other = segment.renumbered(7)
    assert [-cell[2] for cell in other.row_cells(b"r")] == [7, 7]
    assert [cell[:2] for cell in other.row_cells(b"r")] == [cell[:2] for cell in segment.row_cells(b"r")]
    assert (other.write_number_min, other.write_number_max) == (7, 7)
    assert other.read_rows(b"", b"", 1000).table.column("write_number").to_pylist() == [7, 7]
    assert [-cell[2] for cell in segment.row_cells(b"r")] == [1, 1], "the first one is as it was"
    other._check()


def test_lines_that_do_not_fit_one_segment_are_not_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[int] = []
    original = LinesSegment.merged

    def merged(segments: list[LinesSegment]) -> LinesSegment | ArrowSegment | None:
        tried.append(len(segments))
        return original(segments) if len(tried) > 1 else None

    monkeypatch.setattr(LinesSegment, "merged", staticmethod(merged))
    memstore = Memstore(1)
    for number in range(1, 2 * MERGED_COUNT_MIN + 2):
        memstore.add_segment(_lines(number, b"hot"))
    assert tried == [MERGED_COUNT_MIN] * 2
    check_memstore(memstore)
