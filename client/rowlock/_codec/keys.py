"""Encodes and decodes composite keys: the parts of a mapping's key to rows, and back. Vectorised."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from rowlock_proto.shown_names import row_text

from rowlock._codec.arrow_buffers import (
    Array,
    Ints,
    as_binary,
    bools_of,
    data_of,
    first_places,
    joined,
    lengths_of,
    offsets_of,
    slices_of,
)
from rowlock._codec.encodings import first_refused
from rowlock._codec.unreadable import first_unreadable
from rowlock.errors import MappingError
from rowlock.mapping import MappedColumn, Mapping

_TERMINATOR = b"\0\0"


def encoded_keys(mapping: Mapping, columns: Sequence[Array]) -> Array:
    """Returns rows from the key's columns, in the mapping's order. Raises MappingError for nulls and empty keys."""
    parts: list[Array] = []
    for part, array in zip(mapping.keys, columns, strict=True):
        if array.null_count:
            index = int(np.flatnonzero(bools_of(array.is_null()))[0])
            raise MappingError(f"the key column {part.name!r} is null in row {index}; every row needs its key")
        parts.append(_encoded_part(mapping, part, array))
    rows = joined(*parts) if len(parts) > 1 else parts[0]
    is_empty = lengths_of(rows) == 0
    if is_empty.any():
        raise MappingError(
            f"the key is empty in row {int(np.flatnonzero(is_empty)[0])}; a row key has at least one byte"
        )
    return rows


def _encoded_part(mapping: Mapping, part: MappedColumn, array: Array) -> Array:
    """Returns one part with its separator or terminator."""
    try:
        encoded = as_binary(part.codec.encode(array))
    except MappingError as error:
        place = first_refused(part.codec.encode, array)
        raise MappingError(f"the key column {part.name!r} can't be written in row {place}: {error}") from error
    if part.encoding != "text" or part is mapping.keys[-1]:
        return encoded
    holds_separator = first_places(encoded, mapping.separator) >= 0
    if holds_separator.any():
        index = int(np.flatnonzero(holds_separator)[0])
        raise MappingError(
            f"the key column {part.name!r} has the separator {mapping.separator.decode()!r} in row {index}: "
            f"{encoded[index].as_py()[:100]!r}; choose another one ('; separator=#' at the end of the mapping), or "
            "make the column 'ordered'"
        )
    return joined(encoded, mapping.separator)


def decoded_keys(mapping: Mapping, rows: Array) -> list[Array]:
    """Returns the key's columns, in the mapping's order. Raises MappingError for a row that is not such a key."""
    if len(mapping.keys) == 1:
        return [_decoded_part(mapping.keys[0], rows, rows)]
    lengths = lengths_of(rows)
    position = np.zeros(len(rows), np.int64)
    columns: list[Array] = []
    for part in mapping.keys:
        if part is mapping.keys[-1]:
            end = next_position = lengths
        else:
            end, next_position = _end_of_part(mapping, part, rows, position, lengths)
        taken = slices_of(rows, position, end - position)
        columns.append(_decoded_part(part, taken, rows))
        position = next_position
    return columns


def _end_of_part(mapping: Mapping, part: MappedColumn, rows: Array, position: Ints, lengths: Ints) -> tuple[Ints, Ints]:
    """Returns where a part that starts at `position` ends, and where the next part starts."""
    if part.encoding != "text" and part.codec.width is not None:
        end = position + part.codec.width
        is_short = end > lengths
        next_position = end
    else:
        mark = mapping.separator if part.encoding == "text" else _TERMINATOR
        at = first_places(slices_of(rows, position, lengths - position), mark)
        is_short = at < 0
        end = position + at
        next_position = end + len(mark)
    if is_short.any():
        row = _value_at(rows, int(np.flatnonzero(is_short)[0]))
        raise MappingError(f"row {row_text(row)} is not a key of {mapping!r}: it ends within {part.name!r}", row=row)
    return end, next_position


def _decoded_part(part: MappedColumn, taken: Array, rows: Array) -> Array:
    try:
        return part.codec.decode(taken)
    except MappingError as refused:
        place, reason = first_unreadable(part, taken, refused)
        row: bytes = rows[place].as_py()
        raise MappingError(
            f"the key column {part.name!r} of row {row_text(row)} can't be read as {part.type_text}: {reason}", row=row
        ) from refused


def _value_at(array: Array, index: int) -> bytes:
    start, stop = offsets_of(array)[index : index + 2]
    return data_of(array)[start:stop].tobytes()
