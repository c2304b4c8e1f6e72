"""Stored bytes that can't be read as a mapping says: which value, why, and what helps."""

from __future__ import annotations

from rowlock._codec.arrow_buffers import Array
from rowlock._codec.encodings import first_refused, text_codec
from rowlock.errors import MappingError
from rowlock.mapping import MappedColumn


def first_unreadable(column: MappedColumn, stored: Array, refused: MappingError) -> tuple[int, str]:
    """The place of the first value that the column's codec refuses, and what it says of that value alone.

    refused: what it said of all of them, where Arrow tells of the last one that it can't read.
    """
    place = first_refused(column.codec.decode, stored)
    value = stored.slice(place, 1)
    try:
        column.codec.decode(value)
    except MappingError as error:
        refused = error
    return place, f"{refused}{_advice(column, value)}"


def _advice(column: MappedColumn, value: Array) -> str:
    """What reads the value, if it is text of the column's type; empty if it is not."""
    try:
        text_codec(column.codec.arrow).decode(value)
    except MappingError:
        return ""
    target = ":key" if column.is_key else column.column.decode(errors="backslashreplace")
    instead = "" if column.encoding == "binary" else f" instead of {column.encoding!r}"
    return f"; it is {column.type_text} as text: say 'text' behind {target} in the mapping{instead}"
