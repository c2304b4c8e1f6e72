"""Encodes and decodes the key of one row, and the bounds of a range of keys: the twin of keys.py.

A key is the value of its only part, or a tuple of its parts in the mapping's order. Bounds and prefixes may have fewer
parts, from the first one on.
"""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

from rowlock_proto.shown_names import row_text

from rowlock._codec.scalars import ScalarCodec, scalar_codec
from rowlock.errors import MappingError
from rowlock.mapping import MappedColumn, Mapping

# Any: the types of the mapping's key.
Key = Any

_END = b"\0\0"
_ZERO, _ESCAPED_ZERO = b"\0", b"\0\xff"


class KeyCodec:
    """Encodes keys of one mapping. Raises MappingError for a key that is not one, TypeError for a wrong type."""

    def __init__(self, mapping: Mapping) -> None:
        self._mapping = mapping
        self._parts = mapping.keys
        self._codecs = [scalar_codec(part) for part in mapping.keys]

    def encode(self, key: Key) -> bytes:
        """Returns the row of a key."""
        values = self._values(key)
        if len(values) != len(self._parts):
            raise self._wrong_count(values)
        row = b"".join(map(self._encoded, self._parts, self._codecs, values))
        if not row:
            raise MappingError("the key is empty; a row key has at least one byte")
        return row

    def decode(self, row: bytes) -> Key:
        """Returns the key of a row."""
        if len(self._parts) == 1:
            return self._decoded(self._parts[0], self._codecs[0], row, row)
        values: list[object] = []
        position = 0
        for part, codec in zip(self._parts, self._codecs, strict=True):
            stop, following = self._end(part, row, position)
            values.append(self._decoded(part, codec, row[position:stop], row))
            position = following
        return tuple(values)

    def shown(self, row: bytes) -> str:
        """Returns a row for a message: as text if its bytes are, else as its key, as in (2013-06-01, 'DL', 1)."""
        last = self._parts[-1]
        if all(part.encoding == "text" or (part.is_bytes and part is last) for part in self._parts):
            return row_text(row)
        try:
            key = self.decode(row)
        except MappingError:
            return row_text(row)
        return f"({', '.join(map(_shown, key))})" if isinstance(key, tuple) else _shown(key)

    def bound(self, bound: Key | None) -> bytes | None:
        """Returns the first row of a key's first parts; None for None."""
        if bound is None:
            return None
        values = self._values(bound)
        if not 1 <= len(values) <= len(self._parts):
            raise self._wrong_count(values)
        return b"".join(map(self._encoded, self._parts, self._codecs, values))

    def prefix(self, prefix: Key | None) -> bytes | None:
        """Returns what all rows with these first parts begin with; None for None.

        A last part that is a STRING or BINARY and the key's last need not be complete.
        """
        if prefix is None:
            return None
        values = self._values(prefix)
        if len(values) == len(self._parts) and not self._parts[-1].is_bytes:
            last = self._parts[-1]
            raise MappingError(
                f"the prefix has all parts of the key, and the last one, {last.name!r}, is {last.type_text}; leave it "
                "out, or read the row"
            )
        return self.bound(prefix)

    def _values(self, key: Key) -> Sequence[object]:
        if isinstance(key, list) and len(self._parts) > 1:
            raise TypeError(f"a key of several parts is a tuple, as ('UA', 1545), and not a list: {key!r:.100}")
        return key if isinstance(key, tuple) else (key,)

    def _wrong_count(self, values: Sequence[object]) -> MappingError:
        names = ", ".join(part.name for part in self._parts)
        count = len(self._parts)
        what = f"one part, {names}" if count == 1 else f"{count} parts, ({names})"
        return MappingError(f"the key has {what}, and {len(values)} {'is' if len(values) == 1 else 'are'} given")

    def _encoded(self, part: MappedColumn, codec: ScalarCodec, value: object) -> bytes:
        if value is None:
            raise MappingError(f"the key column {part.name!r} is None; every row needs its key")
        try:
            stored = codec.encode(value)
        except TypeError as error:
            raise TypeError(f"the key column {part.name!r} is {part.type_text} and {error}") from None
        except MappingError as error:
            raise MappingError(f"the key column {part.name!r} can't be {value!r:.100}: {error}") from error
        is_last = part is self._parts[-1]
        if is_last:
            return stored
        if part.encoding == "ordered" and part.is_bytes:
            return stored.replace(_ZERO, _ESCAPED_ZERO) + _END
        if part.encoding != "text":
            return stored
        separator = self._mapping.separator
        if separator in stored:
            raise MappingError(
                f"the key column {part.name!r} has the separator {separator.decode()!r}: {value!r:.100}; choose "
                "another one ('; separator=#' at the end of the mapping), or make the column 'ordered'"
            )
        return stored + separator

    def _end(self, part: MappedColumn, row: bytes, position: int) -> tuple[int, int]:
        """Returns where the part that begins at the position ends, and where the next one begins."""
        if part is self._parts[-1]:
            return len(row), len(row)
        width = part.codec.width
        if part.encoding != "text" and width is not None:
            stop = following = position + width
            is_found = stop <= len(row)
        else:
            mark = self._mapping.separator if part.encoding == "text" else _END
            stop = row.find(mark, position)
            following = stop + len(mark)
            is_found = stop >= 0
        if not is_found:
            raise MappingError(
                f"row {row_text(row)} is not a key of {self._mapping!r}: it ends within {part.name!r}", row=row
            )
        return stop, following

    def _decoded(self, part: MappedColumn, codec: ScalarCodec, stored: bytes, row: bytes) -> object:
        if part.encoding == "ordered" and part.is_bytes and part is not self._parts[-1]:
            stored = stored.replace(_ESCAPED_ZERO, _ZERO)
        try:
            return codec.decode(stored)
        except MappingError as error:
            raise MappingError(
                f"the key column {part.name!r} of row {row_text(row)} can't be read as {part.type_text}: {error}",
                row=row,
            ) from error


def _shown(value: object) -> str:
    if isinstance(value, datetime.datetime):
        return value.replace(tzinfo=None).isoformat()
    return str(value) if isinstance(value, datetime.date | Decimal) else f"{value!r:.100}"
