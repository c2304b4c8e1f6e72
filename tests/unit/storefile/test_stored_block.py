"""What a scan of all columns reads of stored blocks, and the columns that it makes of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from rowlock_regionserver.arrow.compressed_columns import CompressedColumn, decompress_together, plain
from rowlock_regionserver.arrow.line_values import fixed_size
from rowlock_regionserver.arrow.lines import Lines
from rowlock_regionserver.cells import Compression
from rowlock_regionserver.errors import CorruptionError
from rowlock_regionserver.sources import LinesWanted
from rowlock_regionserver.storefile import format as layout
from rowlock_regionserver.storefile.block_keys import BlockKeys
from rowlock_regionserver.storefile.wide_blocks import WideBlocks
from rowlock_regionserver.storefile.wide_chunks import WideChunks
from rowlock_regionserver.storefile.wide_form import Kind

from tests.unit.storefile.store_file_case import Case
from tests.unit.storefile.test_wide_blocks import chunks_of, typed_lines, written


def stored_lines(case: Case, *lines: Lines, start: bytes = b"", stop: bytes = b"") -> Lines:
    """Writes the lines to blocks of some 250, and returns those of the range as a scan gets them."""
    case.family = replace(case.family, block_bytes=16 * 1024, compression=Compression.ZSTD)
    _, run = written(case, *lines)
    found = run.read_rows(start, stop, 1 << 20, lines=LinesWanted(compressed=True)).lines
    assert found is not None
    assert found.stored is not None
    return found


@pytest.mark.parametrize(
    ("start", "stop", "blocks_read"), [(3, 1995, 2), (3, 10, 1), (0, 1995, 1), (3, 2000, 1), (0, 2000, 0)]
)
def test_a_range_reads_only_the_keys_of_blocks_that_it_begins_or_ends_in(
    case: Case, monkeypatch: pytest.MonkeyPatch, start: int, stop: int, blocks_read: int
) -> None:
    case.family = replace(case.family, block_bytes=16 * 1024, compression=Compression.ZSTD)
    lines = typed_lines(2000)
    _, run = written(case, lines)
    read: set[int] = set()
    keys = WideBlocks.keys

    def noted(self: WideBlocks, number: int) -> BlockKeys:
        read.add(number)
        return keys(self, number)

    monkeypatch.setattr(WideBlocks, "keys", noted)
    wanted = LinesWanted(frozenset([b"c01"]), compressed=True, without_rows=True)
    bounds = b"k%06d" % start, b"k%06d" % stop
    found = run.read_rows(*bounds, 1 << 20, lines=wanted).lines
    assert found is not None
    assert len(run.row_weights()) > 5
    assert len(read) == blocks_read
    assert (len(found), found.row(0), found.row(-1)) == (stop - start, bounds[0], b"k%06d" % (stop - 1))
    assert plain(found.values[0]).equals(lines.slice(start, stop).columns[1])


def test_a_scan_reads_each_chunk_once_and_no_write_numbers(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = typed_lines(2000)
    numbers = np.arange(2000).reshape(1, -1)
    lines = replace(lines, timestamps=numbers + 5, write_numbers=numbers + 1)
    found = stored_lines(case, lines)
    reads: Counter[tuple[int, int]] = Counter()
    kinds = set()
    raw, raws = WideChunks.raw, WideChunks.raws

    def count(chunks: WideChunks, number: int) -> None:
        reads[id(chunks), number] += 1
        kinds.add(chunks.directory.form.chunks[number].kind)

    def counted(self: WideChunks, number: int) -> pa.Buffer:
        count(self, number)
        return raw(self, number)

    def counted_together(self: WideChunks, numbers: Sequence[int]) -> list[pa.Buffer]:
        for number in numbers:
            count(self, number)
        return raws(self, numbers)

    monkeypatch.setattr(WideChunks, "raw", counted)
    monkeypatch.setattr(WideChunks, "raws", counted_together)
    columns = [column for column in found.values if isinstance(column, CompressedColumn)]
    assert len(columns) == len(lines.columns)
    decompress_together(columns[1:])
    assert plain(found.keys).equals(found.rows)
    assert found.rows.equals(lines.rows)
    assert (found.timestamps == numbers + 5).all()
    assert all(each.equals(expected) for each, expected in zip(found.columns, lines.columns, strict=True))
    assert set(reads.values()) == {1}
    assert kinds == {Kind.ROWS, Kind.TIMESTAMPS, Kind.VALIDITY, Kind.VALUES}
    assert (found.write_numbers == numbers + 1).all()


def test_columns_are_decompressed_together_once(case: Case) -> None:
    found = stored_lines(case, typed_lines(2000))
    columns = [column for column in found.values if isinstance(column, CompressedColumn)]
    before = plain(columns[3])
    decompress_together(columns)
    assert plain(columns[3]) is before
    for column in columns:
        assert plain(column).equals(plain(CompressedColumn(column.lines, column.name)))


@pytest.mark.parametrize("compression", [Compression.NONE, Compression.ZSTD])
def test_a_wrong_byte_of_one_of_several_columns_is_no_answer(case: Case, compression: Compression) -> None:
    case.family = replace(case.family, block_bytes=16 * 1024, compression=compression)
    info, _ = written(case, typed_lines(200))
    [(place, chunks)] = chunks_of(case, info)
    raw = bytearray(case.path.read_bytes())
    damaged = chunks.directory.starts[chunks.directory.form.columns[3].values] + layout.HEADER_BYTES
    raw[place + damaged + 5] ^= 1
    case.path.write_bytes(raw)
    lines = case.open_file(info).runs[0].read_rows(b"", b"", 1 << 20, lines=LinesWanted(compressed=True)).lines
    assert lines is not None
    assert lines.stored is not None
    numbers = [chunks.directory.form.values_of[name] for name in (b"c04", b"c05")]
    targets = [pa.allocate_buffer(8 * 200) for _ in range(3)]
    places = [memoryview(target) for target in targets]
    lines.stored.values_into([b"c04", b"c05"], places[:2])
    assert targets[:2] == [chunks.raw(number) for number in numbers]
    with pytest.raises(CorruptionError) as raised:
        lines.stored.values_into([b"c04", b"c03", b"c05"], places)
    assert raised.value.offset == place + damaged


def test_columns_of_a_part_of_the_blocks_have_the_changes_of_all_layers(case: Case) -> None:
    lines = typed_lines(2000)
    found = stored_lines(case, lines, start=b"k000100", stop=b"k001900")
    column = found.values[3]
    assert isinstance(column, CompressedColumn)
    assert len(column.lines.slices) > 2
    expected = lines.columns[3].slice(100, 1800).to_pylist()
    for place, line in ((4, 7), (5, 1500)):
        column = column.changed(np.array([line]), lines.columns[place].slice(0, 1))
        expected[line] = lines.columns[place][0].as_py()
    assert column.plain.to_pylist() == expected
    assert column.plain.type == pa.binary(8)
    shorter = column.changed(np.array([9]), pa.array([b"abc"], pa.binary()))
    expected[9] = b"abc"
    assert shorter.plain.to_pylist() == expected
    assert found.rows.to_pylist() == lines.rows.slice(100, 1800).to_pylist()


def test_blocks_that_differ_in_their_columns_are_not_taken_for_alike(case: Case) -> None:
    complete, sparse = typed_lines(1000), typed_lines(1000, start=1000)
    names, count = complete.qualifiers, len(complete)
    complete = replace(complete, qualifiers=names[:3], values=complete.values[:3])
    shorter = fixed_size(5, count, None, pa.py_buffer(bytes(range(250)) * (5 * count // 250)))
    # The first column is of another length, the second is missing, and the third lacks every second value.
    sparse = replace(sparse, qualifiers=(names[0], names[2]), values=(shorter, sparse.values[-1]))
    found = stored_lines(case, complete, sparse)
    assert found.stored is not None
    assert len(found.stored.layouts) > 1
    expected = [
        [*of_complete.to_pylist(), *of_sparse]
        for of_complete, of_sparse in zip(
            complete.columns,
            [shorter.to_pylist(), [None] * count, sparse.columns[1].to_pylist()],
            strict=True,
        )
    ]
    assert [column.to_pylist() for column in found.columns] == expected
    assert [column.null_count for column in found.values] == [0, count, count // 2]


def test_blocks_of_one_form_have_one_layout(case: Case) -> None:
    found = stored_lines(case, typed_lines(2000))
    assert found.stored is not None
    assert len(found.stored.slices) > 3
    assert len(found.stored.layouts) == 1
