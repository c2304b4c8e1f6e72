"""How the command line reads and shows the rows of a table: as bytes, or typed by a mapping.

A command takes its keys, columns and values as text from a layout, and the table to call. Table and TypedTable have the
same methods, so that one command serves both. The layout is typed with --mapping, or if the table keeps a mapping, and
not with --mapping none.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from rowlock_proto.shown_names import escaped

from rowlock.cli import arguments
from rowlock.cli.arguments import ArgumentError
from rowlock.cli.conditions import where, where_typed
from rowlock.cli.session import Call
from rowlock.cli.start import import_large

if TYPE_CHECKING:
    import pyarrow as pa

    from rowlock import Mapping as RowMapping
    from rowlock import Table, TypedScan, TypedTable
    from rowlock._codec.key_scalars import KeyCodec
    from rowlock.filters import Filter
    from rowlock.mapping import MappedColumn, TimestampColumn

_Row = TypeVar("_Row")

# Any: bytes, or what the mapping says.
Key: TypeAlias = Any
Bounds: TypeAlias = tuple[Key | None, Key | None, Key | None]
EncodedBounds: TypeAlias = tuple[bytes | None, bytes | None, bytes | None]

NO_MAPPING = "none"
_TYPED = "rowlock.typed_table"


class BytesLayout:
    """Keys, columns and values are bytes, with escapes."""

    is_typed = False

    def __init__(self, table: Table[bytes]) -> None:
        # Any: a Table or a TypedTable, which have the same methods.
        self.table: Any = table

    def key(self, text: str) -> Key:
        return arguments.bytes_of(text)

    def bounds(self, start: str | None, stop: str | None, prefix: str | None, hint: str = "") -> Bounds:
        return arguments.row_range(start, stop, prefix, hint)

    def encoded_bounds(self, start: str | None, stop: str | None, prefix: str | None) -> EncodedBounds:
        return arguments.row_range(start, stop, prefix)

    def column(self, text: str) -> Any:
        return arguments.column(text)

    def columns(self, texts: Iterable[str] | None) -> list[Any] | None:
        return arguments.columns(texts)

    def cells(self, texts: Iterable[str]) -> dict[Any, Any]:
        return {arguments.column(name): arguments.bytes_of(value) for name, value in arguments.assignments(texts)}

    def value(self, column: Any, text: str) -> Any:
        return arguments.bytes_of(text)

    def where(self, texts: Iterable[str] | None) -> Filter | None:
        return where(texts)

    def shown_key(self, key: Key) -> str:
        return escaped(key)

    def shown_column(self, column: Any) -> str:
        return escaped(column)

    def shown(self, column: Any, value: Any) -> str:
        return escaped(value)

    def as_json(self, column: Any, value: Any) -> object:
        return None if value is None else escaped(value)


class TypedLayout:
    """Keys and values are of the mapping's types, columns its names; see typed_text.py."""

    is_typed = True

    def __init__(self, table: TypedTable[dict[str, Any]]) -> None:
        self.table: Any = table
        self.mapping = table.mapping
        self.columns_by_name = {column.name: column for column in self.mapping.values}

    def key(self, text: str) -> Key:
        parts = self._parts(text, is_whole=True)
        return parts if len(parts) > 1 else parts[0]

    def bounds(self, start: str | None, stop: str | None, prefix: str | None, hint: str = "") -> Bounds:
        if prefix is not None and (start is not None or stop is not None):
            raise ArgumentError("--prefix excludes --start and --stop: give one or the other")
        first, last = self._bound(start), self._bound(stop)
        arguments.check_order(self._codec.bound(first), self._codec.bound(last), start, stop, hint)
        return first, last, self._bound(prefix)

    def encoded_bounds(self, start: str | None, stop: str | None, prefix: str | None) -> EncodedBounds:
        """Returns the bounds as keys of rows, for a scan of cells as bytes."""
        first, last, begins = self.bounds(start, stop, prefix)
        return self._codec.bound(first), self._codec.bound(last), self._codec.prefix(begins)

    @functools.cached_property
    def _codec(self) -> KeyCodec:
        from rowlock._codec.key_scalars import KeyCodec

        return KeyCodec(self.mapping)

    def column(self, text: str) -> Any:
        if text not in self.columns_by_name:
            raise ArgumentError(f"{self.mapping.unknown_column(text)}; --mapping none uses FAMILY:QUALIFIER")
        return text

    def columns(self, texts: Iterable[str] | None) -> list[Any] | None:
        return [self.column(text) for text in texts or ()] or None

    def cells(self, texts: Iterable[str]) -> dict[Any, Any]:
        from rowlock.cli.typed_text import value_of

        time = self.mapping.timestamp
        return {
            name: value_of(time, value)
            if time is not None and name == time.name
            else self.value(self.column(name), value)
            for name, value in arguments.assignments(texts)
        }

    def value(self, column: Any, text: str) -> Any:
        from rowlock.cli.typed_text import value_of

        return value_of(self.columns_by_name[column], text)

    def where(self, texts: Iterable[str] | None) -> Filter | None:
        return where_typed(texts, self.table, self.value)

    def shown_key(self, key: Key) -> str:
        from rowlock.cli.typed_text import key_text

        return key_text(self.mapping, key)

    def shown_column(self, column: Any) -> str:
        return str(column)

    def shown(self, column: Any, value: Any) -> str:
        from rowlock.cli.typed_text import text_of

        return text_of(self.columns_by_name[column], value)

    def as_json(self, column: Any, value: Any) -> object:
        from rowlock.cli.typed_text import json_of

        return json_of(value)

    def from_json(self, column: MappedColumn | TimestampColumn, value: object) -> Any:
        """Returns a value of JSON as the column's type, the inverse of as_json. Raises ArgumentError."""
        from rowlock.cli.typed_text import value_of

        return value_of(column, value) if isinstance(value, str) and column.type != "string" else value

    # Rows

    def record(self, key: Key, row: Mapping[str, Any]) -> dict[str, object]:
        """Returns a row as JSON: the parts of the key and the values by their names."""
        from rowlock.cli.typed_text import json_of

        values = key if len(self.mapping.keys) > 1 else (key,)
        parts = {part.name: json_of(value) for part, value in zip(self.mapping.keys, values, strict=True)}
        return {**parts, **{name: json_of(value) for name, value in row.items()}}

    def heading(self, columns: Sequence[str] | None) -> list[str]:
        """Returns the names of the fields of a row: of its key as a whole, then of its columns."""
        separator = self.mapping.separator.decode()
        key = separator.join(part.name for part in self.mapping.keys)
        return [key, *(columns or [column.name for column in self.mapping.values])]

    def fields(self, key: Key, row: Mapping[str, Any]) -> list[str]:
        """Returns the texts of a row, under `heading`; empty for absent cells."""
        return [self.shown_key(key), *(self.shown(name, value) for name, value in row.items())]

    def scanned_records(self, found: TypedScan[Any], names: Sequence[str] | None) -> Iterator[dict[str, object]]:
        """Yields the rows of a scan of these columns as JSON, as `record` does. None: all columns."""
        from rowlock.cli.typed_text import records_of

        return self._scanned(found, names, records_of)

    def scanned_fields(self, found: TypedScan[Any], names: Sequence[str] | None) -> Iterator[Sequence[str]]:
        """Yields the texts of the rows of a scan of these columns, as `fields` does. None: all columns."""
        from rowlock.cli.typed_text import texts_of

        return self._scanned(found, names, texts_of)

    def _scanned(
        self,
        found: TypedScan[Any],
        names: Sequence[str] | None,
        rows_of: Callable[[RowMapping, pa.RecordBatch], Iterator[_Row]],
    ) -> Iterator[_Row]:
        """Converts whole columns at a time."""
        mapping = self.mapping if names is None else self.mapping.select(names)
        for batch in found.to_batches():
            yield from rows_of(mapping, batch)

    def _bound(self, text: str | None) -> Key | None:
        return None if text is None else self._parts(text, is_whole=False)

    def _parts(self, text: str, *, is_whole: bool) -> tuple[Any, ...]:
        from rowlock.cli.typed_text import parts_of

        return parts_of(self.mapping, text, is_whole=is_whole)


Layout: TypeAlias = BytesLayout | TypedLayout


def layout_of(call: Call, table: str, mapping: str | None) -> Layout:
    """Returns the layout of a table. Connects, unless the mapping is `none`. Raises MappingError."""
    if mapping is not None and mapping.strip().lower() == NO_MAPPING:
        return BytesLayout(call.client.table(table))
    if mapping is not None:
        import_large(_TYPED)
        return TypedLayout(call.client.table(table, mapping=mapping))
    kept = call.client.kept_mapping(table)
    if kept is None:
        return BytesLayout(call.client.table(table))
    import_large(_TYPED)
    return TypedLayout(call.client.table(table, mapping=kept))


def check_text(*texts: str | None) -> None:
    """Raises ArgumentError for malformed escapes, before a server is asked for anything."""
    for text in texts:
        if text is not None:
            arguments.bytes_of(text)
