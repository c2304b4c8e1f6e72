"""The columns of a table's DataFrame, the source of each, and the Spark schema.

With a mapping: the mapping's columns in its order, then a TIMESTAMP for each column that the option timestamps names.
Without: row BINARY, columns MAP<STRING, BINARY>, with keys family:qualifier, escaped where they are not printable
UTF-8. A schema from the user selects among these by name, in any order. A read that counts has only count BIGINT.
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
COUNT_NAME = "count"
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
    """The source of a DataFrame's column."""

    KEY = "a part of the key"
    VALUE = "the value of a cell"
    TIMESTAMP = "the timestamp of a cell"
    CELLS = "all cells of the row"
    COUNT = "the number of rows that a task has found"


@dataclass(frozen=True, slots=True)
class FrameColumn:
    """A column of a DataFrame. mapped: its column in the mapping; None for CELLS and COUNT."""

    name: str
    source: Source
    mapped: MappedColumn | None
    is_nullable: bool = True

    @property
    def type(self) -> DataType:
        """The Spark type."""
        if self.source is Source.TIMESTAMP:
            return TimestampType()
        if self.source is Source.COUNT:
            return LongType()
        if self.mapped is None:
            return MapType(StringType(), BinaryType(), True)
        return spark_type(self.mapped)


@dataclass(frozen=True, slots=True)
class Frame:
    """The columns of a DataFrame. Its rows do not depend on them."""

    mapping: Mapping
    columns: tuple[FrameColumn, ...]

    def __reduce__(self) -> tuple[object, ...]:
        # Codecs are functions, which don't pickle: a task makes them from the mapping's text.
        places = {column.name: place for place, column in enumerate(self.mapping.columns)}
        columns = [
            (item.name, item.source, None if item.mapped is None else places[item.mapped.name], item.is_nullable)
            for item in self.columns
        ]
        return _unpickled_frame, (self.mapping, columns)

    @property
    def schema(self) -> StructType:
        return StructType([StructField(item.name, item.type, item.is_nullable) for item in self.columns])

    @property
    def has_cells(self) -> bool:
        return any(column.source is Source.CELLS for column in self.columns)

    @property
    def has_keys(self) -> bool:
        """Whether a column is part of the rows' keys."""
        return any(column.source is Source.KEY for column in self.columns)

    @property
    def is_count(self) -> bool:
        return any(column.source is Source.COUNT for column in self.columns)

    @property
    def families(self) -> set[bytes]:
        """The families that the mapping names."""
        return {column.family for column in self.mapping.values}

    @property
    def cell_columns(self) -> list[bytes] | None:
        """The columns of a scan that omits rows without mapped columns; None if the mapping has only a key."""
        return self.mapping.cell_columns or None

    def narrowed(self, schema: StructType) -> Frame:
        """Returns the frame with the columns of a user's schema, in its order. Names match in any letter case.

        Raises MappingError for an unknown column, for another type, and for a nullable column that the schema declares
        as never null.
        """
        by_name = {column.name.lower(): column for column in self.columns}
        known = ", ".join(column.name for column in self.columns)
        if not schema.fields:
            raise MappingError(f"the schema has no columns; choose among {known}")
        chosen = []
        for field in schema.fields:
            column = by_name.get(field.name.lower())
            if column is None:
                raise MappingError(
                    f"the schema names the column {field.name!r}, which does not exist; the columns are {known}"
                )
            if field.dataType != column.type:
                raise MappingError(
                    f"the schema declares {field.name!r} as {field.dataType.simpleString()}, but the mapping as "
                    f"{column.type.simpleString()}; use that type, and cast in a select() if you need another one"
                )
            if column.is_nullable and not field.nullable:
                raise MappingError(
                    f"the schema declares {field.name!r} as never null, but it may be null; declare it as nullable"
                )
            chosen.append(FrameColumn(field.name, column.source, column.mapped, field.nullable))
        return Frame(self.mapping, tuple(chosen))


def _unpickled_frame(mapping: Mapping, columns: Sequence[tuple[str, Source, int | None, bool]]) -> Frame:
    """Rebuilds a frame from its pickled form."""
    return Frame(
        mapping,
        tuple(
            FrameColumn(name, source, None if place is None else mapping.columns[place], is_nullable)
            for name, source, place, is_nullable in columns
        ),
    )


def plain_frame() -> Frame:
    """Returns the frame of a read without a mapping."""
    [key] = PLAIN_MAPPING.keys
    return Frame(
        PLAIN_MAPPING,
        (FrameColumn(key.name, Source.KEY, key, False), FrameColumn(CELLS_NAME, Source.CELLS, None, False)),
    )


def count_frame(counted: Frame) -> Frame:
    """Returns the frame of a read that counts the rows of another frame."""
    return Frame(counted.mapping, (FrameColumn(COUNT_NAME, Source.COUNT, None, False),))


def mapped_frame(mapping: Mapping, timestamps: tuple[str, ...], malformed_is_null: bool) -> Frame:
    """Returns the frame of a mapping. Raises MappingError if `timestamps` names other than value columns."""
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
                f"the option timestamps names {name!r}, which is not a value column of the mapping; those are "
                f"{', '.join(column.name for column in mapping.values) or 'none'}"
            )
        columns.append(FrameColumn(value.name + TIMESTAMP_SUFFIX, Source.TIMESTAMP, value))
    # Spark ignores letter case unless spark.sql.caseSensitive is set.
    seen: set[str] = set()
    for column in columns:
        if column.name.lower() in seen:
            raise MappingError(
                f"two columns of the DataFrame would be named {column.name!r}; rename one in the mapping"
            )
        seen.add(column.name.lower())
    return Frame(mapping, tuple(columns))


def spark_type(column: MappedColumn) -> DataType:
    """Returns the Spark type of a mapping's column."""
    arrow = column.codec.arrow
    if isinstance(arrow, pa.Decimal128Type):
        return DecimalType(arrow.precision, arrow.scale)
    return _TYPES[column.type]
