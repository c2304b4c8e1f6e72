"""Wide blocks: what they hold, what is read of them, what is kept in memory, and what of them is believed."""

from __future__ import annotations

import gzip
import itertools
import json
import mmap
import struct
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from rowlock_regionserver.arrow import lines as wide_lines
from rowlock_regionserver.arrow.columns import binary_array
from rowlock_regionserver.arrow.line_forming import ROW_CELL_BYTES_MAX
from rowlock_regionserver.arrow.line_values import fixed_size
from rowlock_regionserver.arrow.lines import Lines
from rowlock_regionserver.cells import PUT, Cell, Compression, Family, Kind
from rowlock_regionserver.errors import CorruptionError
from rowlock_regionserver.files import Files
from rowlock_regionserver.found_cells import FoundLine, LongRowError
from rowlock_regionserver.sources import LinesWanted, RowPlace
from rowlock_regionserver.storefile import chunk_reads, codecs, wide_directory, wide_form
from rowlock_regionserver.storefile import format as layout
from rowlock_regionserver.storefile.cache import BlockCache
from rowlock_regionserver.storefile.cell_run import CellRun
from rowlock_regionserver.storefile.extents import Extent
from rowlock_regionserver.storefile.info import StoreFileInfo
from rowlock_regionserver.storefile.reader import StoreFile
from rowlock_regionserver.storefile.salvage import salvage
from rowlock_regionserver.storefile.verify import verify_store_file
from rowlock_regionserver.storefile.wide_blocks import HeldBlock
from rowlock_regionserver.storefile.wide_chunks import WideChunks
from rowlock_regionserver.storefile.wide_form import ChunkForm
from rowlock_regionserver.storefile.wide_form import Kind as ChunkKind
from rowlock_regionserver.storefile.wide_run import WideRun
from rowlock_regionserver.storefile.writer import write_store_file

from tests.invariants import check
from tests.unit.storefile.store_file_case import Case, RowCell, cells_of, rows_of, simple_cells, table_of

WIDTH = 15
VERSION_1 = Path(__file__).parent / "version_1"


def typed_lines(count: int, *, start: int = 0, write_number: int = 7, timestamp: int = 100) -> Lines:
    """Returns rows k000000, ... with 8 bytes in each of 15 columns; the last is null in every second row."""
    numbers = np.arange(start, start + count)
    columns = [
        fixed_size(8, count, None if place + 1 < WIDTH else numbers % 2 == 0, pa.py_buffer(values.tobytes()))
        for place, values in enumerate([(numbers * place).astype(">i8") for place in range(WIDTH)])
    ]
    rows = binary_array([b"k%06d" % number for number in numbers])
    names = tuple(b"c%02d" % place for place in range(WIDTH))
    return Lines(rows, np.full((1, 1), timestamp), np.full((1, 1), write_number), names, tuple(columns))


def expected_cells(number: int) -> list[Cell]:
    return [
        (b"c%02d" % place, -100, -7, PUT, struct.pack(">q", number * place))
        for place in range(WIDTH)
        if place + 1 < WIDTH or number % 2 == 0
    ]


@pytest.fixture
def wide(case: Case) -> Case:
    """A folder for a store file whose blocks have some 250 lines."""
    case.family = replace(case.family, block_bytes=16 * 1024, compression=Compression.ZSTD)
    return case


def written(case: Case, *pieces: pa.Table | Lines, cache: BlockCache | None = None) -> tuple[StoreFileInfo, WideRun]:
    """Writes and opens a file that has only lines."""
    info = write_store_file(case.path, pieces, case.family, case.files, number=1)
    [run] = StoreFile.open(case.path, info, cache or BlockCache(1 << 20), case.open_files).runs
    assert isinstance(run, WideRun)
    return info, run


def chunks_of(case: Case, info: StoreFileInfo) -> list[tuple[int, WideChunks]]:
    """Returns the place in the file, and the chunks, of each wide block, found without the reader."""
    data = case.path.read_bytes()
    found = []
    place = data.find(layout.WIDE_BLOCK_MAGIC)
    while place >= 0:
        header = layout.unpack_header(data[place : place + layout.HEADER_BYTES], case.path, place)
        extent = Extent(place, header)
        payload = pa.py_buffer(data[place + layout.HEADER_BYTES : extent.stop])
        found.append((place, WideChunks.of_extent(extent, payload, case.path)))
        place = data.find(layout.WIDE_BLOCK_MAGIC, extent.stop)
    assert len(found) == info.wide_block_count
    return found


# ---- what is written


def test_rows_of_typed_columns_become_lines_and_take_a_fraction_of_their_cells(wide: Case) -> None:
    table = wide_lines.cells_of(typed_lines(2000))
    as_cells = write_store_file(wide.path, [table], wide.family, wide.files, number=1, forms_lines=False)
    info, run = written(wide, table)
    assert (info.block_count, as_cells.wide_block_count) == (0, 0)
    assert (info.cell_count, info.row_count) == (as_cells.cell_count, as_cells.row_count) == (2000 * WIDTH - 1000, 2000)
    assert info.file_bytes < as_cells.file_bytes / 3
    assert list(run.row_cells(b"k000123")) == expected_cells(123)
    assert list(run.row_cells(b"k000124")) == expected_cells(124)


def test_lines_and_the_cells_of_the_same_rows_make_the_same_blocks(wide: Case) -> None:
    lines = typed_lines(1000)
    write_store_file(wide.path, [lines], wide.family, wide.files, number=1)
    of_lines = wide.path.read_bytes()
    write_store_file(wide.path, [wide_lines.cells_of(lines)], wide.family, wide.files, number=1)
    assert wide.path.read_bytes() == of_lines


def test_pieces_of_any_size_make_the_same_blocks(wide: Case) -> None:
    lines = typed_lines(1000)
    write_store_file(wide.path, [lines], wide.family, wide.files, number=1)
    whole = wide.path.read_bytes()
    for step in (1, 7, 300):
        pieces = [lines.slice(start, min(1000, start + step)) for start in range(0, 1000, step)]
        write_store_file(wide.path, pieces, wide.family, wide.files, number=1)
        assert wide.path.read_bytes() == whole


def test_a_row_may_have_lines_and_cells_and_is_counted_once(wide: Case) -> None:
    cells: list[RowCell] = [
        (b"%04d" % row, (qualifier, -5, -6, PUT, b"12345678"))
        for row in range(300)
        for qualifier in (b"a", b"b", *([b"rare"] if row == 7 else []))
    ]
    cells.append((b"0300", (b"a", -5, -6, int(Kind.DELETE_COLUMN), b"")))
    info = write_store_file(wide.path, [table_of(cells)], wide.family, wide.files, number=1)
    assert (info.block_count, info.wide_block_count, info.row_count) == (1, 1, 301)
    lines, rest = wide.open_file(info).runs
    assert [cell[0] for cell in lines.row_cells(b"0007")] == [b"a", b"b"]
    assert [cell[0] for cell in rest.row_cells(b"0007")] == [b"rare"]
    assert isinstance(lines, WideRun)
    assert not lines.has_tombstones
    assert verify_store_file(wide.path, info, wide.files) == []
    assert verify_store_file(wide.path, replace(info, row_count=302), wide.files) != []


def test_an_empty_value_is_a_cell_and_a_null_is_none(wide: Case) -> None:
    values = pa.Array.from_buffers(
        pa.binary(), 3, [pa.py_buffer(b"\x05"), pa.py_buffer(struct.pack("<4i", 0, 0, 3, 3)), pa.py_buffer(b"xyz")]
    )
    rows = binary_array([b"r0", b"r1", b"r2"])
    other = fixed_size(1, 3, None, pa.py_buffer(b"abc"))
    numbers = np.full((1, 1), 5)
    _, run = written(wide, Lines(rows, numbers, numbers, (b"a", b"b"), (values, other)))
    assert [cell[4] for cell in run.row_cells(b"r0")] == [b"", b"a"]
    assert [(cell[0], cell[4]) for cell in run.row_cells(b"r1")] == [(b"b", b"b")], "bytes below a null are no value"
    assert [cell[4] for cell in run.row_cells(b"r2")] == [b"", b"c"]


def test_large_rows_of_lines_become_cells_and_rows_without_a_cell_are_none(wide: Case) -> None:
    sizes = [10, ROW_CELL_BYTES_MAX, 0, 10]
    bounds = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int32)
    buffers: list[pa.Buffer | None] = [
        pa.py_buffer(b"\x0b"),
        pa.py_buffer(bounds.data),
        pa.py_buffer(bytes(bounds[-1])),
    ]
    values = pa.Array.from_buffers(pa.binary(), 4, buffers)
    rows = binary_array([b"r0", b"r1", b"r2", b"r3"])
    lines = Lines(rows, np.full((1, 1), 5), np.full((1, 1), 5), (b"a",), (values,))
    info = write_store_file(wide.path, [lines], wide.family, wide.files, number=1)
    assert (info.row_count, info.cell_count) == (3, 3)
    found = {
        type(run): [row for row in (b"r0", b"r1", b"r2", b"r3") if run.row_cells(row)]
        for run in wide.open_file(info).runs
    }
    assert found == {WideRun: [b"r0", b"r3"], CellRun: [b"r1"]}


def test_numbers_that_all_cells_share_take_no_chunk(wide: Case) -> None:
    info = write_store_file(wide.path, [typed_lines(400)], wide.family, wide.files, number=1)
    for _, chunks in chunks_of(wide, info):
        assert chunks.directory.form.key_chunks == range(1)
        assert (chunks.directory.timestamp, chunks.directory.write_number) == (100, 7)


@pytest.mark.parametrize("compression", Compression)
def test_chunks_are_compressed_as_the_family_says(wide: Case, compression: Compression) -> None:
    wide.family = replace(wide.family, compression=compression)
    info = write_store_file(wide.path, [typed_lines(400)], wide.family, wide.files, number=1)
    found = {how & ~codecs.TRANSPOSED for _, chunks in chunks_of(wide, info) for how in chunks.directory.compressions}
    assert found <= {Compression.NONE, Compression.LZ4, compression}
    assert (found == {Compression.NONE}) == (compression is Compression.NONE)


def test_random_values_are_stored_as_they_are(case: Case) -> None:
    chance = np.random.default_rng(5)
    case.family = replace(case.family, block_bytes=32 * 1024, compression=Compression.ZSTD)
    cells: list[RowCell] = [(b"%05d" % row, (b"q", -1, -1, PUT, chance.bytes(1000))) for row in range(200)]
    as_cells = write_store_file(case.path, [table_of(cells)], case.family, case.files, number=1, forms_lines=False)
    family = replace(case.family, compression=Compression.NONE)
    plain = write_store_file(case.path, [table_of(cells)], family, case.files, number=1, forms_lines=False)
    assert as_cells.container_checksum == plain.container_checksum
    info = write_store_file(case.path, [table_of(cells)], case.family, case.files, number=1)
    for _, chunks in chunks_of(case, info):
        assert chunks.directory.compressions[-1] == Compression.NONE


# ---- versions of the format


def version_1_cells() -> tuple[StoreFileInfo, list[RowCell]]:
    saved = json.loads((VERSION_1 / "info.json").read_text())
    cells = [
        (bytes.fromhex(row), (bytes.fromhex(qualifier), timestamp, number, kind, bytes.fromhex(value)))
        for row, qualifier, timestamp, number, kind, value in saved["cells"]
    ]
    return StoreFileInfo.from_json(saved["info"]), cells


def test_a_file_of_the_version_before_is_read(case: Case) -> None:
    """It was written at commit 94dfcef."""
    info, cells = version_1_cells()
    case.path.write_bytes(gzip.decompress((VERSION_1 / "store-1.gz").read_bytes()))
    run = case.open(info)
    assert cells_of(run.read_rows(b"", b"", 1 << 30).table) == cells
    for row, row_cells in rows_of(cells).items():
        assert list(run.row_cells(row)) == row_cells
    assert verify_store_file(case.path, info, case.files) == []


def test_a_file_without_lines_is_byte_for_byte_as_the_version_before_wrote_it(case: Case) -> None:
    before = gzip.decompress((VERSION_1 / "store-1.gz").read_bytes())
    info, cells = version_1_cells()
    written_now = case.write(cells)
    if mmap.PAGESIZE != 4096:
        pytest.skip("LMDB has pages of another size here")
    assert written_now == info
    assert case.path.read_bytes() == before


def test_only_a_file_with_lines_has_a_version_that_older_servers_refuse(wide: Case) -> None:
    """They compare the version, at byte 8 of the metadata's header, with 1."""
    for forms_lines, version in ((False, 1), (True, 2)):
        info = wide.write(simple_cells(50), forms_lines=forms_lines)
        header = wide.path.read_bytes()[info.metadata_offset :][: layout.HEADER_BYTES]
        assert struct.unpack_from("<I", header, 8) == (version,)
        assert ("wide_block_count" in info.to_json()) == (version == 2)
        assert StoreFileInfo.from_json(json.loads(json.dumps(info.to_json()))) == info


# ---- what is read


def test_a_scan_of_few_columns_reads_few_bytes(wide: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunk_reads, "GAP_BYTES_MAX", 0)
    wide.family = replace(wide.family, compression=Compression.NONE)
    lines = typed_lines(2000)
    info, run = written(wide, lines)
    run.read_rows(b"", b"", 1 << 20, lines=LinesWanted(frozenset()))  # caches the directories
    seen = []
    for columns in (frozenset[bytes](), frozenset([b"c03"]), frozenset([b"c03", b"c04", b"c12"]), None):
        before = run.statistics().block_read_bytes
        start: bytes | None = b""
        rows: list[object] = []
        while start is not None:
            chunk = run.read_rows(start, b"", 1 << 20, lines=LinesWanted(columns))
            assert chunk.lines is not None
            assert set(chunk.lines.qualifiers) == (columns if columns is not None else set(lines.qualifiers))
            rows += chunk.lines.rows.to_pylist()
            start = chunk.frontier
        assert rows == lines.rows.to_pylist()
        seen.append(run.statistics().block_read_bytes - before)
    of_column, keys = 2000 * 8, seen[0]
    assert keys < seen[3] / 5
    assert keys + of_column <= seen[1] < keys + 2 * of_column
    assert seen[2] < keys + 5 * of_column
    assert seen[3] <= info.file_bytes


def test_a_chunk_has_the_statistics_of_its_blocks(wide: Case) -> None:
    """So that only the blocks with newer cells are looked at cell by cell."""
    old, new = typed_lines(1000), typed_lines(10, start=1000, write_number=50, timestamp=20)
    info, run = written(wide, old, new)
    assert info.wide_block_count > 3
    assert (run.write_number_min, run.write_number_max, run.line_timestamp_min) == (7, 50, 20)
    first = run.read_rows(b"", b"k000100", 1 << 20, lines=LinesWanted())
    assert (first.write_number_max, first.timestamp_min, first.has_versions) == (7, 100, False)
    last = run.read_rows(b"k001005", b"", 1 << 20, lines=LinesWanted())
    assert (last.write_number_max, last.timestamp_min, last.has_versions) == (50, 20, False)
    everything = run.read_rows(b"", b"", 1 << 30)
    assert (everything.write_number_max, everything.timestamp_min) == (50, 20)


def test_a_get_of_one_column_decompresses_one_and_the_cache_counts_what_it_holds(wide: Case) -> None:
    cache = BlockCache(1 << 20)
    _, run = written(wide, typed_lines(200), cache=cache)
    assert run.row_cell_count(b"k000000") == 14
    assert len(run.columns_cells(b"k000000", [b"c01"])) == 1
    of_one = cache.bytes_held
    assert len(run.columns_cells(b"k000001", [b"c01", b"c02", b"c03"])) == 3
    assert cache.bytes_held - of_one == 2 * 8 * 200
    run.row_cells(b"k000000")
    compressed = 200 * 8 * WIDTH + 200 * 7 + 25  # values, rows, validity: all that is held now
    assert compressed <= cache.bytes_held <= compressed + 16_000
    check(cache)
    assert cache.statistics().block_count == 1


def test_what_a_line_decompresses_is_counted_by_the_cache(wide: Case) -> None:
    rows = [b"%03d" % number for number in range(100)]
    lines = Lines(
        binary_array(rows), np.array([[9]]), np.array([[1]]), (b"q",), (binary_array([b"v" * 100] * len(rows)),)
    )
    cache = BlockCache(1 << 20)
    _, run = written(wide, lines, cache=cache)
    held = run.row_source(b"007")
    assert isinstance(held, HeldBlock)
    before = cache.bytes_held
    assert held.line(b"007") == FoundLine((b"q",), 9, 1, [b"v" * 100])
    assert cache.bytes_held - before > 9000
    check(cache)


def test_what_a_row_of_too_many_cells_decompresses_is_counted_by_the_cache(wide: Case) -> None:
    cache = BlockCache(1 << 20)
    _, run = written(wide, typed_lines(200), cache=cache)
    with pytest.raises(LongRowError):
        run.row_cells(b"k000000", 13)
    assert cache.bytes_held > 14 * 8 * 200
    check(cache)


def test_only_a_row_of_one_line_is_given_as_one(wide: Case) -> None:
    rows, numbers = binary_array([b"a", b"b", b"b", b"b"]), np.array([[1, 3, 2, 1]])
    columns = (binary_array([b"of a", b"new", b"old", b"older"]),)
    lines = Lines(rows, np.array([[9, 9, 8, 7]]), numbers, (b"q",), columns)
    info = write_store_file(wide.path, [lines], wide.family, wide.files, number=1)
    newest, older = StoreFile.open(wide.path, info, BlockCache(1 << 20), wide.open_files).runs
    of_a, of_b, rest_of_b = newest.row_source(b"a"), newest.row_source(b"b"), older.row_source(b"b")
    assert isinstance(of_a, HeldBlock)
    assert of_a.line(b"a") == FoundLine((b"q",), 9, 1, [b"of a"])
    assert of_a.line(b"aa") is None
    assert isinstance(of_b, HeldBlock)
    assert of_b.line(b"b") == FoundLine((b"q",), 9, 3, [b"new"])
    assert isinstance(rest_of_b, HeldBlock)
    assert rest_of_b.line(b"b") is None
    assert [cell[4] for cell in rest_of_b.row_cells(b"b")] == [b"old", b"older"]


def test_a_block_that_outgrows_the_cache_leaves_it(wide: Case) -> None:
    cache = BlockCache(19_000)
    _, run = written(wide, typed_lines(200), cache=cache)
    assert len(run.columns_cells(b"k000000", [b"c01"])) == 1
    assert cache.statistics().block_count == 1
    assert list(run.row_cells(b"k000002")) == expected_cells(2)
    assert (cache.statistics().block_count, cache.bytes_held) == (0, 0)


def test_a_full_block_of_bytes_that_do_not_shrink_is_loaded_without_waiting(case: Case) -> None:
    """Its directory comes beside the bytes of its lines, so it is larger than a block may be before compression."""
    case.family = Family(1, b"f", compression=Compression.NONE)
    lines = typed_lines(5000)
    rows = sorted([b"%d" % number for number in range(5000)])
    numbers = lines.timestamps, lines.write_numbers
    info, run = written(case, Lines(binary_array(rows), *numbers, lines.qualifiers, lines.columns))
    [(_, first), *others] = chunks_of(case, info)
    assert others
    assert first.directory.starts[-1] > 2 * case.family.block_bytes
    assert not isinstance(run.row_source(rows[0]), RowPlace)


def test_neighbouring_blocks_are_read_by_one_read(wide: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    info, run = written(wide, typed_lines(2000))
    reads: list[int] = []
    original = Files.pread_into

    def counted(self: Files, descriptor: int, pieces: Sequence[memoryview], offset: int) -> int:
        reads.append(offset)
        return original(self, descriptor, pieces, offset)

    monkeypatch.setattr(Files, "pread_into", counted)
    chunk = run.read_rows(b"", b"", 1 << 30, lines=LinesWanted())
    assert len(chunk) == 2000
    assert info.wide_block_count > 5
    assert len(reads) == 1


# ---- what is believed


def test_damage_of_a_chunk_names_its_place_and_leaves_the_other_columns(wide: Case) -> None:
    info, _ = written(wide, typed_lines(200))
    [(place, chunks)] = chunks_of(wide, info)
    directory = chunks.directory
    number = directory.form.columns[3].values
    raw = bytearray(wide.path.read_bytes())
    offset = place + layout.HEADER_BYTES + directory.starts[number]
    raw[offset + 5] ^= 1
    wide.path.write_bytes(raw)
    _, run = info, wide.open_file(info).runs[0]
    with pytest.raises(CorruptionError) as damage:
        run.row_cells(b"k000000")
    assert (damage.value.path, damage.value.offset) == (wide.path, offset)
    assert [cell[4] for cell in run.columns_cells(b"k000001", [b"c02", b"c04"])] == [
        struct.pack(">q", 2),
        struct.pack(">q", 4),
    ]
    with pytest.raises(CorruptionError):
        run.read_rows(b"", b"", 1 << 20, lines=LinesWanted(frozenset([b"c03"])))
    assert len(run.read_rows(b"", b"", 1 << 20, lines=LinesWanted(frozenset([b"c04"])))) == 200
    [found] = verify_store_file(wide.path, info, wide.files)
    assert found.offset == offset
    *damages, saved = list(salvage(wide.path, wide.files))
    assert isinstance(saved, pa.Table)
    assert [each.offset for each in damages if isinstance(each, CorruptionError)] == [offset]
    assert {cell[0] for _, cell in cells_of(saved)} == {b"c%02d" % each for each in range(WIDTH) if each != 3}


def test_a_wrong_byte_of_a_plain_chunk_is_no_answer(wide: Case) -> None:
    """Nothing but its checksum says that it is wrong."""
    wide.family = replace(wide.family, compression=Compression.NONE)
    info, run = written(wide, typed_lines(200))
    [(place, chunks)] = chunks_of(wide, info)
    raw = bytearray(wide.path.read_bytes())
    raw[place + layout.HEADER_BYTES + chunks.directory.starts[chunks.directory.form.columns[3].values] + 5] ^= 1
    wide.path.write_bytes(raw)
    with pytest.raises(CorruptionError):
        run.columns_cells(b"k000000", [b"c03"])
    with pytest.raises(CorruptionError):
        run.read_rows(b"", b"", 1 << 20, lines=LinesWanted())


def test_a_wrong_byte_of_a_chunk_is_not_passed_on_compressed(wide: Case) -> None:
    info, _ = written(wide, typed_lines(200))
    [(place, chunks)] = chunks_of(wide, info)
    raw = bytearray(wide.path.read_bytes())
    raw[place + layout.HEADER_BYTES + chunks.directory.starts[chunks.directory.form.columns[3].values] + 5] ^= 1
    wide.path.write_bytes(raw)
    wanted = LinesWanted(frozenset([b"c03", b"c04"]), compressed=True)
    lines = wide.open_file(info).runs[0].read_rows(b"", b"", 1 << 20, lines=wanted).lines
    assert lines is not None
    assert lines.stored is not None
    [(block, start, stop)] = lines.stored.slices
    assert (start, stop) == (0, 200)
    assert block.chunk(b"c04").width == 8
    with pytest.raises(CorruptionError):
        block.chunk(b"c03")


def test_a_scan_of_compressed_lines_reads_nothing_that_is_not_needed(wide: Case) -> None:
    _, run = written(wide, typed_lines(2000))
    wanted = LinesWanted(frozenset(), compressed=True, without_rows=True)
    run.read_rows(b"", b"", 1 << 20, lines=wanted)  # reads a directory, once
    before = run.statistics()
    chunk = run.read_rows(b"", b"", 1 << 20, lines=wanted)
    assert (len(chunk), chunk.row(0), chunk.row(-1)) == (2000, b"k000000", b"k001999")
    assert run.statistics() == before


def test_a_chunk_that_was_not_written_as_it_should_fails_the_write(wide: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    numbers = itertools.count()
    monkeypatch.setattr(codecs, "checksum", lambda stored: next(numbers))
    with pytest.raises(CorruptionError):
        write_store_file(wide.path, [typed_lines(10)], wide.family, wide.files, number=1)
    assert wide.files.list_folder(wide.folder) == []


def _directory(
    chunks: list[tuple[int, int, int, int]], line_count: int = 3, names: tuple[bytes, ...] = (b"a",)
) -> bytes:
    """Returns a directory of plain chunks, each (kind, column, width, raw bytes)."""
    stored = [
        wide_directory.StoredChunk(ChunkForm(kind, column, width), bytes(size), size, 0, 0)
        for kind, column, width, size in chunks
    ]
    return wide_directory.encode(line_count, 0, 0, stored, names, 0)


ROWS = (ChunkKind.ROWS, 0, 2, 6)
VALUES = (ChunkKind.VALUES, 0, 4, 12)


@pytest.mark.parametrize(
    ("chunks", "names"),
    [
        ([VALUES], (b"a",)),
        ([ROWS], (b"a",)),
        ([ROWS, VALUES, VALUES], (b"a",)),
        ([VALUES, ROWS], (b"a",)),
        ([ROWS, VALUES], (b"a", b"b")),
        ([ROWS, VALUES, (ChunkKind.VALUES, 1, 4, 12)], (b"b", b"a")),
        ([ROWS, VALUES, (ChunkKind.VALUES, 1, 4, 12)], (b"a", b"a")),
        ([ROWS, (ChunkKind.VALUES, 0, 4, 13)], (b"a",)),
        ([ROWS, (ChunkKind.VALUES, 0, 0, 15)], (b"a",)),
        ([ROWS, (ChunkKind.VALIDITY, 0, 0, 2), VALUES], (b"a",)),
        ([ROWS, (ChunkKind.TIMESTAMPS, 0, 0, 25), VALUES], (b"a",)),
        ([ROWS, (ChunkKind.TIMESTAMPS, 0, 1, 3), VALUES], (b"a",)),
        ([ROWS, (ChunkKind.VALIDITY, 0, 1, 3), VALUES], (b"a",)),
        ([ROWS, (ChunkKind.TIMESTAMPS, 0, 0, 24), (ChunkKind.COLUMN_TIMESTAMPS, 0, 0, 24), VALUES], (b"a",)),
        (
            [ROWS, (ChunkKind.COLUMN_TIMESTAMPS, 0, 0, 24), VALUES, (ChunkKind.VALUES, 1, 4, 12)],
            (b"a", b"b"),
        ),
    ],
)
def test_a_directory_that_contradicts_itself_is_a_corruption(
    chunks: list[tuple[int, int, int, int]], names: tuple[bytes, ...]
) -> None:
    directory = _directory(chunks, names=names)
    payload_bytes = len(directory) + sum(size for *_, size in chunks)
    with pytest.raises(CorruptionError):
        wide_directory.decode(directory, payload_bytes, None, Path("f"), 0)


def _longer(directory: bytes) -> tuple[bytes, int, int]:
    return directory, len(directory) + 19, 3


def _other_lines(directory: bytes) -> tuple[bytes, int, int]:
    return directory, len(directory) + 18, 4


def _cut(directory: bytes) -> tuple[bytes, int, int]:
    return directory[:50], 50, 3


def _no_lines(directory: bytes) -> tuple[bytes, int, int]:
    return bytes(4) + directory[4:], len(directory) + 18, 0


def _unknown_compression(directory: bytes) -> tuple[bytes, int, int]:
    changed = bytearray(directory)
    changed[32 + 12 * 2] = 3
    return bytes(changed), len(directory) + 18, 3


def test_a_directory_is_decoded() -> None:
    directory = _directory([ROWS, VALUES])
    decoded = wide_directory.decode(directory, len(directory) + 18, 3, Path("f"), 0)
    assert decoded.form.qualifiers == (b"a",)
    assert decoded.form is wide_form.decode(wide_form.encode(decoded.form.chunks, [b"a"]), 2), "forms are kept"


def test_a_form_that_is_large_is_not_kept() -> None:
    form = wide_form.encode([ChunkForm(*chunk[:3]) for chunk in (ROWS, VALUES)], [b"q" * 60_000])
    assert wide_form.decode(form, 2) == wide_form.decode(form, 2)
    assert wide_form.decode(form, 2) is not wide_form.decode(form, 2)


@pytest.mark.parametrize("change", [_longer, _other_lines, _cut, _no_lines, _unknown_compression])
def test_a_directory_that_does_not_fit_its_block_is_a_corruption(
    change: Callable[[bytes], tuple[bytes, int, int]],
) -> None:
    changed, payload_bytes, line_count = change(_directory([ROWS, VALUES]))
    with pytest.raises(CorruptionError):
        wide_directory.decode(changed, payload_bytes, line_count, Path("f"), 0)


@pytest.mark.parametrize("bounds", [(0, 5, 3, 6), (1, 2, 3, 6), (0, 2, 4, 7), (0, -1, 3, 6)])
def test_offsets_that_lead_out_of_a_chunk_are_a_corruption(bounds: tuple[int, ...]) -> None:
    raw = struct.pack("<4i", *bounds) + b"abcdef"
    chunk = wide_directory.StoredChunk(ChunkForm(ChunkKind.ROWS, 0, 0), raw, len(raw), codecs.checksum(raw), 0)
    directory = wide_directory.encode(3, 0, 0, [chunk], [], 0)
    decoded = wide_directory.decode(directory, len(directory) + len(raw), 3, Path("f"), 0)
    chunks = WideChunks.of_payload(decoded, pa.py_buffer(directory + raw), Path("f"), 0)
    chunks.check_all()
    with pytest.raises(CorruptionError, match="offsets"):
        chunks.raw(0)


@pytest.mark.parametrize("compression", Compression)
@pytest.mark.parametrize("value_bytes", [0, 1, 2, 8, 12, 100])
def test_chunks_come_back_as_they_were(compression: Compression, value_bytes: int) -> None:
    chance = np.random.default_rng(1)
    count = 600
    for raw in (
        bytes(count),
        np.arange(count // 8, dtype=">i8").tobytes(),
        chance.bytes(count),
        chance.integers(0, 4, count, np.uint8).tobytes(),
        b"",
    ):
        stored, how = codecs.compressed(raw, compression, value_bytes)
        assert how in codecs.known_compressions(value_bytes)
        assert len(stored) <= len(raw)
        if how != Compression.NONE:
            assert codecs.decompressed(pa.py_buffer(stored), how, len(raw), value_bytes) == raw
            for wrong in (len(raw) - 12, len(raw) + 12):
                if compression is Compression.ZSTD and not how & codecs.TRANSPOSED and how == Compression.ZSTD:
                    with pytest.raises(ValueError, match=r".+"):
                        codecs.decompressed(pa.py_buffer(stored), how, wrong, value_bytes)
        else:
            assert stored == raw
