"""Mappings: the columns of typed rows as a row key and cells, and back, in one small grammar.

    rowlock.Mapping("id STRING :key, delay INT info:delay, price DECIMAL(10,2) info:price text")

    mapping  = column { "," column } [ ";" "separator=" character ]
    column   = name type target [ encoding ] { "was" type }
    name     = word | "`" anything "`"                       a doubled ` stands for one
    type     = BINARY | STRING | BOOLEAN | TINYINT | SMALLINT | INT | BIGINT | FLOAT | DOUBLE
             | DECIMAL [ "(" precision [ "," scale ] ")" ] | DATE | TIMESTAMP
    target   = ":key" | ":timestamp" | family ":" qualifier  in ` ` if it has spaces, commas or semicolons
    encoding = binary | text | millis | ordered              see encodings.py

Types and encodings are case-insensitive, and Spark's other names of the types are accepted. The default encoding is
`text` for keys and `binary` for values; `ordered` is for keys only. Several :key columns make a composite key, in the
order written. In it, a separator ("|" by default) follows each `text` part but the last; no separator follows parts
of other encodings. A null value is an absent cell; a null in a key is an error. The :timestamp column, a TIMESTAMP or
a BIGINT of milliseconds, gives a row's cells their timestamp when they are written. `was` names the types that a
column had before, whose cells it reads too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

import pyarrow as pa
from rowlock_proto.nearest import did_you_mean

from rowlock._codec.column_types import ENCODINGS, codec_of, type_of, type_text
from rowlock._codec.columns import parse_cell_column
from rowlock._codec.encodings import Codec
from rowlock._codec.mapping_grammar import DEFAULT_SEPARATOR, KEY, TIMESTAMP, ColumnText, parsed, quoted
from rowlock._codec.widening import Former, are_distinct, has_same_bytes, may_follow, widened_codec
from rowlock.errors import InvalidArgumentError, MappingError

# The word in place of a mapping that stands for none: where a kept mapping would be used, and to drop one.
NO_MAPPING = "none"


@dataclass(frozen=True, slots=True)
class MappedColumn:
    """One column of a mapping. For a part of the key, is_key is true, and family and qualifier are empty.

    codec: encodes values, and decodes them and those of former types; own_codec: only the type's.
    formers: the narrower types that the column had before, if their bytes differ from the type's.
    """

    name: str
    type: str
    encoding: str
    is_key: bool
    family: bytes
    qualifier: bytes
    codec: Codec
    own_codec: Codec
    formers: tuple[Former, ...] = ()

    @property
    def arrow(self) -> pa.DataType:
        """The Arrow type."""
        return self.codec.arrow

    @property
    def column(self) -> bytes:
        """b"family:qualifier"."""
        return self.family + b":" + self.qualifier

    @property
    def type_text(self) -> str:
        """The type in the mapping's grammar: DECIMAL has its precision and scale."""
        return type_text(self.type, self.codec.arrow)

    @property
    def is_bytes(self) -> bool:
        """Whether it is a STRING or BINARY: its bytes are the value's, whatever the encoding; but see keys.py."""
        return self.type in ("string", "binary")

    @property
    def text(self) -> str:
        """The column in the mapping's grammar."""
        target = KEY if self.is_key else quoted(self.column.decode(errors="surrogateescape"))
        words = [quoted(self.name), self.type_text, target]
        if self.encoding != _default_encoding(is_key=self.is_key):
            words.append(self.encoding)
        words += [f"was {type_text(former.type, former.codec.arrow)}" for former in self.formers]
        return " ".join(words)


@dataclass(frozen=True, slots=True)
class TimestampColumn:
    """The column that gives a row's cells their timestamp: a TIMESTAMP, or a BIGINT of milliseconds."""

    name: str
    type: str
    arrow: pa.DataType

    @property
    def type_text(self) -> str:
        """The type in the mapping's grammar."""
        return self.type.upper()

    @property
    def text(self) -> str:
        """The column in the mapping's grammar."""
        return f"{quoted(self.name)} {self.type.upper()} {TIMESTAMP}"


class Mapping:
    """A parsed mapping; immutable, hashable and picklable. See docs/mapping.md for the grammar.

        rowlock.Mapping("id STRING :key, delay INT info:delay, price DECIMAL(10,2) info:price text")

    text: the mapping's text. columns: those that are read, the parts of the key and the values, in order.
    keys: the parts of the key. values: the other columns.
    timestamp: the column that gives the cells of a written row their timestamp; None if there is none.
    separator: follows a `text` part of a composite key; one character, in UTF-8.

    Raises MappingError, which names the position, if the text breaks the grammar; TypeError if it is not a str.
    """

    __slots__ = ("columns", "keys", "separator", "text", "timestamp", "values")

    def __init__(self, text: str) -> None:
        self.text = text
        found, self.separator = parsed(text)
        last_key = max((place for place, column in enumerate(found) if column.is_key), default=-1)
        self.columns = tuple(
            _mapped(column, is_last_key=place == last_key)
            for place, column in enumerate(found)
            if not column.is_timestamp
        )
        self.keys = tuple(column for column in self.columns if column.is_key)
        self.values = tuple(column for column in self.columns if not column.is_key)
        times = [_timestamp_column(column) for column in found if column.is_timestamp]
        self.timestamp = times[0] if times else None
        self._check_columns(found, len(times))

    @property
    def schema(self) -> pa.Schema:
        """The Arrow schema of mapped rows that are read; parts of the key are not nullable, values are."""
        return pa.schema([pa.field(item.name, item.codec.arrow, not item.is_key) for item in self.columns])

    @property
    def cell_columns(self) -> list[bytes]:
        """The table's columns of the values, b"family:qualifier", in the mapping's order; for scan(columns=...)."""
        return [column.column for column in self.values]

    def select(self, names: Iterable[str]) -> Mapping:
        """Returns the mapping with the key and only these value columns, in this order. Raises MappingError."""
        by_name = {column.name: column for column in self.values}
        chosen = []
        for name in names:
            if name not in by_name:
                raise MappingError(self.unknown_column(name))
            chosen.append(by_name[name])
        return mapping_of((*self.keys, *chosen), self.timestamp, self.separator)

    def select_among(self, names: Collection[str]) -> Mapping:
        """Returns the mapping with the key and those of its value columns that are among the names."""
        chosen = [column.name for column in self.values if column.name in names]
        return self if len(chosen) == len(self.values) else self.select(chosen)

    def is_key_part(self, name: object) -> bool:
        """Returns whether it is the name of a part of the key; for use inside rowlock."""
        return any(column.name == name for column in self.keys)

    def unknown_column(self, name: object) -> str:
        """Returns the message for a name that is not a value column."""
        if self.is_key_part(name):
            return f"{name!r} is part of the key, and not a column of cells"
        names = [column.name for column in self.values]
        known = ", ".join(names) or "none besides the key"
        return f"the mapping has no column {name!r:.100}{did_you_mean(str(name), names)}; its columns are {known}"

    def _check_columns(self, found: Sequence[ColumnText], timestamp_count: int) -> None:
        if not self.keys:
            raise MappingError(f"the mapping {self.text!r} has no key: one column at least has the target :key")
        if timestamp_count > 1:
            raise MappingError(f"the mapping {self.text!r} has the target :timestamp more than once")
        for what, names in (
            ("name", [column.name for column in found]),
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
        time = None if self.timestamp is None else self.timestamp.text
        return self.separator, tuple(column.text for column in self.columns), time

    def __repr__(self) -> str:
        return f"Mapping({self.text!r})"

    def __reduce__(self) -> tuple[type[Mapping], tuple[str]]:
        return Mapping, (self.text,)


def is_none(mapping: Mapping | str) -> bool:
    """Returns whether it is the word that stands for no mapping."""
    return isinstance(mapping, str) and mapping.strip().lower() == NO_MAPPING


def as_mapping(mapping: Mapping | str) -> Mapping:
    """Returns a mapping, parsed if it is text. Raises MappingError for malformed text, TypeError for other types."""
    return mapping if isinstance(mapping, Mapping) else Mapping(mapping)


def parsed_kept(text: str, table: str) -> Mapping:
    """Returns the kept mapping. Raises MappingError if a later version of rowlock wrote it."""
    try:
        return Mapping(text)
    except MappingError as error:
        raise MappingError(
            f"the mapping that table {table!r} keeps can't be parsed by this version of rowlock: {error}", table=table
        ) from error


def mapping_of(columns: Iterable[MappedColumn], timestamp: TimestampColumn | None, separator: bytes) -> Mapping:
    """Returns a mapping with these columns."""
    texts = [column.text for column in columns]
    if timestamp is not None:
        texts.append(timestamp.text)
    end = "" if separator == DEFAULT_SEPARATOR.encode() else f"; separator={separator.decode()}"
    return Mapping(", ".join(texts) + end)


def _default_encoding(*, is_key: bool) -> str:
    return "text" if is_key else "binary"


def _mapped(text: ColumnText, is_last_key: bool) -> MappedColumn:
    name = text.name
    encoding = text.encoding or _default_encoding(is_key=text.is_key)
    if encoding not in ENCODINGS:
        raise MappingError(f"column {name!r} has the encoding {encoding!r}; the encodings are {', '.join(ENCODINGS)}")
    if encoding == "ordered" and not text.is_key:
        raise MappingError(f"column {name!r} is not part of the key, and only keys are 'ordered'")
    word, arrow = type_of(name, text.type)
    codec = codec_of(arrow, encoding, is_last_key)
    if codec is None:
        raise MappingError(f"column {name!r} of type {word.upper()} can't have the encoding {encoding!r}")
    if text.is_key and not is_last_key and codec.width is None and encoding in ("binary", "millis"):
        raise MappingError(
            f"column {name!r} is not the last part of the key, and {word.upper()} as {encoding!r} has no end of its "
            "own; make it 'text' or 'ordered'"
        )
    family, qualifier = (b"", b"") if text.is_key else _target(name, text.target)
    formers = _formers(text, codec, encoding)
    wide = widened_codec(codec, formers, encoding)
    return MappedColumn(name, word, encoding, text.is_key, family, qualifier, wide, codec, formers)


def _formers(text: ColumnText, codec: Codec, encoding: str) -> tuple[Former, ...]:
    formers: list[Former] = []
    for former in text.formers:
        word, arrow = type_of(text.name, former)
        own = codec_of(arrow, encoding, is_last_key=True)
        if own is None or not may_follow(arrow, codec.arrow, encoding, is_key=text.is_key):
            raise MappingError(
                f"column {text.name!r} was {type_text(word, arrow)}, which {text.type.word.upper()} as {encoding!r} "
                "can't follow; docs/mapping.md lists the types that can be widened"
            )
        if not has_same_bytes(arrow, codec.arrow, encoding):
            formers.append(Former(word, own))
    if not are_distinct(codec, formers, encoding):
        raise MappingError(f"column {text.name!r} was of types whose bytes can't be distinguished")
    return tuple(formers)


def _target(name: str, target: str) -> tuple[bytes, bytes]:
    try:
        return parse_cell_column(target)
    except InvalidArgumentError as error:
        raise MappingError(
            f"column {name!r} has a malformed target, which is :key, :timestamp or family:qualifier: {error}"
        ) from error


def _timestamp_column(text: ColumnText) -> TimestampColumn:
    word, arrow = type_of(text.name, text.type)
    if word not in ("timestamp", "bigint"):
        raise MappingError(
            f"column {text.name!r} has the target :timestamp and the type {word.upper()}; it must be a TIMESTAMP, or a "
            "BIGINT of milliseconds"
        )
    if text.encoding is not None or text.formers:
        raise MappingError(f"column {text.name!r} has the target :timestamp; it has no bytes, and so no encoding")
    return TimestampColumn(text.name, word, arrow)
