"""A store file returns the cells that were written into it."""

from __future__ import annotations

import gc
import os
import threading
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pytest
from rowlock_regionserver.cells import CELL_SCHEMA, NEWEST, PUT, Cell, Compression, Kind
from rowlock_regionserver.errors import CorruptionError, DataFolderError
from rowlock_regionserver.files import Files
from rowlock_regionserver.sources import RowPlace
from rowlock_regionserver.storefile import format as layout
from rowlock_regionserver.storefile.cache import BlockCache
from rowlock_regionserver.storefile.open_files import OpenFiles
from rowlock_regionserver.storefile.reader import StoreFile

from tests.unit.storefile import flipping
from tests.unit.storefile.store_file_case import (
    Case,
    RowCell,
    cells_of,
    cells_run,
    chunks_of,
    loaded_cells,
    rows_of,
    simple_cells,
)


def wide_row(row: bytes, column_count: int) -> list[RowCell]:
    return [(row, (b"c%04d" % column, -5, -7, PUT, b"v" * 30)) for column in range(column_count)]


def test_each_row_reads_back_and_rows_that_are_not_there_are_empty(case: Case) -> None:
    cells = simple_cells(40, 3)
    store_file = case.written(cells)
    assert store_file.info.block_count > 10
    for row, row_cells in rows_of(cells).items():
        assert list(store_file.row_cells(row)) == row_cells
        assert list(store_file.row_cells(row + b"\0")) == []
    assert list(store_file.row_cells(b"a")) == []
    assert list(store_file.row_cells(b"z")) == []


def test_a_row_that_spans_many_blocks_reads_back_whole(case: Case) -> None:
    cells = [*wide_row(b"a", 1), *wide_row(b"b", 50), *wide_row(b"c", 1)]
    store_file = case.written(cells)
    assert len({row for row, _ in store_file.row_weights()}) < store_file.info.block_count
    for row, row_cells in rows_of(cells).items():
        assert list(store_file.row_cells(row)) == row_cells


def test_a_cell_larger_than_a_block_reads_back(case: Case) -> None:
    cells: list[RowCell] = [
        (b"a", (b"", -1, -1, PUT, b"")),
        (b"b", (b"big", -1, -1, PUT, os.urandom(100_000))),
        (b"b", (b"small", -1, -1, PUT, b"s")),
    ]
    store_file = case.written(cells)
    for row, row_cells in rows_of(cells).items():
        assert loaded_cells(store_file.row_cells(row)) == row_cells
    assert cells_of(store_file.read_rows(b"", b"", 1 << 30).table) == cells


@pytest.mark.parametrize("compression", Compression)
def test_each_compression_reads_back_and_compresses(case: Case, compression: Compression) -> None:
    cells = simple_cells(1000, 2, value_bytes=100)
    case.family = replace(case.family, block_bytes=100_000)
    info = case.write(cells, compression=compression)
    store_file = case.open(info)
    assert cells_of(store_file.read_rows(b"", b"", 1 << 30).table) == cells
    assert list(store_file.row_cells(b"r00500")) == rows_of(cells)[b"r00500"]
    if compression is not Compression.NONE:
        assert info.file_bytes < case.write(cells).file_bytes / 2


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("bytes_max", [1, 400, 1500, 1 << 30])
def test_chunks_hold_whole_rows_and_together_the_range(case: Case, bytes_max: int, reverse: bool) -> None:
    cells = [*simple_cells(30, 2), *wide_row(b"s", 40), *[(b"t" + row, cell) for row, cell in simple_cells(5)]]
    store_file = case.written(cells)
    for start, stop in [(b"", b""), (b"r00003", b"r00017"), (b"r00003\0", b"t"), (b"s", b"s\0"), (b"s\0", b"")]:
        expected = [cell for cell in cells if start <= cell[0] and (not stop or cell[0] < stop)]
        chunks = chunks_of(store_file, start, stop, bytes_max, reverse=reverse)
        tables = [cells_of(chunk.table) for chunk in (reversed(chunks) if reverse else chunks)]
        assert [cell for table in tables for cell in table] == expected
        for before, after in pairwise(tables):
            assert before[-1][0] < after[0][0], "a row was divided"


@pytest.mark.parametrize("reverse", [False, True])
def test_a_chunk_stays_near_its_bytes(case: Case, reverse: bool) -> None:
    store_file = case.written(simple_cells(300))
    cell_bytes = 6 + 4 + 20 + 29
    chunks = chunks_of(store_file, b"", b"", 10 * cell_bytes, reverse=reverse)
    assert all(chunk.table.num_rows <= 10 for chunk in chunks)
    assert len(chunks) <= 300 / 4
    one_block = case.written(simple_cells(300))
    chunk = one_block.read_rows(b"r00100", b"r00200", 10 * cell_bytes, reverse=reverse)
    assert 1 <= chunk.table.num_rows <= 10


def test_a_small_budget_reads_each_block_once(case: Case) -> None:
    case.family = replace(case.family, block_bytes=10_000)
    store_file = case.written(simple_cells(300))
    assert len(chunks_of(store_file, b"", b"", 500)) > 30
    assert store_file.statistics().block_read_count == store_file.info.block_count


def test_an_empty_range_and_an_empty_file_give_an_empty_chunk(case: Case) -> None:
    store_file = case.written(simple_cells(10))
    for source, start, stop in [
        (store_file, b"r00003\0", b"r00004"),
        (store_file, b"x", b""),
        (case.written([]), b"", b""),
    ]:
        for reverse in (False, True):
            chunk = source.read_rows(start, stop, 100, reverse=reverse)
            assert chunk.table.schema.equals(CELL_SCHEMA)
            assert chunk.table.num_rows == 0
            assert chunk.frontier is None


def test_an_empty_file_has_the_write_numbers_of_an_empty_source(case: Case) -> None:
    store_file = case.written([])
    assert (store_file.write_number_min, store_file.write_number_max) == (NEWEST, 0)
    assert list(store_file.row_cells(b"a")) == []
    assert store_file.row_weights() == []


def test_uncompressed_cells_are_not_copied_by_a_bulk_read(case: Case) -> None:
    case.family = replace(case.family, block_bytes=100_000)
    store_file = case.written(simple_cells(1000))
    before = pa.total_allocated_bytes()
    table = store_file.read_rows(b"", b"", 1 << 30).table
    held = pa.total_allocated_bytes() - before
    assert table.num_rows == 1000
    assert held <= store_file.info.file_bytes
    (batch,) = table.to_batches()
    buffers = [batch.column(name).buffers()[1] for name in ("row", "qualifier", "value")]
    addresses = [buffer.address for buffer in buffers if buffer]
    assert max(addresses) - min(addresses) < store_file.info.file_bytes, "the columns are not in one piece of memory"


def test_flags_of_chunks_tell_of_tombstones_and_versions(case: Case) -> None:
    plain = case.written(simple_cells(3)).read_rows(b"", b"", 100)
    assert (plain.has_tombstones, plain.has_versions) == (False, False)
    assert (plain.write_number_max, plain.timestamp_min) == (3, 1000)
    versions: list[Cell] = [(b"q", -2, -2, PUT, b"b"), (b"q", -1, -1, PUT, b"a")]
    chunk = case.written([(b"r", cell) for cell in versions]).read_rows(b"", b"", 100)
    assert (chunk.has_tombstones, chunk.has_versions) == (False, True)
    tombstone: Cell = (b"", -2, -2, int(Kind.DELETE_FAMILY), b"")
    chunk = case.written([(b"r", tombstone), (b"r", (b"q", -1, -1, PUT, b""))]).read_rows(b"", b"", 100)
    assert (chunk.has_tombstones, chunk.has_versions) == (True, False)


class PartlyInMemory(Files):
    """A system that has only the first bytes in memory of whatever is read; None: nothing."""

    def __init__(self, count: int | None) -> None:
        super().__init__()
        self._count = count

    def pread_into_at_once(self, descriptor: int, buffer: memoryview, offset: int) -> int | None:
        return self._count


def test_a_row_is_in_memory_when_it_was_read_or_is_certainly_not_there(tmp_path: Path) -> None:
    case = Case(tmp_path, PartlyInMemory(None))
    cells = [*simple_cells(50), *wide_row(b"s", 20)]
    store_file = case.written(cells)
    assert store_file.row_source(b"r00007") is RowPlace.DISK
    store_file.row_cells(b"r00007")
    assert store_file.row_source(b"r00007") is store_file
    assert store_file.row_source(b"s") is RowPlace.DISK
    store_file.row_cells(b"s")
    assert store_file.row_source(b"s") is store_file
    assert store_file.row_source(b"a") is RowPlace.NOWHERE
    assert store_file.row_source(b"z") is RowPlace.NOWHERE
    absent = [b"r%05dx" % number for number in range(50)]
    assert sum(store_file.row_source(row) is RowPlace.NOWHERE for row in absent) > 40


@pytest.mark.skipif(not hasattr(os, "RWF_NOWAIT"), reason="only Linux tells what it has in memory")
def test_a_row_in_the_page_cache_is_loaded_into_the_block_cache(case: Case) -> None:
    store_file = case.written(simple_cells(50))
    assert store_file.row_source(b"r00030") is store_file
    assert store_file.statistics().block_read_count == 1
    assert store_file.row_cells(b"r00030")
    assert store_file.statistics().block_read_count == 1


def test_a_row_of_many_blocks_is_left_to_a_thread_that_may_block(case: Case) -> None:
    """Because the event loop asks, and reading megabytes would block all other requests."""
    store_file = case.written(wide_row(b"s", 2000))
    assert store_file.row_source(b"s") is RowPlace.DISK
    assert store_file.statistics().block_read_count == 0
    store_file.row_cells(b"s")
    assert store_file.statistics().block_read_count > 2


@pytest.mark.parametrize("count", [None, 10])
def test_a_block_not_all_in_the_page_cache_is_left_to_a_thread_that_may_block(
    tmp_path: Path, count: int | None
) -> None:
    store_file = Case(tmp_path, PartlyInMemory(count)).written(simple_cells(50))
    assert store_file.row_source(b"r00030") is RowPlace.DISK
    assert store_file.statistics().block_read_count == 0


def test_damage_found_by_a_nonblocking_read_is_raised_by_the_blocking_read(tmp_path: Path) -> None:
    bench = flipping.make(tmp_path)
    store_file = bench.open()
    first_block, *_ = flipping.structures(bench)["block payloads"]
    flipping.flip(bench.path, first_block[0], 0)
    row = store_file.rows.first
    assert store_file.row_source(row) is RowPlace.DISK
    with pytest.raises(CorruptionError):
        store_file.row_cells(row)


def test_a_cached_row_is_not_read_from_the_disk_again(case: Case) -> None:
    store_file = case.written(simple_cells(50))
    for _ in range(3):
        store_file.row_cells(b"r00030")
    assert store_file.statistics().block_read_count == 1


def test_without_a_bloom_filter_rows_are_found_by_range_and_index(case: Case) -> None:
    case.family = replace(case.family, bloom_filter=False)
    store_file = case.written(simple_cells(50))
    assert store_file.rows.may_hold(b"r00007x")
    assert list(store_file.row_cells(b"r00007x")) == []
    assert len(store_file.row_cells(b"r00007")) == 1


def test_block_boundaries_divide_the_file_by_rows(case: Case) -> None:
    cells = [*simple_cells(20), *wide_row(b"s", 40)]
    store_file = case.written(cells)
    boundaries = store_file.row_weights()
    rows = [row for row, _ in boundaries]
    assert rows == sorted(set(rows))
    assert rows[0] == b"r00000"
    assert set(rows) <= {row for row, _ in cells}
    assert sum(byte_count for _, byte_count in boundaries) <= store_file.info.file_bytes


def open_descriptors(path: Path) -> int:
    links = Path("/proc/self/fd")
    return sum(os.path.samefile(link, path) for link in links.iterdir() if link.exists())


def test_the_descriptor_is_released_with_the_last_reference_and_cells_stay_valid(case: Case) -> None:
    cells = simple_cells(50)
    store_file = case.written(cells)
    other = case.open(store_file.info)
    assert open_descriptors(case.path) == 2
    chunk = store_file.read_rows(b"", b"", 1 << 30)
    del store_file
    gc.collect()
    case.open_files.close_released()
    assert open_descriptors(case.path) == 1
    case.path.unlink()
    assert cells_of(chunk.table) == cells
    assert list(other.row_cells(b"r00003")) == [cells[3][1]]


def test_blocks_of_a_released_store_file_leave_the_cache(case: Case) -> None:
    cache = BlockCache(1 << 20)
    info = case.write(simple_cells(50))
    store_file = cells_run(StoreFile.open(case.path, info, cache, case.open_files))
    store_file.row_cells(b"r00003")
    assert cache.statistics().block_count == 1
    del store_file
    gc.collect()
    assert cache.statistics().block_count == 0
    assert cache.statistics().bytes_held == 0


def test_many_threads_read_at_once_with_a_cache_that_is_too_small(case: Case) -> None:
    cells = simple_cells(200, 2)
    rows = rows_of(cells)
    store_file = case.written(cells, cache_bytes=30_000)
    wrong: list[object] = []

    def read(first: int) -> None:
        for number in range(first, first + 300):
            row = b"r%05d" % (number * 7 % 200)
            if list(store_file.row_cells(row)) != rows[row]:
                wrong.append(row)
        if cells_of(store_file.read_rows(b"", b"", 1 << 30).table) != cells:
            wrong.append("scan")

    threads = [threading.Thread(target=read, args=(first,)) for first in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_an_info_that_does_not_fit_the_file_is_refused(case: Case) -> None:
    info = case.write(simple_cells(10))
    for changes in (
        {"file_bytes": info.file_bytes + 1},
        {"metadata_offset": info.metadata_offset + 8},
        {"metadata_checksum": info.metadata_checksum ^ 1},
        {"cell_count": 11},
        {"number": 2},
        {"has_versions": True},
    ):
        with pytest.raises(CorruptionError) as refusal:
            case.open(replace(info, **changes))
        assert refusal.value.path == case.path
    assert open_descriptors(case.path) == 0


class UnreadableSector(Files):
    """A disk that can't read from an offset on."""

    def __init__(self, first: int) -> None:
        self.first = first

    def pread_into(self, descriptor: int, buffers: Sequence[memoryview], offset: int) -> int:
        if offset + sum(map(len, buffers)) > self.first:
            raise OSError(5, "Input/output error")
        return super().pread_into(descriptor, buffers, offset)


class ShortReads(Files):
    """A disk that returns at most 100 bytes a call."""

    def pread_into(self, descriptor: int, buffers: Sequence[memoryview], offset: int) -> int:
        return super().pread_into(descriptor, [buffers[0][:100]], offset)


def test_a_sector_that_the_disk_can_not_read_is_a_corruption_with_its_place(case: Case) -> None:
    info = case.write(simple_cells(50))
    disk = UnreadableSector(1 << 62)
    store_file = cells_run(StoreFile.open(case.path, info, BlockCache(0), OpenFiles(disk)))
    disk.first = 0
    with pytest.raises(CorruptionError, match="Input/output error"):
        store_file.row_cells(b"r00003")


def test_short_reads_are_continued(case: Case) -> None:
    cells = simple_cells(50)
    info = case.write(cells)
    store_file = cells_run(StoreFile.open(case.path, info, BlockCache(0), OpenFiles(ShortReads())))
    assert cells_of(store_file.read_rows(b"", b"", 1 << 30).table) == cells


def test_a_block_that_is_kept_does_not_keep_those_that_were_read_with_it(case: Case) -> None:
    case.family = replace(case.family, block_bytes=10_000)
    store_file = case.written(simple_cells(3000))
    before = pa.total_allocated_bytes()
    table = store_file.read_rows(b"", b"", 1 << 30).table.slice(0, 10)
    assert 0 < pa.total_allocated_bytes() - before < 25_000
    assert table.num_rows == 10


def test_a_file_that_is_cut_while_it_is_open_is_a_corruption(case: Case) -> None:
    store_file = case.written(simple_cells(50))
    os.truncate(case.path, 9000)
    with pytest.raises(CorruptionError, match="end"):
        store_file.read_rows(b"", b"", 1 << 30)


def test_a_file_of_a_newer_format_is_named_as_such(case: Case) -> None:
    info = case.write(simple_cells(10))
    raw = bytearray(case.path.read_bytes())
    header = layout.unpack_header(bytes(raw[info.metadata_offset :][: layout.HEADER_BYTES]), case.path, 0)
    newer = replace(header, version=4).pack()
    raw[info.metadata_offset : info.metadata_offset + layout.HEADER_BYTES] = newer
    case.path.write_bytes(raw)
    with pytest.raises(DataFolderError, match="format version 4"):
        case.open(info)
