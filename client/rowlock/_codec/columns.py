"""Converts rows, columns and values between the caller's types and bytes.

A row, column or value is bytes, or str, which is encoded as UTF-8. A byte that is not UTF-8 is decoded to a lone
surrogate, U+DC80 to U+DCFF, as in file names (PEP 383), and is encoded back to the same byte. A column is
`family:qualifier`; the qualifier may be empty and may contain colons. Where a whole family is allowed, its bare name
means the family. Arguments that the server refuses with any configuration are refused here, before a request is sent.
"""

from __future__ import annotations

import codecs
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from types import UnionType
from typing import TypeVar

from rowlock_proto.shown_names import name_text, row_text

from rowlock.errors import InvalidArgumentError, LimitExceededError

# The type of a table's results: bytes, or str if it was opened with an encoding.
Text = TypeVar("Text", bytes, str)

Name = bytes | str
Value = bytes | bytearray | memoryview | str
T = TypeVar("T")

# The error handler for bytes that are not UTF-8.
_NO_TEXT = "surrogateescape"

FAMILY_BYTES_MAX = 127
# HBase's limit: a row's length fits 15 bits. The server's configured limit may be lower, never higher.
ROW_BYTES_MAX = 32 * 1024 - 1
TIMESTAMP_MAX = (1 << 63) - 2
UINT32_MAX = (1 << 32) - 1
UINT64_MAX = (1 << 64) - 1


def encoded_row(row: Name) -> bytes:
    """Returns a row as bytes. Raises InvalidArgumentError if it is empty, LimitExceededError if it is too long."""
    if type(row) is not bytes:
        row = _encoded(row, "row")
    if not row:
        raise InvalidArgumentError("the row is empty; a row key has at least one byte")
    if len(row) > ROW_BYTES_MAX:
        raise LimitExceededError(
            f"the row key has {len(row)} bytes, more than row_bytes_max = {ROW_BYTES_MAX}; it starts with "
            f"{row_text(row)}",
            limit="row_bytes_max",
            limit_value=ROW_BYTES_MAX,
            found=len(row),
            row=row,
        )
    return row


def encoded_rows(rows: Iterable[Name]) -> list[bytes]:
    """Returns rows as bytes. Raises as encoded_row does, and TypeError for a single row in place of a list."""
    return [encoded_row(row) for row in listed("rows", "rows", rows)]


def listed(name: str, what: str, argument: Iterable[T], one: type | UnionType = bytes | str) -> Iterable[T]:
    """Returns the argument `name`. Raises TypeError unless it is iterable, or for a single `one` in place of a list."""
    if isinstance(argument, one):
        raise TypeError(f"{name} must be a list of {what}, not one: [{argument!r:.200}]")
    if not isinstance(argument, Iterable):
        raise TypeError(f"{name} must be a list of {what}, not {type(argument).__name__}")
    return argument


def is_pair(value: object) -> bool:
    """Returns whether it is a sequence of two elements, but not a str or bytes of length 2."""
    return isinstance(value, Sequence) and not isinstance(value, bytes | str) and len(value) == 2


def encoded_bound(name: str, bound: Name | None) -> bytes:
    """Returns the argument `name`, a bound of a range, as bytes; None and empty mean "no bound"."""
    if bound is None:
        return b""
    return bound if type(bound) is bytes else _encoded(bound, name)


def encoded_value(value: object, what: str = "a value") -> bytes:
    """Returns a value as bytes. Raises TypeError unless it is bytes or str; the message says how to store numbers."""
    if type(value) is bytes:
        return value
    if isinstance(value, str):
        return value.encode("utf-8", _NO_TEXT)
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value)
    if isinstance(value, int):
        raise TypeError(
            f"{what} must be bytes or str, not {type(value).__name__}: {value!r}. For a counter use increment(); to "
            "store numbers in a format of your choice open the table with a rowlock.Mapping, or encode them yourself, "
            "(5).to_bytes(8, 'big', signed=True) for example"
        )
    if value is None:
        raise TypeError(f"{what} must be bytes or str, not None; to remove a column use delete()")
    raise TypeError(
        f"{what} must be bytes or str, not {type(value).__name__}; for typed values open the table with a "
        "rowlock.Mapping"
    )


def parse_column(column: Name) -> tuple[bytes, bytes | None]:
    """Returns (family, qualifier); qualifier is None if only a family is named.

    Raises InvalidArgumentError if the family's name is malformed, TypeError if it is neither bytes nor str.
    """
    # Not by the cache alone: an unhashable argument, like a dict, needs its own error.
    return _parsed(column if isinstance(column, bytes | str) else _encoded(column, "column"))


@lru_cache(maxsize=4096)
def _parsed(column: Name) -> tuple[bytes, bytes | None]:
    name = column if type(column) is bytes else _encoded(column, "column")
    family, colon, qualifier = name.partition(b":")
    check_family(family, name)
    return family, qualifier if colon else None


def parse_cell_column(column: Name) -> tuple[bytes, bytes]:
    """Returns (family, qualifier). Raises as parse_column, and InvalidArgumentError if only a family is named."""
    return parse_cell_key(column if isinstance(column, bytes | str) else _encoded(column, "column"))


@lru_cache(maxsize=4096)
def parse_cell_key(column: Name) -> tuple[bytes, bytes]:
    """Does what parse_cell_column does, for the key of a dict, which is hashable: the hot path of puts."""
    family, qualifier = parse_column(column)
    if qualifier is None:
        raise InvalidArgumentError(
            f"{column!r} names a family, and a column is required: 'family:qualifier', or {column!r} with a ':' for "
            "the empty qualifier"
        )
    return family, qualifier


def encoded_family(name: Name) -> bytes:
    """Returns a family's name as bytes, without a trailing colon. Raises InvalidArgumentError if it is malformed."""
    encoded = _encoded(name, "the name of a family")
    family = encoded.removesuffix(b":")
    check_family(family, encoded, "the name of a family")
    return family


def check_family(family: bytes, argument: bytes, what: str = "a column, 'family:qualifier'") -> None:
    """Raises InvalidArgumentError unless the family's name is valid. argument, what: for the message."""
    if not family:
        reason = "the family is empty"
    elif len(family) > FAMILY_BYTES_MAX:
        reason = f"the family has {len(family)} bytes, more than {FAMILY_BYTES_MAX}"
    elif family.startswith(b"."):
        reason = "the family starts with '.'"
    elif any(byte < 32 or byte == 127 or byte in b":/\\" for byte in family):
        reason = "the family has a control character, ':', '/' or '\\'"
    else:
        return
    raise InvalidArgumentError(f"'{name_text(argument)}' is not {what}: {reason}")


def check_timestamp(timestamp: int | None) -> None:
    """Raises InvalidArgumentError unless it is None or 0 to TIMESTAMP_MAX (ms), TypeError if it is not an int."""
    if timestamp is None:
        return
    if not isinstance(timestamp, int) or isinstance(timestamp, bool):
        raise TypeError(f"timestamp must be an int, milliseconds since the epoch, not {type(timestamp).__name__}")
    if not 0 <= timestamp <= TIMESTAMP_MAX:
        raise InvalidArgumentError(
            f"timestamp must be 0 to {TIMESTAMP_MAX} milliseconds since the epoch, not {timestamp}"
        )


def check_number(name: str, number: int, minimum: int, maximum: int) -> None:
    """Raises InvalidArgumentError unless minimum <= number <= maximum, TypeError if it is not an int."""
    check_int(name, number)
    if not minimum <= number <= maximum:
        raise InvalidArgumentError(f"{name} must be {minimum} to {maximum}, not {number}")


def check_int(name: str, number: int) -> None:
    """Raises TypeError unless it is an int, and no bool."""
    if not isinstance(number, int) or isinstance(number, bool):
        raise TypeError(f"{name} must be an int, not {type(number).__name__}")


def decoder(encoding: str) -> Callable[[bytes], str]:
    """Returns a function that decodes any bytes.

    Raises InvalidArgumentError unless the encoding is UTF-8, TypeError if it is not a str.
    """
    if not isinstance(encoding, str):
        raise TypeError(f"encoding must be 'utf-8' or None, not {type(encoding).__name__}")
    try:
        is_utf_8 = codecs.lookup(encoding).name == "utf-8"
    except LookupError:
        is_utf_8 = False
    if not is_utf_8:
        raise InvalidArgumentError(f"encoding must be 'utf-8' or None, not {encoding!r}")
    return _text


def _text(data: bytes) -> str:
    return data.decode("utf-8", _NO_TEXT)


def _encoded(name: object, what: str) -> bytes:
    if isinstance(name, str):
        return name.encode("utf-8", _NO_TEXT)
    if isinstance(name, bytes | bytearray | memoryview):
        return bytes(name)
    raise TypeError(f"{what} must be bytes or str, not {type(name).__name__}")
