"""Rows, columns and values as arguments."""

from __future__ import annotations

import pytest
from rowlock._codec.columns import (
    check_timestamp,
    decoder,
    encoded_row,
    encoded_value,
    parse_cell_column,
    parse_column,
)
from rowlock.errors import InvalidArgumentError, LimitExceededError


def test_columns_are_divided_at_the_first_colon() -> None:
    assert parse_column("info:delay") == (b"info", b"delay")
    assert parse_column(b"info:a:b") == (b"info", b"a:b")
    assert parse_column("info:") == (b"info", b"")
    assert parse_column("info") == (b"info", None)
    assert parse_column("é:ü") == ("é".encode(), "ü".encode())


@pytest.mark.parametrize("name", ["", ":q", "a\0b:q", "a/b:q", "a\\b:q", ".f:q", "f" * 128 + ":q"])
def test_malformed_columns_are_refused_with_the_reason(name: str) -> None:
    with pytest.raises(InvalidArgumentError, match="is not a column, 'family:qualifier': the family"):
        parse_column(name)


def test_one_cell_needs_more_than_a_family() -> None:
    with pytest.raises(InvalidArgumentError, match="'info' names a family"):
        parse_cell_column("info")


@pytest.mark.parametrize("name", [5, None, ("f", "q"), {"f:q": "1"}, ["f:q"]])
def test_a_column_of_another_type_is_refused(name: object) -> None:
    with pytest.raises(TypeError, match="column must be bytes or str"):
        parse_column(name)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="column must be bytes or str"):
        parse_cell_column(name)  # type: ignore[arg-type]


def test_rows_have_bounds() -> None:
    assert encoded_row("ä") == "ä".encode()
    assert encoded_row(b"x" * 32767)
    with pytest.raises(InvalidArgumentError, match="empty"):
        encoded_row("")
    with pytest.raises(LimitExceededError) as caught:
        encoded_row(b"x" * 32768)
    assert (caught.value.limit_value, caught.value.found) == (32767, 32768)
    with pytest.raises(TypeError, match="row must be bytes or str, not int"):
        encoded_row(5)  # type: ignore[arg-type]  # on purpose


def test_values_are_bytes_or_text() -> None:
    assert [encoded_value(value) for value in (b"a", bytearray(b"a"), memoryview(b"a"), "ä")] == [
        b"a",
        b"a",
        b"a",
        "ä".encode(),
    ]


@pytest.mark.parametrize("value", [5, True])
def test_a_number_as_a_value_names_what_to_use_instead(value: int) -> None:
    with pytest.raises(TypeError, match=r"increment\(\).*rowlock\.Mapping"):
        encoded_value(value)


def test_none_as_a_value_names_delete() -> None:
    with pytest.raises(TypeError, match=r"delete\(\)"):
        encoded_value(None)
    with pytest.raises(TypeError, match="not float"):
        encoded_value(1.5)


@pytest.mark.parametrize("timestamp", [-1, (1 << 63) - 1])
def test_absurd_timestamps_are_refused(timestamp: int) -> None:
    with pytest.raises(InvalidArgumentError, match="milliseconds since the epoch"):
        check_timestamp(timestamp)
    check_timestamp((1 << 63) - 2)
    with pytest.raises(TypeError):
        check_timestamp(1.5)  # type: ignore[arg-type]  # on purpose


@pytest.mark.parametrize("encoding", ["klingon", "latin-1", "utf-16"])
def test_answers_are_decoded_in_the_encoding_of_str_arguments(encoding: str) -> None:
    assert decoder("UTF8")("ä".encode()) == "ä"
    with pytest.raises(InvalidArgumentError, match=repr(encoding)):
        decoder(encoding)
