"""Filters: converts messages to values."""

from __future__ import annotations

from rowlock_proto.v1 import types_pb2

from rowlock_regionserver.errors import InvalidRequestError
from rowlock_regionserver.operations import (
    AllOf,
    AnyOf,
    CellFilter,
    ColumnComparison,
    ColumnIn,
    ColumnPattern,
    ColumnPresence,
    CompareOp,
    NotOf,
    PatternKind,
    RowComparison,
    RowFilter,
    RowPattern,
    RowPrefix,
    ValueType,
)
from rowlock_regionserver.rpc.messages.enums import member_of


def row_filter(message: types_pb2.Filter, depth_max: int) -> RowFilter:
    """Converts the filter to a value. `depth_max` bounds its nesting, so that evaluating it can't overflow the stack.

    Raises InvalidRequestError for a filter that is empty, nests too deep or has an unknown enum value. CHECK validates
    that its families exist and its operands fit their types.
    """
    return _row_filter(message, depth_max, depth_max)


def _row_filter(message: types_pb2.Filter, depth: int, depth_max: int) -> RowFilter:
    if depth <= 0:
        raise InvalidRequestError(
            f"the filter nests deeper than {depth_max} levels; combine conditions in one `all` or `any` instead"
        )
    match message.WhichOneof("filter"):
        case "all":
            return AllOf(_row_filters(message.all, depth, depth_max))
        case "any":
            return AnyOf(_row_filters(message.any, depth, depth_max))
        case "not":
            # `not` is a Python keyword, so the field can't be read as an attribute.
            return NotOf(_row_filter(getattr(message, "not"), depth - 1, depth_max))
        case "column":
            column = message.column
            return ColumnComparison(
                family=column.family,
                qualifier=column.qualifier,
                op=member_of(CompareOp, column.op, "ColumnComparison.op"),
                operand=column.operand,
                type=member_of(ValueType, column.type, "ColumnComparison.type"),
            )
        case "presence":
            presence = message.presence
            return ColumnPresence(presence.family, presence.qualifier, presence.present)
        case "pattern":
            pattern = message.pattern
            kind = member_of(PatternKind, pattern.kind, "ColumnPattern.kind")
            return ColumnPattern(pattern.family, pattern.qualifier, kind, pattern.operand)
        case "column_in":
            column_in = message.column_in
            return ColumnIn(column_in.family, column_in.qualifier, frozenset(column_in.operands))
        case "row":
            return RowComparison(member_of(CompareOp, message.row.op, "RowComparison.op"), message.row.operand)
        case "row_prefix":
            return RowPrefix(message.row_prefix)
        case "row_pattern":
            kind = member_of(PatternKind, message.row_pattern.kind, "RowPattern.kind")
            return RowPattern(kind, message.row_pattern.operand)
        case _:
            raise InvalidRequestError(
                "a filter is empty; set one of all, any, not, column, presence, pattern, column_in, row, "
                "row_prefix, row_pattern (or it has a kind that this server is too old to know)"
            )


def _row_filters(message: types_pb2.FilterList, depth: int, depth_max: int) -> tuple[RowFilter, ...]:
    return tuple([_row_filter(inner, depth - 1, depth_max) for inner in message.filters])


def cell_filter(message: types_pb2.CellFilter) -> CellFilter:
    """Converts the filter that chooses which cells of a matching row are returned."""
    value_op: CompareOp | None = None
    value_type = ValueType.BYTES
    if message.HasField("value"):
        value_op = member_of(CompareOp, message.value.op, "CellFilter.value.op")
        value_type = member_of(ValueType, message.value.type, "CellFilter.value.type")
    return CellFilter(
        qualifier_prefix=message.qualifier_prefix if message.HasField("qualifier_prefix") else None,
        qualifier_start=message.qualifier_start if message.HasField("qualifier_start") else None,
        qualifier_stop=message.qualifier_stop if message.HasField("qualifier_stop") else None,
        value_op=value_op,
        value_operand=message.value.operand,
        value_type=value_type,
        keys_only=message.keys_only,
        first_key_only=message.first_key_only,
        cell_offset=message.cell_offset,
        cell_limit=message.cell_limit,
    )
