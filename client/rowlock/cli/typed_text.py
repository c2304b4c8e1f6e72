r"""Typed keys and values as text on the command line, and back.

Text and bytes have the escapes of all keys and values, \xNN. Other types are as the encoding `text` writes them: 15,
0.5, true, 2013-01-31, 2013-01-31T05:00:00. The parts of a composite key are joined by the mapping's separator, whatever
their encodings; a separator inside a part is \xNN.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Iterator, Sequence
from decimal import Decimal
from functools import lru_cache
from typing import Any

import pyarrow as pa
from rowlock_proto.shown_names import escaped

from rowlock._codec.arrow_buffers import Array, one_array
from rowlock._codec.encodings import text_codec
from rowlock._codec.escapes import typed
from rowlock._codec.scalars import ScalarCodec, scalar_codec
from rowlock._core.typed_rows import python_values
from rowlock.cli.arguments import ArgumentError, bytes_of
from rowlock.cli.value_forms import form_of
from rowlock.errors import MappingError
from rowlock.mapping import MappedColumn, Mapping, TimestampColumn


def value_of(column: MappedColumn | TimestampColumn, text: str) -> Any:
    """Returns the value that the text stands for. Raises ArgumentError."""
    data = bytes_of(text)
    if column.type == "binary":
        return data
    try:
        if column.type == "string":
            return data.decode()
        value = _scalars(column).decode(data)
    except (MappingError, UnicodeDecodeError, ValueError, OverflowError):
        raise ArgumentError(
            f"{typed(text)} is not a valid {column.type_text} for {column.name}: write {form_of(column.type)}"
        ) from None
    if isinstance(value, float) and math.isinf(value) and "inf" not in text.lower():
        raise ArgumentError(f"{typed(text)} is too large for a {column.type_text}, the type of {column.name}")
    return value


def text_of(column: MappedColumn, value: object) -> str:
    """Returns a value as text that `value_of` parses; empty for None."""
    if value is None:
        return ""
    if isinstance(value, bytes | str):
        return escaped(value if isinstance(value, bytes) else value.encode())
    return _scalars(column).encode(value).decode()


def texts_of(mapping: Mapping, batch: pa.RecordBatch) -> Iterator[Sequence[str]]:
    """Yields the texts of each row of the mapping's schema: the key as one text, then the values; "" for a null."""
    columns = {column.name: _texts(column, one_array(batch.column(column.name))) for column in mapping.columns}
    parts = [columns[part.name] for part in mapping.keys]
    keys: Sequence[str] = parts[0] if len(parts) == 1 else [_joined(mapping, each) for each in zip(*parts, strict=True)]
    yield from zip(keys, *(columns[column.name] for column in mapping.values), strict=True)


def records_of(mapping: Mapping, batch: pa.RecordBatch) -> Iterator[dict[str, object]]:
    """Yields each row of the mapping's schema as JSON: the parts of the key and the values by their names."""
    names = [column.name for column in (*mapping.keys, *mapping.values)]
    by_name = {column.name: column for column in mapping.columns}
    columns = [
        [json_of(value) for value in python_values(by_name[name], one_array(batch.column(name)))] for name in names
    ]
    for values in zip(*columns, strict=True):
        yield dict(zip(names, values, strict=True))


def json_of(value: object) -> object:
    """Returns a value as JSON can hold it: decimals and times as text, bytes escaped, NaN and infinities as text."""
    if isinstance(value, bytes):
        return escaped(value)
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, Decimal):
        return str(value)
    if isinstance(value, datetime.datetime):
        return value.replace(tzinfo=None).isoformat() + "Z"
    return value.isoformat() if isinstance(value, datetime.date) else value


def parts_of(mapping: Mapping, text: str, *, is_whole: bool) -> tuple[Any, ...]:
    """Returns the parts of a key. is_whole: it must have all of them; else it may have the first ones.

    Raises ArgumentError.
    """
    if len(mapping.keys) == 1:
        return (value_of(mapping.keys[0], text),)
    separator = mapping.separator.decode()
    texts = text.split(separator)
    if not is_whole and len(texts) > 1 and not texts[-1]:
        # The separator at the end of the last part.
        texts.pop()
    names = separator.join(part.name for part in mapping.keys)
    if len(texts) > len(mapping.keys) or (is_whole and len(texts) < len(mapping.keys)):
        raise ArgumentError(
            f"{typed(text)} has {len(texts)} part{'' if len(texts) == 1 else 's'}, and the key is {names}; in a part "
            f"write {typed(separator)} as {_escaped_separator(mapping)}"
        )
    return tuple(value_of(part, text) for part, text in zip(mapping.keys, texts, strict=False))


def key_text(mapping: Mapping, key: Any) -> str:
    """Returns a key as text that `parts_of` parses."""
    values = key if len(mapping.keys) > 1 else (key,)
    return _joined(mapping, [text_of(part, value) for part, value in zip(mapping.keys, values, strict=True)])


def begun_key(mapping: Mapping, text: str) -> tuple[Any, ...] | None:
    """Returns the parts that the beginning of a key has, as a prefix; None if it has none yet. Raises ArgumentError."""
    *whole, begun = text.split(mapping.separator.decode()) if len(mapping.keys) > 1 else [text]
    parts = [value_of(part, text) for part, text in zip(mapping.keys, whole, strict=False)]
    if begun and len(whole) == len(mapping.keys) - 1 and mapping.keys[-1].is_bytes:
        parts.append(value_of(mapping.keys[-1], begun))
    return tuple(parts) or None


@lru_cache(maxsize=1000)
def _scalars(column: MappedColumn | TimestampColumn) -> ScalarCodec:
    """Returns the codec of single values of the column as text."""
    codec = text_codec(column.arrow)
    return scalar_codec(MappedColumn(column.name, column.type, "text", False, b"", b"", codec=codec, own_codec=codec))


def _joined(mapping: Mapping, texts: Sequence[str]) -> str:
    if len(mapping.keys) == 1:
        return texts[0]
    separator = mapping.separator.decode()
    inside = _escaped_separator(mapping)
    return separator.join(text.replace(separator, inside) for text in texts)


def _escaped_separator(mapping: Mapping) -> str:
    return "".join(f"\\x{byte:02x}" for byte in mapping.separator)


def _texts(column: MappedColumn, array: Array) -> Sequence[str]:
    if column.is_bytes:
        values: list[bytes | None] = array.cast(pa.binary()).to_pylist()
        return ["" if value is None else escaped(value) for value in values]
    try:
        text = text_codec(column.arrow).encode(array).cast(pa.string())
    except MappingError as error:
        raise MappingError(f"the column {column.name!r} can't be shown as text: {error}") from error
    return ["" if value is None else value for value in text.to_pylist()]
