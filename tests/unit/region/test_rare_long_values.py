"""A long value that few rows have costs its own bytes, wherever its rows are brought together with others."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from rowlock_regionserver.arrow.line_values import may_be_fixed_size
from rowlock_regionserver.config import Config
from rowlock_regionserver.operations import FormColumn, ScanPlan

from .lone_region import LoneRegion
from .row_batches import Row, row_batch

ROW_COUNT = 20_000
LONG = b"x" * 60_000
F_A, F_LONG, G_LONG = FormColumn(b"f", b"a"), FormColumn(b"f", b"long"), FormColumn(b"g", b"long")


def row(number: int) -> bytes:
    return b"%08d" % number


def short_rows() -> list[Row]:
    return [(row(number), None, [b"%08d" % number]) for number in range(ROW_COUNT)]


def of_another_family(region: LoneRegion) -> None:
    region.bulk(row_batch([(b"g", b"long")], [(row(ROW_COUNT // 2), None, [LONG])], fixed=[0]))


def of_a_row_between(region: LoneRegion) -> None:
    region.bulk(row_batch([(b"f", b"long")], [(row(ROW_COUNT // 2) + b"!", None, [LONG])], fixed=[0]))


def of_the_same_row(region: LoneRegion) -> None:
    region.bulk(row_batch([(b"f", b"long")], [(row(ROW_COUNT // 2), None, [LONG])], fixed=[0]))


@pytest.mark.parametrize("add", [of_another_family, of_a_row_between, of_the_same_row])
@pytest.mark.parametrize("is_flushed", [False, True])
def test_a_long_value_costs_its_bytes_once(
    tmp_path: Path, add: Callable[[LoneRegion], None], *, is_flushed: bool
) -> None:
    region = LoneRegion(tmp_path, Config(bulk_file_bytes_min=1))
    region.bulk(row_batch([(b"f", b"a")], short_rows(), fixed=[0]))
    add(region)
    if is_flushed:
        region.flush()
        files = [run for _, runs in region.parts.stores.view.values() for run in runs]
        assert sum(len(run.row_weights()) for run in files) < 20, "blocks"
    with region.region.scan(ScanPlan(row_form=(F_A, F_LONG, G_LONG), fixed_size=True)) as (_, answers):
        tables = [answer.table for answer in answers]
    assert sum(table.nbytes for table in tables) < 2 << 20
    values = [value for table in tables for name in ("1", "2") for value in table.column(name).to_pylist()]
    assert [value for value in values if value is not None] == [LONG]
    region.stop()


def test_short_values_are_fixed_size_whatever_is_null() -> None:
    assert may_be_fixed_size(8, 0, 1000)
    assert not may_be_fixed_size(100, 1, 1000)
    assert may_be_fixed_size(60_000, 500, 1000)
