"""Error messages for stored bytes that a mapping can't decode: the value, the reason and the remedy."""

from __future__ import annotations

from rowlock._codec.arrow_buffers import Array
from rowlock._codec.encodings import first_refused, text_codec
from rowlock.errors import MappingError
from rowlock.mapping import MappedColumn


def first_unreadable(column: MappedColumn, stored: Array, refused: MappingError) -> tuple[int, str]:
    """Returns the index of the first value that the column's codec refuses, and the message for that value alone.

    refused: the error of the whole array, in which Arrow names the last bad value.
    """
    place = first_refused(column.codec.decode, stored)
    value = stored.slice(place, 1)
    try:
        column.codec.decode(value)
    except MappingError as error:
        refused = error
    return place, f"{refused}{_advice(column, value)}"


def _advice(column: MappedColumn, value: Array) -> str:
    """Returns advice to use 'text', if the value is text of the column's type; else an empty string."""
    try:
        text_codec(column.codec.arrow).decode(value)
    except MappingError:
        return ""
    target = ":key" if column.is_key else column.column.decode(errors="backslashreplace")
    instead = "" if column.encoding == "binary" else f" instead of {column.encoding!r}"
    return f"; it is {column.type_text} as text: write 'text' after {target} in the mapping{instead}"
