"""Stored bytes that can't be read as a mapping says: which value, and why."""

from __future__ import annotations

from rowlock.arrow_buffers import Array
from rowlock.encodings import first_refused
from rowlock.errors import MappingError
from rowlock.mapping import MappedColumn


def first_unreadable(column: MappedColumn, stored: Array, refused: MappingError) -> tuple[int, MappingError]:
    """The place of the first value that the column's codec refuses, and what it says of that value alone.

    refused: what it said of all of them, where Arrow tells of the last one that it can't read.
    """
    place = first_refused(column.codec.decode, stored)
    try:
        column.codec.decode(stored.slice(place, 1))
    except MappingError as error:
        refused = error
    return place, refused
