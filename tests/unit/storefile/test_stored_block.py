"""What a scan of all columns reads of stored blocks, and the columns that it makes of them."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from rowlock_regionserver.arrow.compressed_columns import CompressedColumn, plain
from rowlock_regionserver.arrow.lines import Lines
from rowlock_regionserver.cells import Compression
from rowlock_regionserver.sources import LinesWanted
from rowlock_regionserver.storefile.wide_chunks import WideChunks
from rowlock_regionserver.storefile.wide_form import Kind

from tests.unit.storefile.store_file_case import Case
from tests.unit.storefile.test_wide_blocks import typed_lines, written


def stored_lines(case: Case, lines: Lines, start: bytes = b"", stop: bytes = b"") -> Lines:
    """Writes the lines to blocks of some 250, and returns those of the range as a scan gets them."""
    case.family = replace(case.family, block_bytes=16 * 1024, compression=Compression.ZSTD)
    _, run = written(case, lines)
    found = run.read_rows(start, stop, 1 << 20, lines=LinesWanted(compressed=True)).lines
    assert found is not None
    assert found.stored is not None
    return found


def test_a_scan_reads_each_chunk_once_and_no_write_numbers(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = typed_lines(2000)
    numbers = np.arange(2000).reshape(1, -1)
    lines = replace(lines, timestamps=numbers + 5, write_numbers=numbers + 1)
    found = stored_lines(case, lines)
    reads: Counter[tuple[int, int]] = Counter()
    kinds = set()
    raw = WideChunks.raw

    def counted(self: WideChunks, number: int) -> pa.Buffer:
        reads[id(self), number] += 1
        kinds.add(self.directory.form.chunks[number].kind)
        return raw(self, number)

    monkeypatch.setattr(WideChunks, "raw", counted)
    assert plain(found.keys).equals(found.rows)
    assert found.rows.equals(lines.rows)
    assert (found.timestamps == numbers + 5).all()
    assert all(each.equals(expected) for each, expected in zip(found.columns, lines.columns, strict=True))
    assert set(reads.values()) == {1}
    assert kinds == {Kind.ROWS, Kind.TIMESTAMPS, Kind.VALIDITY, Kind.VALUES}
    assert (found.write_numbers == numbers + 1).all()


def test_columns_of_a_part_of_the_blocks_have_the_changes_of_all_layers(case: Case) -> None:
    lines = typed_lines(2000)
    found = stored_lines(case, lines, b"k000100", b"k001900")
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
