"""Bulk batches of rows: checked, arranged as lines and cells, and still there after a restart."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from rowlock_regionserver.arrow.lines import Lines
from rowlock_regionserver.cells import Durability, Family
from rowlock_regionserver.clock import ManualClock
from rowlock_regionserver.config import Config
from rowlock_regionserver.errors import (
    FamilyNotFoundError,
    InvalidRequestError,
    LimitExceededError,
    NotServingRegionError,
    StoppingError,
)
from rowlock_regionserver.files import Files
from rowlock_regionserver.memstore.arrow_segment import ArrowSegment
from rowlock_regionserver.memstore.lines_segment import LinesSegment
from rowlock_regionserver.memstore.segment_filter import SegmentFilter
from rowlock_regionserver.operations import Delete, DeleteKind, Put, RequestId
from rowlock_regionserver.region import flush
from rowlock_regionserver.region.bulk.arranged import ArrangedBatch
from rowlock_regionserver.region.bulk.bulk_load import BulkResult
from rowlock_regionserver.region.bulk.bulk_rows import arrange_rows
from rowlock_regionserver.region.bulk.family_lines import FamilyLines
from rowlock_regionserver.region.bulk.row_batch import RowBatch
from rowlock_regionserver.scan.retained_tables import retained_tables
from rowlock_regionserver.table import Table
from rowlock_regionserver.wal.segment import decode_segment_header

from .conftest import Engine, bulk_batch
from .lone_region import LoneRegion, Step
from .row_batches import Name, Row, cell_batch, row_batch

TABLE = Table("t", 0, (Family(0, b"f"), Family(1, b"g", versions=3)))
NAMES: list[Name] = [(b"f", b"a"), (b"f", b"b")]
CLIENT = b"c" * 16


def arranged(batch: RowBatch, config: Config | None = None) -> ArrangedBatch:
    return arrange_rows(batch, TABLE, config or Config(), timestamp_max=1 << 50, stamp_at_least=10)


def lines_of(batch: ArrangedBatch, family: int = 0) -> FamilyLines:
    lines = batch.parts[family].lines
    assert lines is not None
    return lines


def many(count: int, value: bytes = b"v" * 50) -> RowBatch:
    return row_batch(NAMES, [(b"%06d" % number, None, [value, b"%d" % number]) for number in range(count)])


# ---- arranging


def test_rows_in_order_are_not_copied() -> None:
    batch = row_batch(NAMES, [(b"1", None, [b"x", b"yz"]), (b"2", None, [b"z", b""])])
    lines = lines_of(arranged(batch))
    assert lines.qualifiers == (b"a", b"b")
    assert lines.timestamps is None
    assert lines.columns[0].type == pa.binary(1)  # all values have one length
    assert lines.columns[1].type == pa.binary()
    for array, came in ((lines.rows, batch.rows), (lines.columns[1], batch.columns[1])):
        held, sent = array.buffers()[2], came.buffers()[2]
        assert held is not None
        assert sent is not None
        assert held.address == sent.address


def test_it_calls_between_after_each_column_that_it_sorts() -> None:
    called: list[int] = []

    def calls_for(*rows: bytes) -> int:
        called.clear()
        batch = row_batch(NAMES, [(row, None, [b"x", b"y"]) for row in rows])
        arrange_rows(batch, TABLE, Config(), timestamp_max=1 << 50, stamp_at_least=10, between=lambda: called.append(1))
        return len(called)

    in_order = calls_for(b"1", b"2")
    assert in_order > 2
    assert calls_for(b"2", b"1") == in_order + 1 + 2


def test_columns_are_sorted_and_rows_too() -> None:
    names = [(b"g", b"b"), (b"f", b"z"), (b"g", b"a")]
    batch = arranged(row_batch(names, [(b"2", 7, [b"1", b"2", b"3"]), (b"1", None, [b"4", b"5", b"6"])]))
    assert (batch.first_row, batch.last_row, batch.cell_count, batch.row_count) == (b"1", b"2", 6, 2)
    of_g = lines_of(batch, 1)
    assert of_g.qualifiers == (b"a", b"b")
    assert of_g.rows.to_pylist() == [b"1", b"2"]
    assert [column.to_pylist() for column in of_g.columns] == [[b"6", b"3"], [b"4", b"1"]]
    assert of_g.numbered(5, 10).timestamps.tolist() == [[10, 7]]


def test_only_repeated_rows_become_cells() -> None:
    rows: list[Row] = [(b"k", None, [b"1", b"2"]), (b"j", None, [b"0", b"0"]), (b"k", None, [None, b"3"])]
    batch = arranged(row_batch(NAMES, rows))
    part = batch.parts[0]
    assert lines_of(batch).rows.to_pylist() == [b"j"]
    assert part.cells is not None
    assert part.cells.column("value").to_pylist() == [b"1", b"3"]
    assert (batch.cell_count, batch.row_count) == (4, 2)


def test_deletes_become_cells_and_values_beside_them_stay_lines() -> None:
    rows: list[Row] = [(b"j", None, [b"1", None]), (b"k", None, [b"2", b"3"])]
    batch = arranged(row_batch(NAMES, rows, nulls_delete=True))
    part = batch.parts[0]
    assert lines_of(batch).cell_count == 3
    assert part.cells is not None
    assert part.cells.select(["row", "qualifier"]).to_pylist() == [{"row": b"j", "qualifier": b"b"}]


def test_a_row_without_values_has_no_line() -> None:
    rows: list[Row] = [(b"i", None, [None, None]), (b"j", None, [b"1", None]), (b"k", None, [None, None])]
    batch = arranged(row_batch(NAMES, rows))
    assert lines_of(batch).rows.to_pylist() == [b"j"]
    assert lines_of(batch).qualifiers == (b"a",)
    assert (batch.first_row, batch.last_row, batch.row_count) == (b"j", b"j", 1)
    nothing = arranged(row_batch(NAMES, rows[:1]))
    assert (nothing.parts, nothing.cell_count, nothing.row_count) == ({}, 0, 0)


def test_large_rows_and_sparse_columns_become_cells() -> None:
    rows: list[Row] = [(b"%03d" % number, None, [b"v", None]) for number in range(100)]
    rows[3] = (b"003", None, [b"x" * 70_000, None])
    rows[5] = (b"005", None, [b"v", b"rare"])
    part = arranged(row_batch(NAMES, rows)).parts[0]
    assert part.lines is not None
    assert len(part.lines) == 99
    assert part.lines.qualifiers == (b"a",)
    assert part.cells is not None
    assert part.cells.select(["row", "qualifier"]).to_pylist() == [
        {"row": b"003", "qualifier": b"a"},
        {"row": b"005", "qualifier": b"b"},
    ]


def test_a_few_long_values_do_not_make_a_column_of_zeros() -> None:
    rows: list[Row] = [(b"%03d" % number, None, [b"v", None if number % 4 else b"x" * 1000]) for number in range(100)]
    assert lines_of(arranged(row_batch(NAMES, rows))).columns[1].type == pa.binary()


def test_few_bytes_that_would_be_many_as_cells_are_refused() -> None:
    """1,000 columns of a byte: each cell of a repeated row repeats its key."""
    names = [(b"f", b"%d" % place) for place in range(1000)]
    rows: list[Row] = [(b"k" * 1000, None, [b"v"] * 1000)] * 2
    batch = row_batch(names, rows)
    with pytest.raises(LimitExceededError, match="repeated rows") as refused:
        arranged(batch, Config(request_bytes_max=1 << 20))
    assert refused.value.limit == "request_bytes_max"
    assert arranged(batch).cell_count == 1000


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([], "has no rows"),
        ([(b"ok", None, [b"", b""]), (b"", None, [b"", b""])], "row 1 of the bulk batch has an empty key"),
        ([(b"r" * 11, None, [b"", b""])], "key of row 'rrrrrrrrrrr' of the bulk batch has 11 bytes, more than row_b"),
        ([(b"r", None, [b"", b"x" * 21])], "value of row 'r' in column f:b of the bulk batch has 21 bytes"),
        ([(b"r", -1, [b"", b""])], "timestamp -1 "),
        ([(b"r", 1 << 51, [b"", b""])], "timestamp_ahead_ms_max"),
    ],
)
def test_rows_beyond_a_limit_are_refused(rows: list[Row], message: str) -> None:
    with pytest.raises(InvalidRequestError, match=message):
        arranged(row_batch(NAMES, rows), Config(row_bytes_max=10, qualifier_bytes_max=5, cell_bytes_max=20))


def test_names_beyond_a_limit_and_of_no_family_are_refused() -> None:
    with pytest.raises(LimitExceededError, match="qualifier of column f:qqqqqq"):
        arranged(row_batch([(b"f", b"q" * 6)], [(b"r", None, [b"v"])]), Config(qualifier_bytes_max=5))
    with pytest.raises(FamilyNotFoundError):
        arranged(row_batch([(b"x", b"q")], [(b"r", None, [b"v"])]))


def test_bytes_below_a_null_do_not_count() -> None:
    long = pa.array([b"x" * 100, b"y"], pa.binary())
    hidden = pa.Array.from_buffers(pa.binary(), 2, [pa.py_buffer(b"\x02"), *long.buffers()[1:]])
    batch = RowBatch(pa.array([b"1", b"2"], pa.binary()), pa.nulls(2, pa.int64()), ((b"f", b"q"),), (hidden,))
    assert arranged(batch, Config(cell_bytes_max=20)).cell_count == 1


# ---- applying


@pytest.fixture(params=[3, 500])
def count(request: pytest.FixtureRequest) -> int:
    assert isinstance(request.param, int)
    return request.param


def test_a_batch_is_one_write_and_is_read_back(engine: Engine, count: int) -> None:
    before = engine.region.statistics().read_point
    outcome = engine.bulk(many(count))
    assert isinstance(outcome, BulkResult)
    assert (outcome.cell_count, outcome.row_count) == (2 * count, count)
    assert engine.region.statistics().read_point == before + 1
    assert engine.values(b"000002") == {b"f:a": b"v" * 50, b"f:b": b"2"}
    assert len(engine.scan()) == 2 * count


@pytest.mark.parametrize("ended", ["stopped", "flushed", "crashed"])
def test_a_batch_is_there_after_a_restart(engine: Engine, count: int, ended: str) -> None:
    engine.bulk(many(count))
    scanned = engine.scan()
    if ended == "flushed":
        engine.server.flush("t")
    if ended == "stopped":
        engine.restart()
    else:
        engine.crash()
    assert engine.scan() == scanned


def segments(lone: LoneRegion) -> list[str]:
    """The segments of family f."""
    return [type(segment).__name__ for segment in lone.parts.stores.all()[0].memstore.sources()]


def test_a_batch_that_is_large_as_cells_is_a_segment_and_one_that_is_large_has_a_file(tmp_path: Path) -> None:
    lone = LoneRegion(tmp_path, Config(bulk_file_bytes_min=10_000))
    lone.bulk(many(5))
    assert segments(lone) == ["RowSegment"]
    for rows, file_count in ((120, 0), (500, 1)):
        lone.bulk(many(rows))
        assert segments(lone)[1] == "LinesSegment"
        assert len(list((lone.folder / "bulk").iterdir())) == file_count
    scanned = lone.scan()
    lone.crash()
    assert segments(lone) == ["RowSegment", "LinesSegment", "LinesSegment"]
    assert lone.scan() == scanned
    lone.flush()
    assert lone.scan() == scanned
    lone.stop()


def test_a_null_shows_what_is_older_and_empty_bytes_hide_it(lone: LoneRegion, count: int) -> None:
    names = [*NAMES, (b"f", b"c")]
    older: list[Row] = [(b"%06d" % number, None, [b"1" * 20, b"2" * 20, b"3" * 20]) for number in range(count)]
    a_of_newer = [None if number % 2 else b"n" * 20 for number in range(count)]
    newer: list[Row] = [(b"%06d" % number, None, [a, b"", b"new" * 9]) for number, a in enumerate(a_of_newer)]
    lone.bulk(row_batch(names, older))
    lone.bulk(row_batch(names, newer))
    for then in (lambda: None, lone.crash, lone.flush, lone.crash):
        then()
        assert lone.values(b"000001") == {b"f:a": b"1" * 20, b"f:b": b"", b"f:c": b"new" * 9}
        assert [value for *_, value in lone.scan()] == [
            value for a in a_of_newer for value in (a or b"1" * 20, b"", b"new" * 9)
        ]


def test_deletes_and_values_of_a_batch_share_a_write(lone: LoneRegion, count: int) -> None:
    names = [*NAMES, (b"f", b"c")]
    lone.bulk(row_batch(names, [(b"%06d" % number, None, [b"1", b"2", b"3"]) for number in range(count)]))
    rows: list[Row] = [(b"%06d" % number, None, [b"n" * 40, None, b"o" * 40]) for number in range(count)]
    assert lone.bulk(row_batch(names, rows, nulls_delete=True)) is not None
    for then in (lambda: None, lone.crash, lone.flush, lone.crash):
        then()
        assert lone.values(b"000001") == {b"f:a": b"n" * 40, b"f:c": b"o" * 40}
    lone.change(b"000001", Delete(DeleteKind.ROW))
    assert lone.values(b"000001") == {}


def test_rows_that_say_nothing_write_nothing(lone: LoneRegion) -> None:
    before = lone.region.statistics().read_point
    outcome = lone.bulk(row_batch(NAMES, [(b"r", None, [None, None])]), RequestId(CLIENT, 1, 1))
    assert isinstance(outcome, BulkResult)
    assert (outcome.cell_count, outcome.row_count) == (0, 0)
    assert lone.region.statistics().read_point == before


def test_rows_that_come_again_as_cells_are_one_write(lone: LoneRegion, count: int) -> None:
    rows: list[Row] = [(b"%06d" % number, None, [b"v" * 50, None]) for number in range(count)]
    rows.insert(0, (b"000000", None, [None, None]))
    request = RequestId(CLIENT, 1, 1)
    first = lone.bulk(row_batch(NAMES, rows), request)
    lone.change(b"000001", Put(b"f", b"a", b"later"))
    for again in (cell_batch(NAMES, rows), row_batch(NAMES, rows)):
        repeated = lone.bulk(again, request)
        assert isinstance(first, BulkResult)
        assert isinstance(repeated, BulkResult)
        assert repeated == BulkResult(count, count, first.timestamp, repeated_request=True)
        assert lone.values(b"000001") == {b"f:a": b"later"}
        lone.crash()


def test_a_row_outside_the_region_is_refused(lone: LoneRegion, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lone.region.bulk_load, "_stop", b"000003")
    with pytest.raises(NotServingRegionError, match="000004"):
        lone.bulk(many(5))
    assert isinstance(lone.bulk(many(3)), BulkResult)


def test_a_batch_that_meets_an_alter_is_checked_against_the_new_families(lone: LoneRegion, count: int) -> None:
    lone.steps.at_next(Step.ALONE, lambda: lone.alter(drop_families=[b"f"]))
    with pytest.raises(FamilyNotFoundError):
        lone.bulk(many(count))
    assert list((lone.folder / "bulk").iterdir()) == []
    assert lone.scan() == []


def test_a_batch_that_the_log_refuses_leaves_nothing(lone: LoneRegion, count: int) -> None:
    for _ in range(6):
        lone.bulk(many(500))
    lone.bulk(many(3, b"before"))
    scanned, held = lone.scan(), lone.region.memstore_bytes
    lone.log.refuses = True
    with pytest.raises(StoppingError):
        lone.bulk(
            row_batch(
                NAMES, [(b"%06d" % number, None, [b"new" * 20, None]) for number in range(count)], nulls_delete=True
            )
        )
    assert lone.scan() == scanned
    # Lines of earlier batches may have been merged.
    assert lone.region.memstore_bytes <= held
    lone.log.refuses = False


def test_a_family_that_was_dropped_is_not_replayed(lone: LoneRegion) -> None:
    names = [(b"f", b"a"), (b"g", b"a")]
    lone.bulk(row_batch(names, [(b"%06d" % number, None, [b"f" * 50, b"g" * 50]) for number in range(500)]))
    lone.alter(drop_families=[b"f"])
    lone.crash()
    assert {family for _, family, *_ in lone.scan()} == {b"g"}


def test_the_memory_of_a_message_is_counted_once(lone: LoneRegion) -> None:
    rows = 2000
    values = pa.array([b"%08d" % number for number in range(rows)], pa.binary())
    message = pa.py_buffer(b"".join(buffer.to_pybytes() for buffer in values.buffers() if buffer is not None))
    offsets_bytes = 4 * (rows + 1)
    shared = pa.Array.from_buffers(
        pa.binary(), rows, [None, message.slice(0, offsets_bytes), message.slice(offsets_bytes)]
    )
    names = ((b"f", b"a"), (b"g", b"a"))
    before = lone.region.memstore_bytes
    lone.bulk(RowBatch(shared, pa.nulls(rows, pa.int64()), names, (shared, shared)))
    beside = 8 * (rows + 10) + 2000 + SegmentFilter(shared).byte_count
    assert message.size <= lone.region.memstore_bytes - before < message.size + 2 * beside


# ---- the log


def log_versions(lone: LoneRegion) -> list[int]:
    paths = sorted((lone.folder / "log").glob("0*.wal"))
    return [decode_segment_header(path, path.read_bytes()).version for path in paths]


def test_an_older_server_refuses_a_log_with_rows_and_only_that(tmp_path: Path, count: int) -> None:
    """It would not know this kind of record. Batches of cells are logged as before."""
    lone = LoneRegion(tmp_path, Config(log_segment_bytes=1 << 16, bulk_file_bytes_min=4096))
    lone.bulk(bulk_batch(*[(b"%06d" % number, b"f", b"q", None, b"v" * 50) for number in range(count)]))
    lone.bulk(row_batch(NAMES, [(b"k", None, [b"1", None]), (b"k", None, [None, b"2"])]))  # cells only
    lone.crash()
    assert set(log_versions(lone)) == {2}
    lone.bulk(many(count))
    lone.bulk(many(count))
    assert log_versions(lone)[-2:] == [2, 3]
    scanned = lone.scan()
    lone.crash()
    assert log_versions(lone)[-2:] == [3, 3]
    assert lone.scan() == scanned
    lone.stop()


# ---- flushing


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The types of what flushes get from their windows."""
    found: list[str] = []

    def recorded(*arguments: Any, **options: Any) -> Iterator[pa.Table | Lines]:
        for piece in retained_tables(*arguments, **options):
            found.append(type(piece).__name__)
            yield piece

    monkeypatch.setattr(flush, "retained_tables", recorded)
    return found


def test_lines_of_different_rows_pass_a_flush_as_they_are(lone: LoneRegion, written: list[str]) -> None:
    for part in range(3):
        rows: list[Row] = [(b"%06d" % (3 * number + part), None, [b"v" * 50, None]) for number in range(300)]
        lone.bulk(row_batch(NAMES, rows))
    scanned = lone.scan()
    lone.flush()
    assert set(written) == {"Lines"}
    assert lone.scan() == scanned


def test_lines_of_one_row_become_one_line(lone: LoneRegion, written: list[str]) -> None:
    lone.bulk(many(300))
    lone.bulk(many(300, b"newer" * 10))
    scanned = lone.scan()
    assert lone.flush().cell_count == len(scanned)
    assert set(written) == {"Lines"}
    assert lone.scan() == scanned


def test_lines_of_one_row_of_which_older_ones_are_read_are_merged_as_cells(
    lone: LoneRegion, written: list[str]
) -> None:
    lone.bulk(many(300))
    reader = lone.region.open_read_point()
    lone.bulk(many(300, b"newer" * 10))
    scanned = lone.scan()
    lone.flush()
    assert set(written) == {"Table"}
    assert lone.scan() == scanned
    lone.region.close_read_point(reader)


# ---- many small batches


@pytest.mark.parametrize("rows", ["new", "the same"])
def test_a_stream_of_small_batches_makes_no_pile_of_segments(tmp_path: Path, rows: str) -> None:
    clock = ManualClock()
    config = Config(bulk_file_bytes_min=1000)
    lone, twin = (LoneRegion(_made(tmp_path / name), config, clock, Files(), Durability.OS) for name in ("a", "b"))
    for turn in range(40):
        first = 20 * turn if rows == "new" else 0
        batch: list[Row] = [(b"%06d" % (first + number), None, [b"%d" % turn * 20, b"x"]) for number in range(20)]
        lone.bulk(row_batch([(b"g", b"a"), (b"g", b"b")], batch))
        twin.bulk(cell_batch([(b"g", b"a"), (b"g", b"b")], batch))
        clock.advance(1)
        if turn == 25:
            lone.flush()
    sources = lone.parts.stores.all()[1].memstore.sources()
    assert sum(isinstance(source, LinesSegment) for source in sources) < 6  # of 14 batches since the flush
    assert lone.scan() == twin.scan()
    assert lone.cells(b"000003", versions=5) == twin.cells(b"000003", versions=5)
    assert lone.region.memstore_bytes == sum(store.memstore.bytes_held for store in lone.parts.stores.all())
    lone.crash()
    assert lone.scan() == twin.scan()
    lone.flush()
    assert lone.scan() == twin.scan()
    lone.stop()
    twin.stop()


def _made(folder: Path) -> Path:
    folder.mkdir()
    return folder


@pytest.mark.parametrize("kind", ["lines", "cells"])
@pytest.mark.parametrize("stamps", [(None, None), (None, 5), (7, 5)], ids=["none", "some", "all"])
def test_segments_get_the_stamp_of_when_the_batch_has_the_gate(
    tmp_path: Path, stamps: tuple[int | None, int | None], kind: str
) -> None:
    clock = ManualClock()
    lone = LoneRegion(tmp_path, Config(bulk_file_bytes_min=0), clock, Files(), Durability.OS)
    lone.steps.at_next(Step.ALONE, lambda: clock.advance(30))
    rows: list[Row] = [(b"r", stamps[0], [b"x", b"y"]), (b"s", stamps[1], [b"z", b"z"])]
    outcome = lone.bulk(row_batch(NAMES, rows) if kind == "lines" else cell_batch(NAMES, rows))
    stamp = clock.now_ms()
    assert outcome == BulkResult(cell_count=4, row_count=2, timestamp=stamp)
    at_r, at_s = (stamp if own is None else own for own in stamps)
    expected = {
        b"r": [(b"f", b"a", at_r, b"x"), (b"f", b"b", at_r, b"y")],
        b"s": [(b"f", b"a", at_s, b"z"), (b"f", b"b", at_s, b"z")],
    }
    assert {row: lone.cells(row) for row in expected} == expected
    (segment,) = [segment for store in lone.parts.stores.all() for segment in store.memstore.sources()[1:]]
    assert isinstance(segment, LinesSegment if kind == "lines" else ArrowSegment)
    chunk = segment.read_rows(b"", b"", 1000)
    assert set(chunk.table.column("timestamp").to_pylist()) == {at_r, at_s}
    assert (chunk.timestamp_min, segment.timestamp_max) == (min(at_r, at_s), max(at_r, at_s))
    assert set(chunk.table.column("write_number").to_pylist()) == {segment.write_number_min}
    assert segment.write_number_min == segment.write_number_max == chunk.write_number_max
    segment._check()
    lone.crash()
    assert {row: lone.cells(row) for row in expected} == expected
    lone.stop()
