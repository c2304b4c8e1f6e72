"""Which columns a DataFrame of a table has, where each comes from, and its schema for Spark.

With a mapping: the mapping's columns in its order, then one TIMESTAMP for each column whose timestamp is asked for.
Without: row BINARY, columns MAP<STRING, BINARY>, whose names are family:qualifier, escaped where they are not
printable UTF-8. A schema that the user gives chooses among these by name, in any order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

import pyarrow as pa
from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from rowlock.errors import MappingError
from rowlock.mapping import MappedColumn, Mapping

PLAIN_MAPPING = Mapping("row BINARY :key")
CELLS_NAME = "columns"
TIMESTAMP_SUFFIX = "_timestamp"
ALL_TIMESTAMPS = "*"

_TYPES: dict[str, DataType] = {
    "binary": BinaryType(),
    "string": StringType(),
    "boolean": BooleanType(),
    "tinyint": ByteType(),
    "smallint": ShortType(),
    "int": IntegerType(),
    "bigint": LongType(),
    "float": FloatType(),
    "double": DoubleType(),
    "date": DateType(),
    "timestamp": TimestampType(),
}


class Source(Enum):
    """Where a column of a DataFrame comes from."""

    KEY = "a part of the key"
    VALUE = "the value of a cell"
    TIMESTAMP = "the timestamp of a cell"
    CELLS = "all cells of the row"


@dataclass(frozen=True, slots=True)
class FrameColumn:
    """A column of a DataFrame. mapped: the mapping's column that it comes from; None for CELLS."""

    name: str
    source: Source
    mapped: MappedColumn | None
    is_nullable: bool = True

    @property
    def type(self) -> DataType:
        """Spark's."""
        if self.source is Source.TIMESTAMP:
            return TimestampType()
        if self.mapped is None:
            return MapType(StringType(), BinaryType(), True)
        return spark_type(self.mapped)


@dataclass(frozen=True, slots=True)
class Frame:
    """The columns of a DataFrame. Which rows it has does not depend on them."""

    mapping: Mapping
    columns: tuple[FrameColumn, ...]

    def __reduce__(self) -> tuple[object, ...]:
        # Codecs are functions: a task makes them anew from the mapping's text.
        places = {column.name: place for place, column in enumerate(self.mapping.columns)}
        columns = [
            (item.name, item.source, None if item.mapped is None else places[item.mapped.name], item.is_nullable)
            for item in self.columns
        ]
        return _frame_again, (self.mapping, columns)

    @property
    def schema(self) -> StructType:
        return StructType([StructField(item.name, item.type, item.is_nullable) for item in self.columns])

    @property
    def has_cells(self) -> bool:
        return any(column.source is Source.CELLS for column in self.columns)

    @property
    def families(self) -> set[bytes]:
        """Those that the mapping names."""
        return {column.family for column in self.mapping.values}

    @property
    def cell_columns(self) -> list[bytes] | None:
        """What a scan asks for to leave out rows that have none of the mapping's columns; None: a key is all it has."""
        return self.mapping.cell_columns or None

    def narrowed(self, schema: StructType) -> Frame:
        """The columns that a user's schema names, in its order; raises MappingError if it has others, or other types.

        Names are found whatever their letters' case, and stay as the schema has them. Columns that may be null must be
        so in the schema.
        """
        by_name = {column.name.lower(): column for column in self.columns}
        known = ", ".join(column.name for column in self.columns)
        if not schema.fields:
            raise MappingError(f"the schema has no columns; there are {known}")
        chosen = []
        for field in schema.fields:
            column = by_name.get(field.name.lower())
            if column is None:
                raise MappingError(f"the schema names the column {field.name!r}, and there is none; there are {known}")
            if field.dataType != column.type:
                raise MappingError(
                    f"the schema says that {field.name!r} is {field.dataType.simpleString()}, and the mapping makes it "
                    f"{column.type.simpleString()}; cast it in a select() if you need another type"
                )
            if column.is_nullable and not field.nullable:
                raise MappingError(f"the schema says that {field.name!r} is never null, and it may be")
            chosen.append(FrameColumn(field.name, column.source, column.mapped, field.nullable))
        return Frame(self.mapping, tuple(chosen))


def _frame_again(mapping: Mapping, columns: Sequence[tuple[str, Source, int | None, bool]]) -> Frame:
    """A frame that was pickled."""
    return Frame(
        mapping,
        tuple(
            FrameColumn(name, source, None if place is None else mapping.columns[place], is_nullable)
            for name, source, place, is_nullable in columns
        ),
    )


def plain_frame() -> Frame:
    """The DataFrame of a table that is read without a mapping."""
    [key] = PLAIN_MAPPING.keys
    return Frame(
        PLAIN_MAPPING,
        (FrameColumn(key.name, Source.KEY, key, False), FrameColumn(CELLS_NAME, Source.CELLS, None, False)),
    )


def mapped_frame(mapping: Mapping, timestamps: tuple[str, ...], malformed_is_null: bool) -> Frame:
    """The DataFrame of a mapping; raises MappingError if a timestamp is asked of what has none."""
    columns = [
        FrameColumn(
            column.name, Source.KEY if column.is_key else Source.VALUE, column, not column.is_key or malformed_is_null
        )
        for column in mapping.columns
    ]
    values = {column.name.lower(): column for column in mapping.values}
    for name in values if timestamps == (ALL_TIMESTAMPS,) else timestamps:
        value = values.get(name.lower())
        if value is None:
            raise MappingError(
                f"the option timestamps names {name!r}, which is no value column of the mapping; those are "
                f"{', '.join(column.name for column in mapping.values) or 'none'}"
            )
        columns.append(FrameColumn(value.name + TIMESTAMP_SUFFIX, Source.TIMESTAMP, value))
    # Spark does not tell letters' case apart unless told to.
    seen: set[str] = set()
    for column in columns:
        if column.name.lower() in seen:
            raise MappingError(
                f"two columns of the DataFrame would be named {column.name!r}; rename one in the mapping"
            )
        seen.add(column.name.lower())
    return Frame(mapping, tuple(columns))


def spark_type(column: MappedColumn) -> DataType:
    arrow = column.codec.arrow
    if isinstance(arrow, pa.Decimal128Type):
        return DecimalType(arrow.precision, arrow.scale)
    return _TYPES[column.type]
