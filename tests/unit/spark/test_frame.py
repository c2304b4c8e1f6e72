from __future__ import annotations

import pickle

import pytest
from pyspark.sql.types import (
    BinaryType,
    DecimalType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)
from rowlock import Mapping, MappingError
from rowlock.spark.frame import Frame, mapped_frame, plain_frame

_MAPPING = Mapping("id STRING :key, delay INT info:delay, price DECIMAL(10,2) info:price")


def _frame() -> Frame:
    return mapped_frame(_MAPPING, ("delay",), False)


def test_schema_has_the_mapping_s_columns_and_timestamps_that_were_asked_for() -> None:
    assert _frame().schema == StructType(
        [
            StructField("id", StringType(), False),
            StructField("delay", IntegerType()),
            StructField("price", DecimalType(10, 2)),
            StructField("delay_timestamp", TimestampType()),
        ]
    )


def test_every_type_of_a_mapping_has_spark_s_of_the_same_name() -> None:
    words = ["binary", "string", "boolean", "tinyint", "smallint", "int", "bigint", "float", "double"]
    words += ["decimal(7,3)", "date", "timestamp"]
    mapping = Mapping("k STRING :key, " + ", ".join(f"c{place} {word} f:c{place}" for place, word in enumerate(words)))
    types = [field.dataType.simpleString() for field in mapped_frame(mapping, (), False).schema.fields[1:]]
    assert types == words


def test_a_key_may_be_null_only_where_malformed_bytes_are() -> None:
    assert mapped_frame(_MAPPING, (), True).schema["id"].nullable


def test_without_a_mapping_there_are_the_row_and_a_map() -> None:
    frame = plain_frame()
    assert frame.schema == StructType(
        [
            StructField("row", BinaryType(), False),
            StructField("columns", MapType(StringType(), BinaryType(), True), False),
        ]
    )
    assert frame.has_cells
    assert frame.cell_columns is None
    only_row = frame.narrowed(StructType([StructField("row", BinaryType())]))
    assert not only_row.has_cells


def test_a_user_s_schema_chooses_columns_in_its_order_and_rows_stay_those_of_the_mapping() -> None:
    chosen = StructType([StructField("delay_timestamp", TimestampType()), StructField("id", StringType())])
    frame = _frame().narrowed(chosen)
    assert frame.schema == chosen
    assert frame.cell_columns == [b"info:delay", b"info:price"]


def test_names_of_a_schema_and_of_timestamps_are_found_in_any_case_as_spark_finds_them() -> None:
    chosen = StructType([StructField("DELAY_Timestamp", TimestampType()), StructField("Id", StringType())])
    frame = mapped_frame(_MAPPING, ("Delay",), False).narrowed(chosen)
    assert frame.schema == chosen
    assert [column.mapped and column.mapped.name for column in frame.columns] == ["delay", "id"]
    assert pickle.loads(pickle.dumps(frame)).schema == chosen


@pytest.mark.parametrize(
    ("field", "message"),
    [
        (
            StructField("dely", IntegerType()),
            "'dely', which does not exist; the columns are id, delay, price, delay_timestamp",
        ),
        (StructField("delay", LongType()), "'delay' as bigint, but the mapping as int"),
        (StructField("delay", IntegerType(), False), "'delay' as never null"),
    ],
)
def test_a_schema_that_does_not_fit_is_refused(field: StructField, message: str) -> None:
    with pytest.raises(MappingError, match=message):
        _frame().narrowed(StructType([field]))


def test_a_schema_without_columns_is_refused() -> None:
    with pytest.raises(MappingError, match="no columns"):
        _frame().narrowed(StructType([]))


def test_timestamps_are_of_value_columns_alone() -> None:
    for wrong in ("id", "nothing"):
        with pytest.raises(MappingError, match="not a value column of the mapping; those are delay, price"):
            mapped_frame(_MAPPING, (wrong,), False)


def test_a_frame_is_pickled_without_its_codecs() -> None:
    for frame in (_frame(), plain_frame()):
        again = pickle.loads(pickle.dumps(frame))
        assert again.schema == frame.schema
        assert [column.source for column in again.columns] == [column.source for column in frame.columns]


def test_a_star_asks_for_every_timestamp() -> None:
    names = mapped_frame(_MAPPING, ("*",), False).schema.names
    assert names == ["id", "delay", "price", "delay_timestamp", "price_timestamp"]


def test_two_columns_of_one_name_are_refused_in_any_case() -> None:
    for text, timestamps in (
        ("k STRING :key, K INT f:a", ()),
        ("k STRING :key, a INT f:a, a_timestamp INT f:b", ("a",)),
    ):
        with pytest.raises(MappingError, match="two columns"):
            mapped_frame(Mapping(text), timestamps, False)
