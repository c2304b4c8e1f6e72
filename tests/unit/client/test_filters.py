"""Filters as expressions and as messages."""

from __future__ import annotations

import pytest
import rowlock
from rowlock.filters import Operand, ValueType
from rowlock_proto.v1 import types_pb2


@pytest.mark.parametrize(
    ("kind", "encoding", "operand", "value_type", "encoded"),
    [
        (bytes, "binary", b"\x01", types_pb2.VALUE_TYPE_BYTES, b"\x01"),
        (str, "binary", "ä", types_pb2.VALUE_TYPE_STRING, "ä".encode()),
        (int, "binary", -2, types_pb2.VALUE_TYPE_INT64, b"\xff" * 7 + b"\xfe"),
        ("int", "binary", 5, types_pb2.VALUE_TYPE_INT32, b"\0\0\0\x05"),
        ("smallint", "binary", 5, types_pb2.VALUE_TYPE_INT16, b"\0\x05"),
        ("tinyint", "binary", -1, types_pb2.VALUE_TYPE_INT8, b"\xff"),
        (float, "binary", 1, types_pb2.VALUE_TYPE_FLOAT64, b"\x3f\xf0" + bytes(6)),
        ("float", "binary", 1.0, types_pb2.VALUE_TYPE_FLOAT32, b"\x3f\x80\0\0"),
        (bool, "binary", True, types_pb2.VALUE_TYPE_BOOLEAN, b"\xff"),
        (int, "text", -15, types_pb2.VALUE_TYPE_TEXT_INT, b"-15"),
        (float, "text", 1.5, types_pb2.VALUE_TYPE_TEXT_FLOAT, b"1.5"),
    ],
)
def test_operands_have_the_encoding_of_their_type(
    kind: ValueType, encoding: str, operand: Operand, value_type: types_pb2.ValueType, encoded: bytes
) -> None:
    message = (rowlock.column("f:q", kind, encoding) >= operand).message.column
    assert (message.family, message.qualifier, message.op) == (b"f", b"q", types_pb2.COMPARE_OP_GREATER_OR_EQUAL)
    assert (message.type, message.operand) == (value_type, encoded)


def test_every_comparison_reads_stored_op_given() -> None:
    column, key = rowlock.column("f:q"), rowlock.row_key()
    ops = list(types_pb2.CompareOp.values())
    assert [
        made.message.column.op
        for made in (column == "a", column != "a", column < "a", column <= "a", column > "a", column >= "a")
    ] == ops
    assert [
        made.message.row.op for made in (key == "a", key != "a", key < "a", key <= "a", key > "a", key >= "a")
    ] == ops
    assert key.starts_with("ab").message.row_prefix == b"ab"


def test_filters_combine_flat_and_keep_their_order() -> None:
    first, second, third = (rowlock.column(f"f:{name}") == "1" for name in "abc")
    both = first & second & third
    assert [item.column.qualifier for item in both.message.all.filters] == [b"a", b"b", b"c"]
    either = (first & second) | third
    assert [item.WhichOneof("filter") for item in either.message.any.filters] == ["all", "column"]
    assert getattr((~first).message, "not").column.qualifier == b"a"


def test_presence_patterns_and_lists() -> None:
    column = rowlock.column("f:q", str)
    assert column.is_present().message.presence.present
    assert not column.is_absent().message.presence.present
    kinds = [
        made.message.pattern.kind
        for made in (
            column.starts_with("a"),
            column.ends_with("a"),
            column.contains("a"),
            column.matches(b"a"),
            column.matches("a"),
        )
    ]
    assert kinds == list(types_pb2.ColumnPattern.Kind.values())
    assert rowlock.column("f:q", "int").is_in([1, 2]).message.column_in.operands == [b"\0\0\0\x01", b"\0\0\0\x02"]


def test_operands_that_do_not_fit_are_refused() -> None:
    with pytest.raises(TypeError, match="integer"):
        rowlock.column("f:q", int) == "5"  # noqa: B015
    with pytest.raises(TypeError, match="integer"):
        rowlock.column("f:q", int) == True  # noqa: B015, E712
    with pytest.raises(TypeError, match="number"):
        rowlock.column("f:q", float) == "5"  # noqa: B015
    with pytest.raises(TypeError, match="boolean"):
        rowlock.column("f:q", bool) == 1  # noqa: B015
    with pytest.raises(TypeError, match=r"column\(name, int\)"):
        rowlock.column("f:q") > 5  # noqa: B015
    with pytest.raises(rowlock.InvalidArgumentError, match="1 bytes"):
        rowlock.column("f:q", "tinyint") == 200  # noqa: B015
    with pytest.raises(rowlock.InvalidArgumentError, match="starts_with"):
        rowlock.column("f:q", int).starts_with("5")
    with pytest.raises(rowlock.InvalidArgumentError, match="matches needs a column of bytes or str"):
        rowlock.column("f:q", int).matches("5")
    with pytest.raises(TypeError, match="a regular expression must be str or bytes, not int"):
        rowlock.row_key().matches(5)  # type: ignore[arg-type]
    with pytest.raises(rowlock.InvalidArgumentError, match="can't read a column as 'date'"):
        rowlock.column("f:q", "date")
    with pytest.raises(TypeError, match="a list of values"):
        rowlock.column("f:q").is_in("abc")
    with pytest.raises(TypeError, match="is_in takes a list of values, not one value: 5"):
        rowlock.column("f:q", int).is_in(5)  # type: ignore[arg-type]


def test_a_filter_has_no_truth_value() -> None:
    column = rowlock.column("f:q", int)
    with pytest.raises(TypeError, match=r"&, \| and ~"):
        assert column > 5 and column < 9  # noqa: PT018
    with pytest.raises(TypeError, match="truth value"):
        assert 5 < column < 9


def test_a_filter_deeper_than_the_protocol_allows_is_refused_when_it_is_made() -> None:
    deep = rowlock.column("f:q") == b"x"
    for _ in range(31):
        deep = ~deep
    with pytest.raises(rowlock.InvalidArgumentError, match="deeper than 32"):
        deep.__invert__()
    with pytest.raises(rowlock.InvalidArgumentError, match="deeper than 32"):
        deep.__and__(deep)
    wide = rowlock.column("f:q") == b"x"
    for number in range(100):
        wide = wide | (rowlock.column("f:q") == b"%d" % number)
    assert wide.depth == 2
