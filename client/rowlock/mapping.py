"""Mappings: the columns of typed rows as a row key and cells, and back, in one small grammar.

    rowlock.Mapping("id STRING :key, delay INT info:delay, price DECIMAL(10,2) info:price text")

    mapping  = column { "," column } [ ";" "separator=" character ]
    column   = name type target [ encoding ]
    name     = word | "`" anything "`"                       a doubled ` stands for one
    type     = BINARY | STRING | BOOLEAN | TINYINT | SMALLINT | INT | BIGINT | FLOAT | DOUBLE
             | DECIMAL [ "(" precision [ "," scale ] ")" ] | DATE | TIMESTAMP
    target   = ":key" | family ":" qualifier                 in ` ` if it has spaces, commas or semicolons
    encoding = binary | text | millis | ordered              see encodings.py

Types and encodings are case-insensitive, and Spark's other names of the types are accepted. The default encoding is
`text` for keys and `binary` for values; `ordered` is for keys only. Several :key columns make a composite key, in the
order written. In it, a separator ("|" by default) follows each `text` part but the last; no separator follows parts
of other encodings. A null value is an absent cell; a null in a key is an error.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from rowlock._codec import encodings
from rowlock._codec.columns import parse_cell_column
from rowlock._codec.decimals import decimal_codec, ordered_decimal_codec
from rowlock._codec.encodings import Codec
from rowlock.errors import InvalidArgumentError, MappingError

DEFAULT_SEPARATOR = "|"

_COLUMN = re.compile(
    r"""\s*(?:`(?P<quoted>(?:[^`]|``)+)`|(?P<name>[^\s`,;:()]+))
        \s+(?P<type>[A-Za-z]\w*)\s*(?:\(\s*(?P<precision>\d+)\s*(?:,\s*(?P<scale>\d+)\s*)?\))?
        \s+(?:`(?P<quoted_target>(?:[^`]|``)+)`|(?P<target>[^\s`,;]+))
        (?:\s+(?P<encoding>[A-Za-z]+))?\s*""",
    re.VERBOSE,
)
_SEPARATOR = re.compile(r"\s*;\s*separator\s*=(?P<separator>.)\s*", re.IGNORECASE | re.DOTALL)
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
_ENCODINGS = ("binary", "text", "millis", "ordered")
# Spark's.
_PRECISION_DEFAULT, _PRECISION_MAX = 10, 38


@dataclass(frozen=True, slots=True)
class MappedColumn:
    """One column of a mapping. For a part of the key, is_key is true, and family and qualifier are empty."""

    name: str
    type: str
    encoding: str
    is_key: bool
    family: bytes
    qualifier: bytes
    codec: Codec

    @property
    def column(self) -> bytes:
        """b"family:qualifier"."""
        return self.family + b":" + self.qualifier

    @property
    def type_text(self) -> str:
        """The type in the mapping's grammar: DECIMAL has its precision and scale."""
        arrow = self.codec.arrow
        digits = f"({arrow.precision},{arrow.scale})" if isinstance(arrow, pa.Decimal128Type) else ""
        return self.type.upper() + digits


class Mapping:
    """A parsed mapping; immutable, hashable and picklable. See docs/mapping.md for the grammar.

        rowlock.Mapping("id STRING :key, delay INT info:delay, price DECIMAL(10,2) info:price text")

    text: the mapping's text. columns: all columns, in order. keys: the parts of the key. values: the other columns.
    separator: follows a `text` part of a composite key; one character, in UTF-8.

    Raises MappingError, which names the position, if the text does not follow the grammar; TypeError if it is no str.
    """

    __slots__ = ("columns", "keys", "separator", "text", "values")

    def __init__(self, text: str) -> None:
        self.text = text
        found, separator = _split(text)
        self.separator = separator
        key_count = sum(match["target"] == ":key" for match in found)
        keys_seen = 0
        columns: list[MappedColumn] = []
        for match in found:
            keys_seen += match["target"] == ":key"
            columns.append(_mapped(match, is_last_key=keys_seen == key_count))
        self.columns = tuple(columns)
        self.keys = tuple(column for column in columns if column.is_key)
        self.values = tuple(column for column in columns if not column.is_key)
        self._check_columns()

    @property
    def schema(self) -> pa.Schema:
        """The Arrow schema of mapped rows; parts of the key are not nullable, values are."""
        return pa.schema([pa.field(item.name, item.codec.arrow, not item.is_key) for item in self.columns])

    @property
    def cell_columns(self) -> list[bytes]:
        """The table's columns of the values, b"family:qualifier", in the mapping's order; for scan(columns=...)."""
        return [column.column for column in self.values]

    def _check_columns(self) -> None:
        if not self.keys:
            raise MappingError(f"the mapping {self.text!r} has no key: one column at least has the target :key")
        for what, names in (
            ("name", [column.name for column in self.columns]),
            ("target", [column.column.decode(errors="backslashreplace") for column in self.values]),
        ):
            doubled = [name for name, count in Counter(names).items() if count > 1]
            if doubled:
                raise MappingError(f"the mapping {self.text!r} has the {what} {min(doubled)!r} more than once")

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Mapping):
            return NotImplemented
        return self._identity() == other._identity()

    def __hash__(self) -> int:
        return hash(self._identity())

    def _identity(self) -> tuple[object, ...]:
        return self.separator, tuple((c.name, c.type, c.encoding, c.is_key, c.column) for c in self.columns)

    def __repr__(self) -> str:
        return f"Mapping({self.text!r})"

    def __reduce__(self) -> tuple[type[Mapping], tuple[str]]:
        return Mapping, (self.text,)


def as_mapping(mapping: Mapping | str) -> Mapping:
    """Returns a mapping, parsed if it is text. Raises MappingError for malformed text, TypeError for other types."""
    return mapping if isinstance(mapping, Mapping) else Mapping(mapping)


def _split(text: str) -> tuple[list[re.Match[str]], bytes]:
    """Returns the matched columns and the separator. Raises MappingError with the position of the first bad column."""
    if not isinstance(text, str):
        raise TypeError(f"a mapping must be a rowlock.Mapping or its text, not {type(text).__name__}")
    found: list[re.Match[str]] = []
    position = 0
    while True:
        match = _COLUMN.match(text, position)
        if match is None:
            raise _malformed(text, position)
        found.append(match)
        position = match.end()
        if text[position : position + 1] != ",":
            break
        position += 1
    separator = _SEPARATOR.match(text, position)
    if separator is not None:
        position = separator.end()
        if position != len(text):
            given = text[separator.start("separator") :].strip()
            raise MappingError(
                f"the mapping {text!r} has the separator {given!r}; it must be one character, and end the mapping"
            )
    if position != len(text):
        raise _malformed(text, position)
    return found, (separator["separator"] if separator else DEFAULT_SEPARATOR).encode()


def _malformed(text: str, position: int) -> MappingError:
    return MappingError(
        f"the mapping can't be parsed at {text[position : position + 40].strip()!r} (character {position} of "
        f"{text!r}); a column is 'name TYPE target', as in 'id STRING :key, delay INT info:delay'"
    )


def _mapped(match: re.Match[str], is_last_key: bool) -> MappedColumn:
    name = (match["quoted"] or match["name"]).replace("``", "`")
    word = match["type"].lower()
    word = _ALIASES.get(word, word)
    is_key = match["target"] == ":key"
    encoding = (match["encoding"] or ("text" if is_key else "binary")).lower()
    if encoding not in _ENCODINGS:
        raise MappingError(f"column {name!r} has the encoding {encoding!r}; the encodings are {', '.join(_ENCODINGS)}")
    if encoding == "ordered" and not is_key:
        raise MappingError(f"column {name!r} is not part of the key, and only keys are 'ordered'")
    arrow = _arrow_type(name, word, match["precision"], match["scale"])
    codec = _codec(arrow, encoding, is_last_key)
    if codec is None:
        raise MappingError(f"column {name!r} of type {word.upper()} can't have the encoding {encoding!r}")
    if is_key and not is_last_key and codec.width is None and encoding in ("binary", "millis"):
        raise MappingError(
            f"column {name!r} is not the last part of the key, and {word.upper()} as {encoding!r} has no end of its "
            "own; make it 'text' or 'ordered'"
        )
    family, qualifier = (b"", b"") if is_key else _target(name, match)
    return MappedColumn(name, word, encoding, is_key, family, qualifier, codec)


def _target(name: str, match: re.Match[str]) -> tuple[bytes, bytes]:
    target = match["target"] or match["quoted_target"].replace("``", "`")
    try:
        return parse_cell_column(target)
    except InvalidArgumentError as error:
        raise MappingError(
            f"column {name!r} has a malformed target, which is :key or family:qualifier: {error}"
        ) from error


def _arrow_type(name: str, word: str, precision: str | None, scale: str | None) -> pa.DataType:
    if word == "decimal":
        digits = int(precision) if precision else _PRECISION_DEFAULT
        after = int(scale) if scale else 0
        if not 1 <= digits <= _PRECISION_MAX or after > digits:
            raise MappingError(
                f"column {name!r}: a DECIMAL has 1 to {_PRECISION_MAX} digits, including those of the scale"
            )
        return pa.decimal128(digits, after)
    if precision is not None or word not in _ARROW:
        known = ", ".join(sorted([*_ARROW, "decimal"])).upper()
        raise MappingError(
            f"column {name!r} has the unknown type {word.upper()}{'(...)' if precision else ''}; the types are "
            f"{known}, and only DECIMAL has parentheses"
        )
    return _ARROW[word]


def _codec(arrow: pa.DataType, encoding: str, is_last_key: bool) -> Codec | None:
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
