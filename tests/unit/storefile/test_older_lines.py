"""Older lines of a store file: which cells they have, in which blocks, and what is believed of them."""

from __future__ import annotations

import json
import struct
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from rowlock_regionserver.arrow.columns import binary_array
from rowlock_regionserver.arrow.line_merging import concatenated_lines
from rowlock_regionserver.arrow.lines import Lines
from rowlock_regionserver.arrow.lines_by_age import divided_by_age
from rowlock_regionserver.cells import PUT, Compression
from rowlock_regionserver.storefile import block_writer
from rowlock_regionserver.storefile import format as layout
from rowlock_regionserver.storefile.info import StoreFileInfo
from rowlock_regionserver.storefile.verify import verify_store_file
from rowlock_regionserver.storefile.wide_run import WideRun
from rowlock_regionserver.storefile.writer import write_store_file

from tests.unit.storefile.store_file_case import Case


@pytest.fixture
def wide(case: Case) -> Case:
    """A folder for a store file whose blocks have some hundred lines."""
    case.family = replace(case.family, block_bytes=4 * 1024, compression=Compression.ZSTD)
    return case


def versioned_lines(count: int, versions: int, start: int = 0) -> Lines:
    """Returns rows with several lines each, of which the newest lacks the second column."""
    rows = [b"k%06d" % row for row in range(start, start + count) for _ in range(versions)]
    ages = np.tile(np.arange(versions), count)
    values = [b"%08d" % value for value in range(len(rows))]
    second: list[bytes | None] = [value if age else None for value, age in zip(values, ages.tolist(), strict=True)]
    columns = (pa.array(values, pa.binary()), pa.array(second, pa.binary()))
    return Lines(binary_array(rows), (100 - ages)[np.newaxis], (50 - ages)[np.newaxis], (b"a", b"b"), columns)


def test_older_lines_have_blocks_of_their_own(wide: Case) -> None:
    lines = versioned_lines(500, 4)
    info = write_store_file(wide.path, [lines], wide.family, wide.files, number=1)
    newest, older = wide.open_file(info).runs
    assert isinstance(newest, WideRun)
    assert isinstance(older, WideRun)
    assert info.older_block_count > 1
    assert info.has_versions
    assert newest.row_cells(b"k000007") == [
        (b"a", -100, -50, PUT, b"%08d" % 28),
        (b"b", -99, -49, PUT, b"%08d" % 29),
    ]
    assert [cell[:3] for cell in older.row_cells(b"k000007")] == [
        (name, age - 100, age - 50) for name, ages in ((b"a", (1, 2, 3)), (b"b", (2, 3))) for age in ages
    ]
    assert newest.row_groups.newer is None
    assert older.row_groups.newer is newest.row_groups
    assert verify_store_file(wide.path, info, wide.files) == []


def test_few_older_lines_stay_with_the_newest(wide: Case) -> None:
    """Else most point reads would look for older lines in vain."""
    lines = concatenated_lines([versioned_lines(50, 2), versioned_lines(500, 1, start=50)])
    info = write_store_file(wide.path, [lines], wide.family, wide.files, number=1)
    [run] = wide.open_file(info).runs
    assert info.older_block_count == 0
    assert [cell[:2] for cell in run.row_cells(b"k000007")] == [(b"a", -100), (b"a", -99), (b"b", -99)]


def test_a_file_with_older_lines_has_a_version_that_older_servers_refuse(wide: Case) -> None:
    info = write_store_file(wide.path, [versioned_lines(500, 4)], wide.family, wide.files, number=1)
    header = wide.path.read_bytes()[info.metadata_offset :][: layout.HEADER_BYTES]
    assert struct.unpack_from("<I", header, 8) == (3,)
    assert StoreFileInfo.from_json(json.loads(json.dumps(info.to_json()))) == info


def test_older_lines_of_rows_without_a_newest_line_are_damage(wide: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    def misdivided(lines: Lines) -> tuple[Lines, Lines]:
        newest, older = divided_by_age(lines)
        return newest.filter(newest.rows.to_numpy(zero_copy_only=False) != b"k000007"), older

    monkeypatch.setattr(block_writer, "divided_by_age", misdivided)
    info = write_store_file(wide.path, [versioned_lines(500, 4)], wide.family, wide.files, number=1)
    [damage] = verify_store_file(wide.path, info, wide.files)
    assert "500 rows of older lines" in damage.expected
