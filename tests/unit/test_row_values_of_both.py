"""Rows of values without timestamps, as one side encodes them and the other one reads them."""

from __future__ import annotations

from random import Random

import pytest
import rowlock
from rowlock._codec.columns import decoder
from rowlock._codec.row_values import fill_values, values_dict
from rowlock_proto.v1.region_pb2 import ColumnSet, PointAnswers, RowValues
from rowlock_regionserver.errors import InvalidRequestError
from rowlock_regionserver.operations import AnswerCell, Put
from rowlock_regionserver.rpc.messages.answers import error_answer
from rowlock_regionserver.rpc.messages.row_values import puts_count, puts_of, values_answer

from tests.seeds import drawn_seed


def _cells(values: dict[bytes, bytes]) -> list[AnswerCell]:
    return [(b"f", qualifier, 7, value) for qualifier, value in sorted(values.items())]


def _answered(*rows: list[AnswerCell]) -> list[dict[bytes, bytes]]:
    encoded = values_answer(300, rows)
    assert encoded is not None
    [answer] = PointAnswers.FromString(encoded).answers
    assert answer.id == 300
    assert answer.WhichOneof("answer") == "get"
    assert not answer.get.rows
    return [values_dict(row, bytes) for row in answer.get.values]


def test_a_client_reads_the_rows_that_a_server_answers() -> None:
    random = Random(drawn_seed())
    for _ in range(200):
        rows = [
            {b"q%d" % random.randrange(30): random.randbytes(random.randrange(200)) for _ in range(random.randrange(9))}
            for _ in range(random.randrange(1, 4))
        ]
        expected = [{b"f:" + qualifier: value for qualifier, value in sorted(row.items())} for row in rows]
        answered = _answered(*map(_cells, rows))
        assert answered == expected
        assert [list(row) for row in answered] == [list(row) for row in expected]


def test_a_text_is_decoded_and_a_byte_that_is_none_too() -> None:
    message = RowValues()
    fill_values(message, {"f:ä": "ö", "f:": b"\xff"})
    assert values_dict(message, decoder("utf-8")) == {"f:ä": "ö", "f:": "\udcff"}
    assert values_dict(message, bytes) == {"f:ä".encode(): "ö".encode(), b"f:": b"\xff"}


def test_answers_joined_are_one_message_with_all_of_them() -> None:
    one = values_answer(1, [_cells({b"a": b"1"})])
    assert one is not None
    message = PointAnswers.FromString(one + error_answer(2, InvalidRequestError("no"), "") + one)
    assert [answer.WhichOneof("answer") for answer in message.answers] == ["get", "error", "get"]


@pytest.mark.parametrize(
    "cells",
    [
        pytest.param([(b"f", b"q%03d" % number, 7, b"") for number in range(65)], id="many columns"),
        pytest.param([(b"f", bytes(3000), 7, b"")], id="a long column"),
        pytest.param([(b"f", b"q", 7, bytes(70_000))], id="a long value"),
    ],
)
def test_a_row_beyond_the_bounds_is_not_answered_so(cells: list[AnswerCell]) -> None:
    assert values_answer(1, [_cells({b"a": b"1"}), cells]) is None


def test_a_server_reads_the_puts_that_a_client_sends() -> None:
    random = Random(drawn_seed())
    for _ in range(200):
        data = {b"f%d:q:%d" % (number % 3, number): random.randbytes(random.randrange(99)) for number in range(1, 80)}
        chosen = {column: data[column] for column in random.sample(sorted(data), random.randrange(1, 79))}
        message = RowValues()
        fill_values(message, chosen)
        assert puts_count(message) == len(chosen)
        expected = tuple(
            [
                Put(family, qualifier, value)
                for column, value in chosen.items()
                for family, _, qualifier in [column.partition(b":")]
            ]
        )
        assert puts_of(RowValues.FromString(message.SerializeToString())) == expected


def test_names_and_values_are_checked_before_they_are_sent() -> None:
    with pytest.raises(rowlock.InvalidArgumentError, match="names a family"):
        fill_values(RowValues(), {b"f": b"1"})
    with pytest.raises(TypeError, match="column must be bytes or str, not int"):
        fill_values(RowValues(), {5: b"1"})  # type: ignore[type-var]  # that is the test
    with pytest.raises(TypeError, match="bytes or str"):
        fill_values(RowValues(), {b"f:a": b"1", b"f:b": 5})  # type: ignore[dict-item]  # that is the test


_TWO = ColumnSet(columns=[b"f:a", b"f:b"]).SerializeToString()
_LENGTHS = b"\1\0\0\0\2\0\0\0"


@pytest.mark.parametrize(
    "message",
    [
        pytest.param(RowValues(columns=b"\xff", lengths=_LENGTHS, data=b"123"), id="no list of columns"),
        pytest.param(RowValues(columns=_TWO, lengths=_LENGTHS[:4], data=b"1"), id="too few lengths"),
        pytest.param(RowValues(columns=_TWO, lengths=_LENGTHS[:-1], data=b"123"), id="a part of a length"),
        pytest.param(RowValues(columns=_TWO, lengths=_LENGTHS, data=b"12"), id="too few bytes"),
        pytest.param(RowValues(columns=_TWO, lengths=_LENGTHS, data=b"1234"), id="too many bytes"),
        pytest.param(RowValues(data=b"1"), id="bytes without a column"),
    ],
)
def test_a_message_that_contradicts_itself_is_refused_by_both(message: RowValues) -> None:
    with pytest.raises(rowlock.ServerError, match="damaged"):
        values_dict(message, bytes)
    with pytest.raises(InvalidRequestError, match="can't be read"):
        puts_of(message)


def test_a_put_needs_a_column_with_a_colon() -> None:
    message = RowValues(columns=ColumnSet(columns=[b"f"]).SerializeToString(), lengths=_LENGTHS[:4], data=b"1")
    with pytest.raises(InvalidRequestError, match="colon"):
        puts_of(message)
