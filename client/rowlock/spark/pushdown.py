"""Conditions that the server evaluates: on the key as row ranges, on values as a rowlock filter.

They are options of load(), and hold for every query of its DataFrame. Spark's own pushdown to Python sources is not
used: it applies the filters of one query to all others (docs/decisions/filters_are_part_of_load.md).

A condition is pushed only if the server evaluates it exactly as Spark does, nulls included: Spark drops a row for which
a condition is null, and a comparison in rowlock does not match an absent column. Conditions that might differ are
refused: > and >= of floats, because of NaN; numbers as text, which have several spellings; decimals in cells.
"""

from __future__ import annotations

import datetime
import functools
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import datasource as spark

from rowlock._codec.scalars import scalar_codec
from rowlock._core.scan_plan import RowRange
from rowlock._core.typed_filters import TypedColumn
from rowlock._core.typed_rows import TypedCell
from rowlock.errors import InvalidArgumentError, RowlockError
from rowlock.filters import Filter, column, row_key
from rowlock.mapping import MappedColumn
from rowlock.spark.frame import Frame, FrameColumn, Source
from rowlock.spark.key_ranges import ALL_ROWS, Op, PartCondition, intersected, row_ranges
from rowlock.spark.options import ReadOptions
from rowlock.spark.sql_filter import parse_filter

_EPOCH_DATE = datetime.date(1970, 1, 1)
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_MICRO = datetime.timedelta(microseconds=1)

_KEY_OPS: dict[type[spark.Filter], Op] = {
    spark.EqualTo: Op.EQUAL,
    spark.EqualNullSafe: Op.EQUAL,
    spark.LessThan: Op.LESS,
    spark.LessThanOrEqual: Op.LESS_OR_EQUAL,
    spark.GreaterThan: Op.GREATER,
    spark.GreaterThanOrEqual: Op.GREATER_OR_EQUAL,
    spark.StringStartsWith: Op.STARTS_WITH,
}
_COMPARISONS: dict[type[spark.Filter], Callable[[Any, Any], Filter]] = {
    spark.EqualTo: operator.eq,
    spark.EqualNullSafe: operator.eq,
    spark.LessThan: operator.lt,
    spark.LessThanOrEqual: operator.le,
    spark.GreaterThan: operator.gt,
    spark.GreaterThanOrEqual: operator.ge,
}


@dataclass(frozen=True, slots=True)
class Rows:
    """The rows of a DataFrame: those in the ranges that match the filter; None matches all."""

    ranges: tuple[RowRange, ...]
    where: Filter | None


@dataclass(frozen=True, slots=True)
class Pushed:
    """The server's part of some filters, as row ranges and a filter. remaining: those that only Spark can evaluate."""

    ranges: tuple[RowRange, ...]
    where: Filter | None
    remaining: tuple[spark.Filter, ...]


def rows_of(frame: Frame, options: ReadOptions) -> Rows:
    """Returns the rows that the options select.

    Raises InvalidArgumentError for a condition that only Spark can evaluate.
    """
    selected = Rows((options.row_range,), options.where)
    if options.filter is None:
        return selected
    conditions = parse_filter(options.filter, frame)
    found = pushed(frame, [each for one in conditions for each in one.filters], options.malformed_is_null)
    for one in conditions:
        if any(each is remaining for each in one.filters for remaining in found.remaining):
            raise InvalidArgumentError(
                f"the server can't evaluate {one.text!r} of the option filter exactly as Spark does; remove it, and "
                f"use .where({one.text!r}) on the DataFrame"
            )
    return Rows(intersected(selected.ranges, found.ranges), both(selected.where, found.where))


def pushed(frame: Frame, filters: Sequence[spark.Filter], malformed_is_null: bool) -> Pushed:
    """Splits filters, which must all hold, into the server's part and the remaining ones."""
    columns = {item.name: item for item in frame.columns}
    conditions: list[PartCondition] = []
    places: list[int] = []
    exact: set[int] = set()
    wheres: list[Filter] = []
    for place, given in enumerate(filters):
        item = _column_of(given, columns)
        if item is None:
            continue
        if item.source is Source.KEY:
            condition = _part_condition(frame, item, given)
            if condition is not None:
                conditions.append(condition)
                places.append(place)
                continue
        found = _where(frame, item, given, malformed_is_null)
        if found is not None:
            exact.add(place)
            if found is not _ALWAYS:
                wheres.append(found)
    ranges, exact_on_key = row_ranges(frame.mapping, conditions) if conditions else (ALL_ROWS, set[int]())
    if not malformed_is_null:
        exact.update(places[number] for number in exact_on_key)
    # Else a row with a malformed key may lie in the ranges, and Spark has to drop its null.
    remaining = tuple(given for place, given in enumerate(filters) if place not in exact)
    return Pushed(ranges, functools.reduce(operator.and_, wheres) if wheres else None, remaining)


def both(first: Filter | None, second: Filter | None) -> Filter | None:
    """Returns the conjunction; None matches every row."""
    if first is None or second is None:
        return second if first is None else first
    return first & second


_ALWAYS = row_key() >= b""


def _column_of(given: spark.Filter, columns: dict[str, FrameColumn]) -> FrameColumn | None:
    inner = given.child if isinstance(given, spark.Not) else given
    path: tuple[str, ...] = getattr(inner, "attribute", ())
    return columns.get(path[0]) if len(path) == 1 else None


def _part_condition(frame: Frame, item: FrameColumn, given: spark.Filter) -> PartCondition | None:
    assert item.mapped is not None, item
    part = frame.mapping.keys.index(item.mapped)
    if isinstance(given, spark.In):
        # A null in the list equals nothing.
        values = tuple(value for value in given.value if value is not None)
        return PartCondition(part, Op.EQUAL, values) if values else None
    op = _KEY_OPS.get(type(given))
    value = getattr(given, "value", None)
    return PartCondition(part, op, (value,)) if op is not None and value is not None else None


def _where(frame: Frame, item: FrameColumn, given: spark.Filter, malformed_is_null: bool) -> Filter | None:
    """Returns an exactly equivalent rowlock filter; None if there is none, _ALWAYS if it holds for every row."""
    if item.mapped is None:
        return None
    try:
        if item.source is not Source.KEY:
            return _where_value(item, item.mapped, given, malformed_is_null)
        return None if malformed_is_null else _where_key(frame, item.mapped, given)
    except (RowlockError, TypeError, ValueError):
        # The column's encoding can't represent the value.
        return None


def _where_key(frame: Frame, mapped: MappedColumn, given: spark.Filter) -> Filter | None:
    if isinstance(given, spark.IsNotNull):
        return _ALWAYS
    is_whole = len(frame.mapping.keys) == 1 and mapped.type in ("string", "binary")
    if is_whole and isinstance(given, spark.Not) and isinstance(given.child, spark.EqualTo):
        return None if given.child.value is None else row_key() != given.child.value
    return None


def _where_value(
    item: FrameColumn, mapped: MappedColumn, given: spark.Filter, malformed_is_null: bool
) -> Filter | None:
    """Returns the filter on the value or the timestamp of a cell."""
    name = mapped.column
    presence = column(name)
    # With malformed=null a stored value may be null; a timestamp is null only without a cell.
    has_presence = item.source is Source.TIMESTAMP or not malformed_is_null or mapped.type == "binary"
    if isinstance(given, spark.IsNull):
        return presence.is_absent() if has_presence else None
    if isinstance(given, spark.IsNotNull):
        return presence.is_present() if has_presence else None
    if item.source is Source.TIMESTAMP:
        return None
    if malformed_is_null and mapped.type != "binary":
        return None
    if isinstance(given, spark.Not):
        found = _where_value(item, mapped, given.child, malformed_is_null)
        if found is None:
            return None
        if isinstance(given.child, spark.EqualNullSafe | spark.IsNull | spark.IsNotNull):
            # Never null.
            return ~found
        if isinstance(given.child, spark.In) and any(value is None for value in given.child.value):
            # It is null or false for every row.
            return None
        return ~found & presence.is_present()
    return _comparison(mapped, given)


def _comparison(mapped: MappedColumn, given: spark.Filter) -> Filter | None:
    if isinstance(given, spark.EqualNullSafe) and given.value is None:
        return column(mapped.column).is_absent()
    if isinstance(given, spark.StringStartsWith | spark.StringEndsWith | spark.StringContains):
        if mapped.type != "string":
            return None
        text = column(mapped.column, "string")
        if isinstance(given, spark.StringStartsWith):
            return text.starts_with(given.value)
        return text.ends_with(given.value) if isinstance(given, spark.StringEndsWith) else text.contains(given.value)
    if isinstance(given, spark.In):
        values = [_operand(mapped, value) for value in given.value if value is not None]
        kind = _kind(mapped)
        if not values or kind is None or kind in ("float", "double", "boolean"):
            return None
        if mapped.formers:
            return _typed(mapped).is_in([value for value in given.value if value is not None])
        return column(mapped.column, kind).is_in(values)
    compare = _COMPARISONS.get(type(given))
    kind = _kind(mapped)
    value = getattr(given, "value", None)
    if compare is None or kind is None or value is None:
        return None
    if kind == "boolean" and type(given) not in (spark.EqualTo, spark.EqualNullSafe):
        return None
    if kind in ("float", "double") and (value != value or type(given) in (spark.GreaterThan, spark.GreaterThanOrEqual)):
        # Spark's NaN equals itself and is greater than everything.
        return None
    if mapped.formers:
        return compare(_typed(mapped), value)
    return compare(column(mapped.column, kind), _operand(mapped, value))


def _typed(mapped: MappedColumn) -> TypedColumn:
    """Returns a column that was widened, to be compared with values of its type."""
    return TypedColumn(TypedCell(mapped, mapped.column, scalar_codec(mapped)))


def _kind(mapped: MappedColumn) -> str | None:
    """Returns the type as which the server compares the column's bytes; None if that is not exact."""
    if mapped.type in ("string", "binary"):
        return mapped.type
    if mapped.encoding != "binary":
        return None
    if mapped.type in ("boolean", "tinyint", "smallint", "int", "bigint", "float", "double"):
        return mapped.type
    return {"date": "int", "timestamp": "bigint"}.get(mapped.type)


def _operand(mapped: MappedColumn, value: Any) -> Any:  # Any: the column's type
    if mapped.type == "date":
        return (value - _EPOCH_DATE).days
    if mapped.type == "timestamp":
        return (value - _EPOCH) // _MICRO
    return value
