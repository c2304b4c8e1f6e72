from __future__ import annotations

import sys
import threading
import tracemalloc
from collections.abc import Callable, Iterator

import pytest
from rowlock_regionserver.arrow.cell_columns import CellColumns
from rowlock_regionserver.cells import (
    DELETE_COLUMN,
    DELETE_FAMILY,
    DELETE_VERSION,
    NEWEST,
    Cell,
    ProtectedReadPoints,
    from_then_on,
)
from rowlock_regionserver.memstore.row_segment import RowSegment
from rowlock_regionserver.sources import RowPlace

from tests.unit.memstore.invariants import check_rows
from tests.waiting import WAIT_S


def _put(qualifier: bytes, timestamp: int, write_number: int, value: bytes = b"v") -> Cell:
    return (qualifier, -timestamp, -write_number, 0, value)


def _nothing_published() -> ProtectedReadPoints:
    return from_then_on(0)


def _everything_published() -> ProtectedReadPoints:
    return from_then_on(NEWEST)


def _published_up_to(write_number: int) -> Callable[[], ProtectedReadPoints]:
    return lambda: from_then_on(write_number)


def _names(
    segment: RowSegment, start: bytes, stop: bytes, bytes_max: int, *, reverse: bool = False
) -> list[list[bytes]]:
    """Returns the rows of [start, stop), one list for each chunk, read through all frontiers."""
    chunks: list[list[bytes]] = []
    while True:
        chunk = segment.read_rows(start, stop, bytes_max, reverse=reverse)
        columns = CellColumns(chunk.table)
        names = sorted({columns.row(place) for place in range(len(columns))})
        chunks.append(names)
        if chunk.frontier is None:
            return chunks
        if reverse:
            assert names[0] >= chunk.frontier > start
            stop = chunk.frontier
        else:
            assert names[-1] < chunk.frontier
            start = chunk.frontier


@pytest.fixture
def segment() -> RowSegment:
    """Rows r00 to r24 with one cell each, copied three at a time."""
    segment = RowSegment(1, slice_rows=3)
    for number in range(25):
        segment.apply(b"r%02d" % number, [_put(b"q", 100, number + 1)], _nothing_published)
    return segment


ALL = [b"r%02d" % number for number in range(25)]


def test_cells_of_several_writes_are_one_sorted_row() -> None:
    segment = RowSegment(3)
    segment.apply(b"r", [_put(b"b", 5, 1), _put(b"d", 5, 1)], _nothing_published)
    segment.apply(b"r", [_put(b"b", 6, 2)], _nothing_published)
    segment.apply(
        b"r", [(b"", -9, -3, 3, b""), _put(b"a", 7, 3), _put(b"c", 1, 3), _put(b"d", 5, 3)], _nothing_published
    )
    assert segment.row_cells(b"r") == [
        (b"", -9, -3, 3, b""),
        _put(b"a", 7, 3),
        _put(b"b", 6, 2),
        _put(b"b", 5, 1),
        _put(b"c", 1, 3),
        _put(b"d", 5, 3),
        _put(b"d", 5, 1),
    ]
    assert (segment.write_number_min, segment.write_number_max, segment.cell_count) == (1, 3, 7)
    check_rows(segment)


def test_few_cells_come_sorted_into_a_long_row() -> None:
    segment = RowSegment(1, prune_cells_min=1000)
    segment.apply(b"r", [_put(b"%03d" % place, 1, 1) for place in range(0, 200, 2)], _nothing_published)
    segment.apply(b"r", [_put(b"%03d" % place, 1, 2) for place in (1, 99, 201)], _nothing_published)
    assert [cell[0] for cell in segment.row_cells(b"r")][-2:] == [b"198", b"201"]
    check_rows(segment)


def test_an_empty_segment_has_nothing() -> None:
    segment = RowSegment(1)
    assert segment.row_cells(b"r") == []
    assert (segment.write_number_min, segment.write_number_max) == (NEWEST, 0)
    chunk = segment.read_rows(b"", b"", 100)
    assert (chunk.table.num_rows, chunk.frontier, chunk.has_tombstones, chunk.has_versions) == (0, None, False, False)
    check_rows(segment)


def test_what_a_reader_got_does_not_change_with_later_writes(segment: RowSegment) -> None:
    cells = segment.row_cells(b"r00")
    segment.apply(b"r00", [_put(b"q", 200, 99)], _nothing_published)
    assert cells == [_put(b"q", 100, 1)]


@pytest.mark.parametrize("bytes_max", [1, 21, 22, 60, 10_000])
@pytest.mark.parametrize("reverse", [False, True])
def test_chunks_through_all_frontiers_are_every_row_once(segment: RowSegment, bytes_max: int, reverse: bool) -> None:
    chunks = _names(segment, b"", b"", bytes_max, reverse=reverse)
    assert [name for chunk in (reversed(chunks) if reverse else chunks) for name in chunk] == ALL
    if bytes_max == 1:
        assert max(map(len, chunks)) == 1
    if bytes_max == 10_000:
        assert len(chunks) == 1


@pytest.mark.parametrize(
    ("start", "stop", "expected"),
    [
        (b"r05", b"r08", ALL[5:8]),
        (b"r05\x00", b"r08\x00", ALL[6:9]),
        (b"", b"r02", ALL[:2]),
        (b"r23", b"", ALL[23:]),
        (b"r05", b"r05", []),
        (b"s", b"", []),
        (b"r08", b"r05", []),
    ],
)
@pytest.mark.parametrize("reverse", [False, True])
def test_a_range_is_half_open(
    segment: RowSegment, start: bytes, stop: bytes, expected: list[bytes], reverse: bool
) -> None:
    assert sorted(name for chunk in _names(segment, start, stop, 50, reverse=reverse) for name in chunk) == expected


def test_a_chunk_reports_tombstones_versions_and_bounds() -> None:
    segment = RowSegment(3)
    segment.apply(b"a", [_put(b"q", 50, 7)], _nothing_published)
    segment.apply(b"b", [_put(b"q", 60, 8)], _nothing_published)
    plain = segment.read_rows(b"", b"", 1000)
    assert (plain.has_tombstones, plain.has_versions) == (False, False)
    assert (plain.write_number_max, plain.timestamp_min) == (8, 50)
    segment.apply(b"b", [_put(b"q", 60, 9)], _nothing_published)
    assert segment.read_rows(b"", b"", 1000).has_versions
    assert not segment.read_rows(b"a", b"b", 1000).has_versions
    segment.apply(b"c", [(b"q", -1, -10, 1, b"")], _nothing_published)
    assert segment.read_rows(b"", b"", 1000).has_tombstones


def test_a_sealed_segment_takes_no_write_and_is_still_read(segment: RowSegment) -> None:
    segment.seal()
    with pytest.raises(AssertionError, match="sealed"):
        segment.apply(b"r", [_put(b"q", 1, 100)], _nothing_published)
    assert segment.row_cells(b"r03") == [_put(b"q", 100, 4)]
    assert segment.row_source(b"r03") is segment
    assert segment.row_source(b"anything") is RowPlace.NOWHERE


# ---- recovery


def test_rows_that_come_in_any_order_in_recovery_are_sorted_at_its_end() -> None:
    segment = RowSegment(1, recovering=True)
    for number in (5, 1, 4, 2, 3):
        segment.apply(b"r%d" % number, [_put(b"q", 1, number)], _nothing_published)
    with pytest.raises(AssertionError, match="before it is recovered"):
        segment.read_rows(b"", b"", 1000)
    segment.recovered()
    assert _names(segment, b"", b"", 1000) == [[b"r1", b"r2", b"r3", b"r4", b"r5"]]
    segment.apply(b"r0", [_put(b"q", 1, 6)], _nothing_published)
    assert _names(segment, b"", b"r2", 1000) == [[b"r0", b"r1"]]
    check_rows(segment)


def test_cells_that_come_in_any_order_in_recovery_are_sorted_before_pruning_and_at_its_end() -> None:
    segment = RowSegment(2, recovering=True, prune_cells_min=6)
    arrived = [_put(b"q%d" % (number % 2), 1000 - number if number % 3 else number, number) for number in range(1, 31)]
    for cell in arrived:
        segment.apply(b"r", [cell], _published_up_to(-cell[2]))
    segment.recovered()
    check_rows(segment)
    assert segment.statistics().pruned_cell_count > 0
    for qualifier in (b"q0", b"q1"):
        newest = sorted(cell for cell in arrived if cell[0] == qualifier)[:2]
        assert segment.columns_cells(b"r", (qualifier,))[:2] == newest


def test_sealing_ends_recovery() -> None:
    segment = RowSegment(1, recovering=True)
    segment.apply(b"b", [_put(b"q", 1, 1)], _nothing_published)
    segment.apply(b"a", [_put(b"q", 1, 2)], _nothing_published)
    segment.seal()
    assert _names(segment, b"", b"", 1000) == [[b"a", b"b"]]


# ---- pruning


def test_a_counter_stays_short_however_often_it_is_written() -> None:
    segment = RowSegment(1, prune_cells_min=8)
    longest = most_bytes = 0
    for number in range(1, 5001):
        segment.apply(b"r", [_put(b"counter", number, number)], _published_up_to(number - 1))
        longest = max(longest, segment.cell_count)
        most_bytes = max(most_bytes, segment.bytes_held)
    assert longest <= 9
    assert most_bytes < 4000
    assert segment.row_cells(b"r")[0] == _put(b"counter", 5000, 5000)
    assert segment.statistics().pruned_cell_count == 5000 - segment.cell_count
    check_rows(segment)


def test_growth_and_pruning_add_up_to_the_bytes_held() -> None:
    segment = RowSegment(2, prune_cells_min=4)
    growths = [
        segment.apply(b"r%d" % (number % 3), [_put(b"q", number, number, b"v" * number)], _everything_published)
        for number in range(1, 200)
    ]
    assert sum(growths) == segment.bytes_held
    assert min(growths) < 0
    check_rows(segment)


def test_what_a_registered_read_point_needs_is_not_pruned() -> None:
    segment = RowSegment(1, prune_cells_min=4)
    for number in range(1, 100):
        segment.apply(b"r", [_put(b"q", number, number)], _published_up_to(10))
    numbers = {-cell[2] for cell in segment.row_cells(b"r")}
    assert {10, *range(11, 100)} <= numbers
    assert len(numbers) < 99
    check_rows(segment)


def test_a_counter_stays_short_while_an_old_read_point_is_registered() -> None:
    segment = RowSegment(1, prune_cells_min=8)
    for number in range(1, 1001):
        current = from_then_on(number - 1)
        spans = [(10, 10), (20, 25), *current] if number > 30 else from_then_on(0)
        segment.apply(b"r", [_put(b"q", number, number)], lambda spans=spans: spans)  # type: ignore[misc]
    numbers = {-cell[2] for cell in segment.row_cells(b"r")}
    assert {10, 20, 21, 22, 23, 24, 25, 1000} <= numbers
    assert not numbers & {*range(1, 10), *range(11, 20), *range(26, 900)}
    assert len(numbers) < 40
    check_rows(segment)


def test_a_row_that_cannot_be_pruned_is_tried_again_only_when_it_has_doubled() -> None:
    asked = []

    def protected_read_points() -> ProtectedReadPoints:
        asked.append(1)
        return from_then_on(0)

    segment = RowSegment(1, prune_cells_min=4)
    for number in range(1, 1025):
        segment.apply(b"r", [_put(b"q", number, number)], protected_read_points)
    assert segment.cell_count == 1024
    assert len(asked) <= 9


@pytest.mark.parametrize("kind", [DELETE_VERSION, DELETE_COLUMN, DELETE_FAMILY])
def test_a_column_that_a_tombstone_touches_is_pruned_of_what_came_after_it(kind: int) -> None:
    tombstone: Cell = (b"" if kind == DELETE_FAMILY else b"q", -500, -1, kind, b"")
    segment = RowSegment(2, prune_cells_min=4)
    segment.apply(b"r", [tombstone], _everything_published)
    for number in range(2, 50):
        segment.apply(b"r", [_put(b"q", number, number)], _everything_published)
    cells = segment.row_cells(b"r")
    assert cells[:2] == [tombstone, _put(b"q", 49, 49)]
    assert len(cells) < 20
    check_rows(segment)


@pytest.mark.parametrize("kind", [DELETE_VERSION, DELETE_COLUMN, DELETE_FAMILY])
def test_of_what_came_before_a_tombstone_only_what_it_hides_with_all_below_is_pruned(kind: int) -> None:
    tombstone: Cell = (b"" if kind == DELETE_FAMILY else b"q", -1, -9, kind, b"")
    segment = RowSegment(1, prune_cells_min=4)
    cells = [*[_put(b"q", number, number) for number in (4, 3, 2, 1)], tombstone]
    for cell in sorted(cells, key=lambda cell: -cell[2]):
        segment.apply(b"r", [cell], _everything_published)
    hidden = [] if kind == DELETE_VERSION else [_put(b"q", 1, 1)]
    assert segment.row_cells(b"r") == sorted(cell for cell in cells if cell not in hidden)
    check_rows(segment)


@pytest.mark.parametrize("kind", [DELETE_COLUMN, DELETE_FAMILY])
def test_what_a_tombstone_hides_is_pruned_when_no_reader_of_before_is_left(kind: int) -> None:
    qualifier = b"" if kind == DELETE_FAMILY else b"q"
    cells: list[Cell] = []
    for number in range(1, 9, 2):
        cells += [_put(b"q", number, number), (qualifier, -number, -number - 1, kind, b"")]
    for spans, retained in [
        (from_then_on(8), cells[7:]),
        (((5, 5), *from_then_on(8)), [cells[3], cells[4], cells[7]]),
        (((2, 5), *from_then_on(8)), [cells[1], *cells[2:5], cells[7]]),
        (from_then_on(5), [cells[3], *cells[4:]]),
    ]:
        segment = RowSegment(1, prune_cells_min=len(cells) - 1)
        for cell in cells:
            segment.apply(b"r", [cell], lambda spans=spans: spans)  # type: ignore[misc]
        assert segment.row_cells(b"r") == sorted(retained)
        check_rows(segment)


# ---- memory


@pytest.mark.parametrize(("cell_count", "value_bytes"), [(6, 100), (1, 5), (1, 1000)])
def test_memory_is_counted_about_as_python_holds_it(cell_count: int, value_bytes: int) -> None:
    def mutations() -> Iterator[tuple[bytes, list[Cell]]]:
        for number in range(5000):
            yield (
                b"row%06d" % ((number * 7919) % 5000),
                [
                    (
                        b"qualifier%d" % place,
                        -(1_700_000_000_000 + number),
                        -((1 << 31) + number),
                        0,
                        b"%0*d" % (value_bytes, place),
                    )
                    for place in range(cell_count)
                ],
            )

    segment = RowSegment(1)
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        for row, cells in mutations():
            segment.apply(row, cells, _nothing_published)
        held = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert 0.85 < segment.bytes_held / held < 1.3, f"{segment.bytes_held} bytes counted, {held} held"


# ---- threads


def test_readers_concurrent_with_writers_see_every_row_exactly_once() -> None:
    """Every scan has the initial rows once, complete and in order, while others are inserted between them."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    segment = RowSegment(1)
    steady = [b"%04d" % number for number in range(0, 6000, 2)]
    write_numbers = iter(range(1, 1 << 30))
    for row in steady:
        segment.apply(row, [_put(b"q", 1, next(write_numbers))], _nothing_published)
    is_done = threading.Event()
    failures: list[str] = []

    def write(first: int) -> None:
        # Each writer has rows of its own, as row locks would give it, and two cells a write.
        for number in range(first, 6000, 4):
            write_number = next(write_numbers)
            cells = [_put(b"a", 1, write_number), _put(b"b", 1, write_number)]
            segment.apply(b"%04d" % number, cells, _nothing_published)
            segment.apply(b"%04d" % number, [_put(b"a", 2, next(write_numbers))], _nothing_published)

    def scan(reverse: bool, bytes_max: int) -> None:
        while not is_done.is_set():
            chunks = _names(segment, b"", b"", bytes_max, reverse=reverse)
            names = [name for chunk in (reversed(chunks) if reverse else chunks) for name in chunk]
            if names != sorted(set(names)):
                failures.append(f"out of order or doubled: {names}")
            if not set(steady) <= set(names):
                failures.append(f"lost: {set(steady) - set(names)}")

    def get() -> None:
        while not is_done.is_set():
            for number in range(1, 6000, 50):
                if len(segment.row_cells(b"%04d" % number)) not in (0, 2, 3):
                    failures.append(f"row {number} is torn")

    readers = [threading.Thread(target=scan, args=(reverse, 1 << 20)) for reverse in (False, True)]
    readers.append(threading.Thread(target=scan, args=(False, 1000)))
    readers.append(threading.Thread(target=get))
    writers = [threading.Thread(target=write, args=(first,)) for first in (1, 3)]
    try:
        for thread in readers + writers:
            thread.start()
        for thread in writers:
            thread.join(WAIT_S)
    finally:
        is_done.set()
        for thread in readers:
            thread.join(WAIT_S)
        sys.setswitchinterval(interval)
    assert not any(thread.is_alive() for thread in readers + writers)
    assert failures == []
    assert segment.row_count == 6000
    check_rows(segment)


class HeldRow(bytes):
    """Holds up the thread that looks for it among other rows."""

    is_reached = threading.Event()
    may_go_on = threading.Event()

    def __lt__(self, other: bytes) -> bool:
        self._stop()
        return super().__lt__(other)

    def __gt__(self, other: bytes) -> bool:
        self._stop()
        return super().__gt__(other)

    def _stop(self) -> None:
        self.is_reached.set()
        assert self.may_go_on.wait(WAIT_S)


def test_readers_of_a_sealed_segment_take_no_lock(segment: RowSegment) -> None:
    segment.apply(b"a", [_put(b"q", 1, 1)], _nothing_published)
    segment.seal()
    read: list[object] = []
    # As a flush holds the segment while it copies rows.
    flush = threading.Thread(target=segment.read_rows, args=(HeldRow(b"a"), b"", 100))
    reader = threading.Thread(
        target=lambda: read.extend([segment.row_cells(b"a"), segment.columns_cells(b"a", (b"q",))]), daemon=True
    )
    flush.start()
    assert HeldRow.is_reached.wait(WAIT_S)
    reader.start()
    reader.join(WAIT_S)
    is_waiting = reader.is_alive()
    HeldRow.may_go_on.set()
    flush.join(WAIT_S)
    assert not is_waiting
    assert read == [[_put(b"q", 1, 1)]] * 2


def test_the_pieces_of_a_sealed_segment_are_all_that_it_holds() -> None:
    segment = RowSegment(1)
    for number, row in enumerate((b"b", b"a"), start=1):
        segment.apply(row, [_put(b"q", 1, number)], _nothing_published)
    segment.seal()
    assert list(segment.pieces()) == [b"b", [_put(b"q", 1, 1)], b"a", [_put(b"q", 1, 2)]]
