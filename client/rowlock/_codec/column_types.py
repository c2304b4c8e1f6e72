"""The types of a mapping's columns, and the codec of each type and encoding."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from rowlock._codec import encodings
from rowlock._codec.decimals import decimal_codec, ordered_decimal_codec
from rowlock._codec.encodings import Codec
from rowlock._codec.mapping_grammar import TypeText
from rowlock.errors import MappingError

ENCODINGS = ("binary", "text", "millis", "ordered")
_ALIASES = {
    "byte": "tinyint",
    "short": "smallint",
    "integer": "int",
    "long": "bigint",
    "real": "float",
    "dec": "decimal",
    "numeric": "decimal",
    "bytes": "binary",
    "bool": "boolean",
    "timestamp_ltz": "timestamp",
}
_ARROW: dict[str, pa.DataType] = {
    "binary": pa.binary(),
    "string": pa.string(),
    "boolean": pa.bool_(),
    "tinyint": pa.int8(),
    "smallint": pa.int16(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "date": pa.date32(),
    "timestamp": encodings.TIMESTAMP,
}
# Spark's.
_PRECISION_DEFAULT, _PRECISION_MAX = 10, 38


def type_of(name: str, text: TypeText) -> tuple[str, pa.DataType]:
    """Returns the name of a type, without aliases, and its Arrow type. Raises MappingError that names the column."""
    word = _ALIASES.get(text.word, text.word)
    if word == "decimal":
        digits = _PRECISION_DEFAULT if text.precision is None else text.precision
        after = text.scale or 0
        if not 1 <= digits <= _PRECISION_MAX or after > digits:
            raise MappingError(
                f"column {name!r}: a DECIMAL has 1 to {_PRECISION_MAX} digits, including those of the scale"
            )
        return word, pa.decimal128(digits, after)
    if text.precision is not None or word not in _ARROW:
        known = ", ".join(sorted([*_ARROW, "decimal"])).upper()
        raise MappingError(
            f"column {name!r} has the unknown type {word.upper()}{'(...)' if text.precision is not None else ''}; the "
            f"types are {known}, and only DECIMAL has parentheses"
        )
    return word, _ARROW[word]


def type_text(word: str, arrow: pa.DataType) -> str:
    """Returns a type in the mapping's grammar: DECIMAL has its precision and scale."""
    return f"DECIMAL({arrow.precision},{arrow.scale})" if isinstance(arrow, pa.Decimal128Type) else word.upper()


def codec_of(arrow: pa.DataType, encoding: str, is_last_key: bool) -> Codec | None:
    """Returns the codec of a type and encoding; None if the type has no such encoding."""
    is_bytes = arrow in (pa.string(), pa.binary())
    if encoding == "text":
        return encodings.bytes_codec(arrow) if is_bytes else encodings.text_codec(arrow)
    if is_bytes and encoding != "millis":
        is_inside_key = encoding == "ordered" and not is_last_key
        return encodings.terminated_codec(arrow) if is_inside_key else encodings.bytes_codec(arrow)
    if isinstance(arrow, pa.Decimal128Type) and encoding != "millis":
        return ordered_decimal_codec(arrow) if encoding == "ordered" else decimal_codec(arrow)
    return {
        ("binary", pa.bool_()): encodings.boolean_codec(0xFF),
        ("ordered", pa.bool_()): encodings.boolean_codec(1),
        ("millis", pa.date32()): encodings.millis_codec(arrow),
        ("millis", encodings.TIMESTAMP): encodings.millis_codec(arrow),
        ("ordered", pa.float32()): encodings.ordered_float_codec(arrow, 4),
        ("ordered", pa.float64()): encodings.ordered_float_codec(arrow, 8),
        ("binary", pa.float32()): encodings.fixed_codec(arrow, np.float32, ">f4"),
        ("binary", pa.float64()): encodings.fixed_codec(arrow, np.float64, ">f8"),
    }.get((encoding, arrow)) or _integer_codec(arrow, encoding)


def _integer_codec(arrow: pa.DataType, encoding: str) -> Codec | None:
    """Returns the codec of integers, dates and timestamps: all are signed integers in Arrow's memory."""
    widths = {pa.int8(): 1, pa.int16(): 2, pa.int32(): 4, pa.int64(): 8, pa.date32(): 4, encodings.TIMESTAMP: 8}
    width = widths.get(arrow)
    if width is None:
        return None
    if encoding == "ordered":
        return encodings.ordered_integer_codec(arrow, width)
    if encoding == "binary":
        return encodings.fixed_codec(arrow, np.dtype(f"i{width}"), f">i{width}")
    return None
