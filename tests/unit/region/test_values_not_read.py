"""Scans that need no values, or those of few columns, read no other values of a store file's lines."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from rowlock_regionserver.cells import Compression, Family
from rowlock_regionserver.config import Config
from rowlock_regionserver.operations import (
    CellFilter,
    ColumnSelector,
    Delete,
    DeleteKind,
    FormColumn,
    FormPart,
    ScanPlan,
    Selection,
)
from rowlock_regionserver.region.bulk.row_batch import RowBatch
from rowlock_regionserver.storefile.wide_run import WideRun

from .lone_region import LoneRegion

ROW_COUNT, COLUMN_COUNT, WIDTH = 2000, 8, 40
VALUE_BYTES = ROW_COUNT * WIDTH  # of one column
OF_A_COLUMN = (ColumnSelector(b"f", b"3"),)
COLUMN_3 = (FormColumn(b"f", b"3", FormPart.VALUE),)
ROWS_OF_COLUMN_3 = ROW_COUNT - ROW_COUNT // COLUMN_COUNT

# The plan, how many columns' values it reads, and how many rows it answers.
PLANS: Mapping[str, tuple[ScanPlan, int, int]] = {
    "keys": (ScanPlan(Selection(cells=CellFilter(keys_only=True))), 0, ROW_COUNT),
    "first key": (ScanPlan(Selection(cells=CellFilter(keys_only=True, first_key_only=True))), 0, ROW_COUNT),
    "keys of a column": (ScanPlan(Selection(OF_A_COLUMN, cells=CellFilter(keys_only=True))), 0, ROWS_OF_COLUMN_3),
    "a column": (ScanPlan(Selection(OF_A_COLUMN)), 1, ROWS_OF_COLUMN_3),
    "rows": (ScanPlan(row_form=()), 0, ROW_COUNT),
    "rows of a column": (ScanPlan(row_form=COLUMN_3), 1, ROW_COUNT),
}


@pytest.mark.parametrize("has_tombstone", [False, True])
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("name", PLANS)
def test_a_scan_reads_the_values_that_it_needs(
    tmp_path: Path, name: str, *, has_tombstone: bool, reverse: bool
) -> None:
    plan, column_count, row_count = PLANS[name]
    region = LoneRegion(tmp_path, Config(block_cache_bytes=0))
    region.alter([Family(0, b"f", compression=Compression.NONE)])
    region.bulk(rows_with_a_null())
    region.flush()
    if has_tombstone:
        region.change(b"000007", *[Delete(DeleteKind.COLUMN, b"f", b"%d" % place) for place in range(COLUMN_COUNT)])
        row_count -= 1
    before = bytes_read(region)
    with region.region.scan(replace(plan, reverse=reverse)) as (_, answers):
        assert sum(answer.row_count for answer in answers) == row_count
    found = bytes_read(region) - before
    assert column_count * VALUE_BYTES <= found < (column_count + 1) * VALUE_BYTES
    region.stop()


def rows_with_a_null() -> RowBatch:
    """Returns rows that each lack one column."""
    columns = tuple(
        pa.array([None if row % COLUMN_COUNT == place else b"%040d" % row for row in range(ROW_COUNT)], pa.binary())
        for place in range(COLUMN_COUNT)
    )
    rows = pa.array([b"%06d" % number for number in range(ROW_COUNT)], pa.binary())
    names = tuple((b"f", b"%d" % place) for place in range(COLUMN_COUNT))
    return RowBatch(rows, pa.nulls(ROW_COUNT, pa.int64()), names, columns)


def bytes_read(region: LoneRegion) -> int:
    return sum(
        source.statistics().block_read_bytes
        for _, sources in region.parts.stores.view.values()
        for source in sources
        if isinstance(source, WideRun)
    )
