# Made from client/rowlock/aio/typed_table.py by tools/async_to_sync.py: change that, then `make faces`.
"""A typed table: rows are dicts of Python values, by a mapping (threads)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal, TypeVar, cast, overload

from rowlock._codec.columns import listed
from rowlock._codec.key_scalars import Key
from rowlock._core.snapshot_requests import TakenSnapshot
from rowlock._core.typed_changes import counter_of
from rowlock._core.typed_filters import TypedColumn
from rowlock._core.typed_rows import Row, RowCodec
from rowlock._tables.typed_changes import TypedTableChanges
from rowlock._transport.kept_mapping import STALE_MAPPING, compare_again, read_by_mapping
from rowlock.errors import MappingError
from rowlock.filters import Filter
from rowlock.mapping import Mapping
from rowlock.schema import Durability
from rowlock.selection import TimeRange
from rowlock.typed_scan import TypedScan

T = TypeVar("T")


class TypedTable(TypedTableChanges[Row]):
    """One table by a mapping, from `Client.typed_table` and `Client.table`. Thread-safe.

    A key is the value of the mapping's key, or a tuple of its parts. A row is {name: value} with the names and types of
    the mapping's columns; None is an absent cell. Calls raise the errors of a Table. They also raise MappingError: a
    key or value does not fit the mapping, a column is unknown, or the mapping does not agree with the one that the
    table keeps; and TypeError for a value of another Python type. Nothing was changed then. See docs/mapping.md.
    """

    @property
    def mapping(self) -> Mapping:
        """The mapping in use."""
        return self._mapping.in_use.mapping

    def column(self, name: str) -> TypedColumn:
        """Returns a column to compare, for `where` of a scan and for checks: `table.column("orders") > 5`.

        Raises MappingError for an unknown column and for a part of the key, for which a scan has bounds.
        """
        codec = self._mapping.in_use.codec
        if codec.mapping.is_key_part(name):
            raise MappingError(
                f"{codec.mapping.unknown_column(name)}: choose rows by a scan's start, stop or prefix, or compare the "
                "key's bytes with rowlock.row_key()"
            )
        return TypedColumn(codec.cell(name))

    def with_options(self, *, durability: Durability | None = None, timeout: float | None = None) -> TypedTable[Row]:
        """Returns a view of this table with another durability or timeout (seconds); None keeps the current one."""
        return TypedTable(self._servers, self._view.with_options(durability, timeout), self._mapping)

    def __repr__(self) -> str:
        return f"<rowlock.TypedTable {self.name!r}>"

    @overload
    def row(
        self,
        key: Key,
        columns: Sequence[str] | None = None,
        *,
        timestamp: int | None = None,
        time_range: TimeRange | None = None,
        include_timestamp: Literal[False] = False,
    ) -> Row: ...

    @overload
    def row(
        self,
        key: Key,
        columns: Sequence[str] | None = None,
        *,
        timestamp: int | None = None,
        time_range: TimeRange | None = None,
        include_timestamp: Literal[True],
    ) -> dict[str, tuple[Any, int]]: ...

    def row(
        self,
        key: Key,
        columns: Sequence[str] | None = None,
        *,
        timestamp: int | None = None,
        time_range: TimeRange | None = None,
        include_timestamp: bool = False,
    ) -> Row | dict[str, tuple[Any, int]]:
        """Returns {name: value} of a row, None for absent cells; {} if it has none of the columns.

        columns: names; None: all. timestamp, time_range: as in Table.row. include_timestamp: return the cells that
        exist as {name: (value, timestamp)}.
        """

        def read(codec: RowCodec) -> Row | dict[str, tuple[Any, int]]:
            row, targets = codec.key.encode(key), codec.targets(columns)
            cells = self._table._selected_cells(row, targets, timestamp, time_range)
            if include_timestamp:
                return codec.row_with_timestamps(row, cells)
            # A TypedDict is a dict; table() has compared it with the mapping.
            return cast(Row, codec.row(row, cells, columns))

        return self._read(read)

    def rows(self, keys: Sequence[Key], columns: Sequence[str] | None = None) -> list[tuple[Key, Row]]:
        """Returns [(key, {name: value})] in the order of `keys`; as `row`.

        Up to 1,000 rows of one region are read at one read point.
        """
        given = list(listed("keys", "keys", keys, str | bytes | tuple))

        def read(codec: RowCodec) -> list[tuple[Key, Row]]:
            rows = [codec.key.encode(key) for key in given]
            found = self._table._cells_of_rows(rows, codec.targets(columns))
            return [
                (key, cast(Row, codec.row(row, cells, columns)))
                for key, row, cells in zip(given, rows, found, strict=True)
            ]

        return self._read(read)

    def cells(
        self,
        key: Key,
        column: str,
        versions: int | None = None,
        *,
        timestamp: int | None = None,
        time_range: TimeRange | None = None,
    ) -> list[tuple[Any, int]]:
        """Returns the versions of one column, [(value, timestamp)], newest first; [] if it is absent.

        Arguments as in Table.cells.
        """

        def read(codec: RowCodec) -> list[tuple[Any, int]]:
            row, cell = codec.key.encode(key), codec.cell(column)
            found = self._table.cells(row, cell.target, versions, timestamp=timestamp, time_range=time_range)
            return [(cell.decode(value, row), stamp) for value, stamp in found]

        return self._read(read)

    def counter(self, key: Key, column: str) -> int:
        """Returns the number of a BIGINT in `binary`, 0 if it is absent. Raises NotACounterError."""
        row, target = self._encoded(lambda codec: (codec.key.encode(key), counter_of(codec, column).target))
        return self._table.counter(row, target)

    def exists(self, key: Key) -> bool:
        """Returns whether the row has a cell, also one that the mapping does not name."""
        return self._table.exists(self._encoded(lambda codec: codec.key.encode(key)))

    def count(
        self,
        start: Key | None = None,
        stop: Key | None = None,
        prefix: Key | None = None,
        columns: Sequence[str] | None = None,
        where: Filter | None = None,
        *,
        ranges: Iterable[tuple[Key | None, Key | None]] | None = None,
        snapshot: TakenSnapshot | bytes | None = None,
        busy_timeout: float | None = None,
        on_progress: Callable[[int], None] | None = None,
    ) -> int:
        """Returns the number of rows that `scan` with these arguments would return; see Table.count."""
        given = None if ranges is None else list(ranges)
        rows, targets, encoded = self._encoded(
            lambda codec: (
                (codec.key.bound(start), codec.key.bound(stop), codec.key.prefix(prefix)),
                None if columns is None else codec.targets(columns),
                codec.bounds(given),
            )
        )
        try:
            return self._table.count(
                *rows,
                targets,
                where,
                ranges=encoded,
                snapshot=snapshot,
                busy_timeout=busy_timeout,
                on_progress=on_progress,
            )
        except STALE_MAPPING:
            compare_again(self._servers, self._view, self._mapping)
            raise

    def delete_range(
        self,
        start: Key | None = None,
        stop: Key | None = None,
        prefix: Key | None = None,
        where: Filter | None = None,
        *,
        ranges: Iterable[tuple[Key | None, Key | None]] | None = None,
        on_progress: Callable[[int], None] | None = None,
    ) -> int:
        """Deletes the rows in [start, stop), or with a prefix, or in several ranges; see Table.delete_range."""
        given = None if ranges is None else list(ranges)
        rows, encoded = self._encoded(
            lambda codec: (
                (codec.key.bound(start), codec.key.bound(stop), codec.key.prefix(prefix)),
                codec.bounds(given),
            )
        )
        try:
            return self._table.delete_range(
                *rows,
                where,
                ranges=encoded,
                on_progress=on_progress,
            )
        except STALE_MAPPING:
            compare_again(self._servers, self._view, self._mapping)
            raise

    def scan(
        self,
        start: Key | None = None,
        stop: Key | None = None,
        prefix: Key | None = None,
        columns: Sequence[str] | None = None,
        where: Filter | None = None,
        limit: int | None = None,
        reverse: bool = False,
        keys_only: bool = False,
        *,
        ranges: Iterable[tuple[Key | None, Key | None]] | None = None,
        timestamp: int | None = None,
        time_range: TimeRange | None = None,
        strict: bool = False,
        batch_bytes: int = 0,
        snapshot: TakenSnapshot | bytes | None = None,
        busy_timeout: float | None = None,
    ) -> TypedScan[Row]:
        """Returns a TypedScan of the rows in [start, stop), or with a prefix, or in several ranges; else of all rows.

        start, stop, prefix: keys, or tuples of the first parts of a composite key; a prefix's parts are complete, but
            for the key's last part if it is a STRING or BINARY.
        columns: names to read; only rows with one of these cells are returned. None: all names, and every row.
        where: a filter, as in `table.column("orders") > 5`, which sees the whole row.
        keys_only: return rows without values.

        The other arguments are those of Table.scan. No request is sent before the first row is read.
        """
        codec = self._mapping.in_use.codec
        key = codec.key
        scan = self._table.scan(
            key.bound(start),
            key.bound(stop),
            key.prefix(prefix),
            columns=None if columns is None else codec.targets(columns),
            where=where,
            limit=limit,
            reverse=reverse,
            ranges=codec.bounds(ranges),
            timestamp=timestamp,
            time_range=time_range,
            strict=strict,
            batch_bytes=batch_bytes,
            snapshot=snapshot,
            busy_timeout=busy_timeout,
        )
        return TypedScan(self._servers, self._view, self._mapping, scan, [] if keys_only else columns)

    def _read(self, read: Callable[[RowCodec], T]) -> T:
        return read_by_mapping(self._servers, self._view, self._mapping, read)
