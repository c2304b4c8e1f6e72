"""Typed rows have the shape that the figures claim, and the layouts map all of them."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
import pytest
import rowlock

from bench.spark.trips import ONE_FAMILY, THREE_FAMILIES, Layout, middle_part, schema
from bench.targets import typed_rows as typed


def test_rows_are_in_key_order_and_the_same_for_the_same_seed() -> None:
    rows = typed.typed_rows(500)
    rows.validate(full=True)
    assert rows.column_names == [typed.KEY, *typed.COLUMNS]
    assert rows[typed.KEY].to_pylist() == [typed.trip_key(number) for number in range(500)]
    assert rows.equals(typed.typed_rows(500))
    assert not rows.equals(typed.typed_rows(500, seed=2))


def test_few_columns_are_null_and_values_are_skewed() -> None:
    rows = typed.typed_rows(5000)
    nulls = {name: rows[name].null_count for name in rows.column_names if rows[name].null_count}
    assert list(nulls) == ["passengers"]
    assert 100 < nulls["passengers"] < 300
    assert set(rows["payment"].to_pylist()) == {"card", "cash", "free", "dispute"}
    assert len(pc.unique(rows["distance"])) > 200
    totals = pc.add(pc.cast(rows["fare"], pa.float64()), rows["tip"])
    assert pc.max(pc.abs(pc.subtract(pc.cast(rows["total"], pa.float64()), totals))).as_py() == pytest.approx(0.5)


def test_no_rows_are_an_empty_table() -> None:
    assert typed.typed_rows(0).num_rows == 0


def test_the_mapping_takes_the_types_of_the_rows() -> None:
    rows = typed.typed_rows(3)
    assert rows.schema.remove_metadata().types == typed.mapping().schema.types


@pytest.mark.parametrize("layout", [ONE_FAMILY, THREE_FAMILIES])
def test_each_layout_maps_every_column_once(layout: Layout) -> None:
    mapped = rowlock.Mapping(layout.mapping)
    assert [column.name for column in mapped.columns] == [typed.KEY, *typed.COLUMNS]
    assert {column.split(":")[0] for column in layout.columns.values()} == set(layout.families)


def test_a_schema_has_only_the_columns_asked_for() -> None:
    assert schema([typed.KEY, "fare"]) == "trip STRING, fare DECIMAL(10,2)"


@pytest.mark.parametrize(("count", "bounds"), [(1000, (500, 510)), (10, (5, 6))])
def test_a_percent_of_the_trips_is_at_least_one(count: int, bounds: tuple[int, int]) -> None:
    part = middle_part(count, 1)
    assert (part.start, part.stop) == (typed.trip_key(bounds[0]), typed.trip_key(bounds[1]))
    assert part.row_count == bounds[1] - bounds[0]
