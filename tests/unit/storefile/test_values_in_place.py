"""Values that a scan reads from the file straight to their places in its answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NoReturn

import numpy as np
import pyarrow as pa
import pytest
from rowlock_regionserver.arrow.columns import Column, binary_array
from rowlock_regionserver.arrow.compressed_columns import CompressedColumn, decompress_together, plain
from rowlock_regionserver.arrow.line_values import fixed_size
from rowlock_regionserver.arrow.lines import Lines
from rowlock_regionserver.cells import Compression
from rowlock_regionserver.errors import CorruptionError
from rowlock_regionserver.sources import LinesWanted
from rowlock_regionserver.storefile import chunk_reads
from rowlock_regionserver.storefile import format as layout
from rowlock_regionserver.storefile.cache import BlockCache
from rowlock_regionserver.storefile.cell_run import CellRun
from rowlock_regionserver.storefile.clipped_run import ClippedRun
from rowlock_regionserver.storefile.reader import StoreFile
from rowlock_regionserver.storefile.stored_block import StoredBlocks
from rowlock_regionserver.storefile.wide_blocks import WideBlocks
from rowlock_regionserver.storefile.wide_run import WideRun

from tests.unit.storefile.flipping import flip
from tests.unit.storefile.store_file_case import Case
from tests.unit.storefile.test_wide_blocks import chunks_of, written

_WIDTHS = (20, 7, 1, 33, 20, 8)
_NAMES = tuple(b"c%d" % place for place in range(len(_WIDTHS)))
_COUNT = 1000


def random_lines() -> Lines:
    """Returns rows with timestamps of their own, and values that don't shrink."""
    chance = np.random.default_rng(11)
    columns = [fixed_size(width, _COUNT, None, pa.py_buffer(chance.bytes(width * _COUNT))) for width in _WIDTHS]
    rows = binary_array([b"k%06d" % number for number in range(_COUNT)])
    return Lines(rows, np.arange(_COUNT).reshape(1, -1) + 5, np.full((1, 1), 7), _NAMES, tuple(columns))


def wide_columns() -> list[Column]:
    """Returns three columns of long values that don't shrink."""
    chance = np.random.default_rng(3)
    return [fixed_size(400, _COUNT, None, pa.py_buffer(chance.bytes(400 * _COUNT))) for _ in range(3)]


def with_column(lines: Lines, place: int, column: Column) -> Lines:
    """Returns the lines with another column at this place."""
    return replace(lines, values=(*lines.values[:place], column, *lines.values[place + 1 :]))


def data_of(column: Column) -> pa.Buffer:
    """Returns the values of a column without offsets."""
    data = column.buffers()[1]
    assert data is not None
    return data


def read_window(
    run: CellRun | WideRun | ClippedRun,
    columns: Sequence[bytes] | None = None,
    *,
    start: bytes = b"",
    stop: bytes = b"",
) -> tuple[Lines, list[CompressedColumn]]:
    """Returns the lines of the range as a scan gets them, and their columns, of which no value is read yet."""
    names = None if columns is None else frozenset(columns)
    found = run.read_rows(start, stop, 1 << 20, lines=LinesWanted(names, compressed=True)).lines
    assert found is not None
    assert found.stored is not None
    assert len(found.stored.slices) > 2
    return found, [column for column in found.values if isinstance(column, CompressedColumn)]


@pytest.fixture(autouse=True)
def small_blocks(case: Case) -> None:
    """Makes blocks of some 250 random lines each."""
    case.family = replace(case.family, block_bytes=16 * 1024)


@pytest.fixture
def run(case: Case) -> WideRun:
    """A run of random lines."""
    return written(case, random_lines())[1]


@pytest.fixture
def whole_blocks(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The numbers of the blocks that are read whole."""
    numbers: list[int] = []
    read = StoredBlocks.read

    def counted(self: StoredBlocks, number: int) -> object:
        numbers.append(number)
        return read(self, number)

    monkeypatch.setattr(StoredBlocks, "read", counted)
    return numbers


def test_values_that_are_stored_as_they_are_are_read_in_place(run: WideRun, whole_blocks: list[int]) -> None:
    found, columns = read_window(run)
    lines = random_lines()
    decompress_together(columns)
    assert [plain(column) for column in columns] == list(lines.columns)
    assert found.rows.equals(lines.rows)
    assert (found.timestamps == lines.timestamps).all()
    assert (found.write_numbers == 7).all()
    assert run.statistics().block_read_count == len(columns[0].lines.slices)
    assert not whole_blocks


def test_later_scans_find_the_keys_in_the_cache(case: Case) -> None:
    lines = random_lines()
    cache = BlockCache(4 << 20)
    _, run = written(case, lines, cache=cache)
    reads = []
    for _ in range(2):
        before = run.statistics().block_read_bytes
        found, columns = read_window(run)
        decompress_together(columns)
        assert found.rows.equals(lines.rows)
        assert (found.timestamps == lines.timestamps).all()
        assert [plain(column) for column in columns] == list(lines.columns)
        reads.append(run.statistics().block_read_bytes - before)
    value_bytes = sum(_WIDTHS) * _COUNT
    assert reads[0] > value_bytes
    assert reads[1] == value_bytes
    # The rows and timestamps, decompressed.
    assert cache.statistics().bytes_held > found.rows.nbytes + 8 * _COUNT


def test_keys_of_a_file_that_is_large_for_the_cache_are_not_kept(case: Case) -> None:
    cache = BlockCache(64 << 10)
    _, run = written(case, random_lines(), cache=cache)
    reads = []
    for _ in range(2):
        before = run.statistics().block_read_bytes
        _, columns = read_window(run)
        decompress_together(columns)
        reads.append(run.statistics().block_read_bytes - before)
    assert reads[0] == reads[1]
    assert not cache.statistics().block_count


def test_keys_are_as_many_as_they_take_in_memory(case: Case) -> None:
    """These rows and timestamps shrink to a tenth."""
    case.family = replace(case.family, compression=Compression.ZSTD)
    lines = random_lines()
    rows = binary_array([b"%0200d" % number for number in range(_COUNT)])
    cache = BlockCache(8 * 210 * _COUNT)
    _, run = written(case, replace(lines, rows=rows, values=tuple(wide_columns()), qualifiers=_NAMES[:3]), cache=cache)
    found, columns = read_window(run)
    decompress_together(columns)
    assert found.rows.equals(rows.slice(0, len(found)))
    # The directory of the first block, by which the scan chooses how it reads.
    assert cache.statistics().block_count <= 1


def test_keys_count_a_form_that_each_block_has_for_itself(case: Case) -> None:
    names = tuple(b"c%03d" % place for place in range(400))
    chance = np.random.default_rng(5)
    columns = [fixed_size(8, 30, None, pa.py_buffer(chance.bytes(8 * 30))) for _ in names]
    rows = binary_array([b"k%06d" % number for number in range(30)])
    lines = Lines(rows, np.full((1, 1), 5), np.full((1, 1), 7), names, tuple(columns))
    cache = BlockCache(1 << 28)
    _, run = written(case, lines, cache=cache)
    _, found = read_window(run)
    decompress_together(found)
    assert [plain(column) for column in found] == columns
    # And the directory of the first block, by which the scan chooses how it reads.
    assert cache.statistics().block_count == len(found[0].lines.slices) + 1
    assert cache.statistics().bytes_held > 1000 * 400 * cache.statistics().block_count


def test_keys_and_directories_are_cached_beside_each_other(case: Case) -> None:
    lines = random_lines()
    _, run = written(case, lines, cache=BlockCache(4 << 20))
    for names in (None, _NAMES[1:2], None, _NAMES[1:2]):
        found, columns = read_window(run, names)
        decompress_together(columns)
        assert found.rows.equals(lines.rows)
        assert plain(columns[-1]).equals(lines.columns[5 if names is None else 1])


def test_a_column_that_is_needed_before_the_others_is_read_alone(run: WideRun, whole_blocks: list[int]) -> None:
    _, columns = read_window(run)
    lines = random_lines()
    before = run.statistics().block_read_bytes
    assert plain(columns[3]).equals(lines.columns[3])
    assert run.statistics().block_read_bytes - before == 33 * _COUNT
    decompress_together(columns)
    assert [plain(column) for column in columns] == list(lines.columns)
    assert not whole_blocks


@pytest.mark.parametrize("gap_bytes_max", [0, 8192])
def test_values_of_other_columns_are_passed_over(
    run: WideRun, whole_blocks: list[int], gap_bytes_max: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chunk_reads, "GAP_BYTES_MAX", gap_bytes_max)
    wanted = (0, 2, 3, 5)
    found, columns = read_window(run, [_NAMES[place] for place in wanted])
    assert found.rows.equals(random_lines().rows)
    before = run.statistics().block_read_bytes
    decompress_together(columns[::-1])
    assert [plain(column) for column in columns] == [random_lines().columns[place] for place in wanted]
    passed_over = _WIDTHS[1] + _WIDTHS[4] if gap_bytes_max else 0
    assert run.statistics().block_read_bytes - before == (20 + 1 + 33 + 8 + passed_over) * _COUNT
    assert not whole_blocks


def test_one_read_has_a_bounded_number_of_buffers(run: WideRun, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunk_reads, "SCATTERED_CHUNKS_MAX", 4)
    _, columns = read_window(run)
    reads: list[int] = []
    pread_into = run._file.files.pread_into

    def counted(descriptor: int, buffers: Sequence[memoryview], offset: int) -> int:
        reads.append(len(buffers))
        return pread_into(descriptor, buffers, offset)

    monkeypatch.setattr(run._file.files, "pread_into", counted)
    decompress_together(columns)
    assert reads == [4, 2] * len(columns[0].lines.slices)
    assert [plain(column) for column in columns] == list(random_lines().columns)


def test_a_part_of_a_block_is_read_with_the_rest_of_it(run: WideRun, whole_blocks: list[int]) -> None:
    found, columns = read_window(run, start=b"k000100", stop=b"k000900")
    decompress_together(columns)
    assert [plain(column) for column in columns] == [each.slice(100, 800) for each in random_lines().columns]
    assert found.rows.equals(random_lines().rows.slice(100, 800))
    assert whole_blocks == [0, len(columns[0].lines.slices) - 1]


def test_a_column_of_a_block_that_was_read_whole_comes_from_there(run: WideRun, whole_blocks: list[int]) -> None:
    _, columns = read_window(run)
    block = columns[0].lines.slices[0].block
    assert block.values(_NAMES[1]).equals(random_lines().columns[1].slice(0, block.line_count))
    before = run.statistics()
    decompress_together(columns)
    assert whole_blocks == [0]
    assert run.statistics().block_read_count - before.block_read_count == len(columns[0].lines.slices) - 1


def test_values_beside_nulls_are_not_read_in_place(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> NoReturn:
        raise AssertionError("values beside nulls are read in place")

    lines = random_lines()
    some = fixed_size(1, _COUNT, np.arange(_COUNT) % 3 > 0, data_of(lines.columns[2]))
    lines = with_column(lines, 2, some)
    _, run = written(case, lines)
    monkeypatch.setattr(WideBlocks, "read_chunks", refuse)
    _, columns = read_window(run)
    decompress_together(columns)
    assert [plain(column) for column in columns] == list(lines.columns)
    assert columns[2].null_count == 334


def test_values_beside_longer_rows_may_be_sent_as_they_are_stored(case: Case, whole_blocks: list[int]) -> None:
    """A scan in row form then passes the block on, and needs it whole."""
    case.family = replace(case.family, compression=Compression.ZSTD)
    lines = random_lines()
    rows = binary_array([b"%060d" % number for number in range(_COUNT)])
    _, run = written(case, replace(lines, rows=rows))
    found, columns = read_window(run)
    assert columns[0].lines.slices[0].block.chunk(None).compression
    assert found.rows.equals(rows)
    decompress_together(columns)
    assert [plain(column) for column in columns] == list(lines.columns)
    assert len(whole_blocks) == len(columns[0].lines.slices)


def test_nulls_of_later_blocks_are_found(case: Case) -> None:
    lines = random_lines()
    some = fixed_size(1, _COUNT, np.arange(_COUNT) < 700, data_of(lines.columns[2]))
    lines = with_column(lines, 2, some)
    _, run = written(case, lines)
    _, columns = read_window(run)
    decompress_together(columns)
    assert [plain(column) for column in columns] == list(lines.columns)
    assert columns[2].null_count == 300


def test_compressed_values_of_later_blocks_are_decompressed(case: Case) -> None:
    case.family = replace(case.family, compression=Compression.ZSTD)
    lines = random_lines()
    raw = data_of(lines.columns[3]).to_pybytes()[: 33 * 600] + bytes(33 * 400)
    lines = with_column(lines, 3, fixed_size(33, _COUNT, None, pa.py_buffer(raw)))
    _, run = written(case, lines)
    _, columns = read_window(run)
    decompress_together(columns)
    assert [plain(column) for column in columns] == list(lines.columns)


def test_blocks_that_are_cached_are_not_read(case: Case) -> None:
    lines = random_lines()
    _, run = written(case, lines)
    for number in range(0, _COUNT, 50):
        assert len(run.row_cells(b"k%06d" % number)) == len(_NAMES)
    before = run.statistics()
    found, columns = read_window(run)
    decompress_together(columns)
    assert [plain(column) for column in columns] == list(lines.columns)
    assert found.rows.equals(lines.rows)
    assert run.statistics() == before


def test_changes_are_laid_over_values_in_place(run: WideRun, whole_blocks: list[int]) -> None:
    _, columns = read_window(run)
    changed = columns[0].changed(np.array([5, 999]), pa.array([b"x" * 20, b"y" * 20], pa.binary(20)))
    expected = random_lines().columns[0].to_pylist()
    expected[5], expected[999] = b"x" * 20, b"y" * 20
    decompress_together([changed, columns[1]])
    assert plain(changed).to_pylist() == expected
    assert not whole_blocks


@pytest.mark.parametrize("column", [0, 3, 5])
def test_a_wrong_byte_of_values_in_place_is_no_answer(case: Case, column: int) -> None:
    info, _ = written(case, random_lines())
    place, chunks = chunks_of(case, info)[1]
    damaged = place + layout.HEADER_BYTES + chunks.directory.starts[chunks.directory.form.columns[column].values]
    flip(case.path, damaged + 11, 0)
    _, columns = read_window(case.open_file(info).runs[0])
    others = [each for place, each in enumerate(columns) if place != column]
    decompress_together(others)
    with pytest.raises(CorruptionError, match="chunk checksum") as raised:
        decompress_together(columns)
    assert raised.value.offset == damaged


def test_a_wrong_byte_of_the_keys_is_no_answer(case: Case) -> None:
    info, _ = written(case, random_lines())
    place, chunks = chunks_of(case, info)[1]
    damaged = place + layout.HEADER_BYTES + chunks.directory.starts[0]
    flip(case.path, damaged + 3, 0)
    with pytest.raises(CorruptionError) as raised:
        _ = read_window(case.open_file(info).runs[0])[0].rows
    assert raised.value.offset == damaged


def test_keys_that_were_misread_once_are_not_cached(case: Case) -> None:
    lines = random_lines()
    info, _ = written(case, lines)
    place, chunks = chunks_of(case, info)[1]
    damaged = place + layout.HEADER_BYTES + chunks.directory.starts[0] + 3
    flip(case.path, damaged, 0)
    [run] = StoreFile.open(case.path, info, BlockCache(4 << 20), case.open_files).runs
    with pytest.raises(CorruptionError):
        read_window(run)
    flip(case.path, damaged, 0)
    found, _ = read_window(run)
    assert found.rows.equals(lines.rows)


def test_a_file_that_ends_within_values_is_no_answer(case: Case) -> None:
    info, run = written(case, random_lines())
    _, columns = read_window(run)
    place, chunks = chunks_of(case, info)[2]
    stop = place + layout.HEADER_BYTES + chunks.directory.starts[-1]
    with open(case.path, "r+b") as file:
        file.truncate(stop - 10)
    with pytest.raises(CorruptionError, match="the file's end"):
        decompress_together(columns)
