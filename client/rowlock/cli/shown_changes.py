"""Shows the changes of a feed, as text and as JSON: as bytes, or typed by a mapping."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from rowlock_proto.shown_names import escaped

from rowlock.cli.layouts import Layout, TypedLayout
from rowlock.errors import MappingError

if TYPE_CHECKING:
    import pyarrow as pa

# Any: the values of a row of the feed's schema.
Change = Mapping[str, Any]
# A change as JSON, and its fields under `heading`.
Shown = tuple[dict[str, object], Sequence[str]]


class ShownChanges(Protocol):
    """How the changes of a table are shown."""

    heading: Sequence[str]

    def of(self, change: Change) -> Shown:
        """Returns one change."""


def shown_changes(layout: Layout) -> ShownChanges:
    """Returns how the changes of a table with this layout are shown."""
    return TypedChanges(layout) if isinstance(layout, TypedLayout) else BytesChanges()


def all_shown(how: ShownChanges, batch: pa.RecordBatch) -> Iterator[Shown]:
    """Yields the changes of a batch."""
    return map(how.of, batch.to_pylist())


class BytesChanges:
    """Row, column and value are bytes, with escapes."""

    heading: Sequence[str] = ("number", "kind", "row", "column", "timestamp", "value")

    def of(self, change: Change) -> Shown:
        row, family, qualifier, value = [escaped(change[name]) for name in ("row", "family", "qualifier", "value")]
        record = {"row": row, "family": family, "qualifier": qualifier, "value": value}
        return {**_position(change), **record}, _fields(change, row, f"{family}:{qualifier}", value)


class TypedChanges:
    """Key, column and value are those of the mapping.

    What it does not name or can't read is shown as bytes: a column as FAMILY:QUALIFIER, a key as "row". A feed also has
    what was written before the mapping was kept.
    """

    def __init__(self, layout: TypedLayout) -> None:
        # Here, because pyarrow is slow to import.
        from rowlock._core.typed_rows import RowCodec

        self._layout = layout
        self._codec = RowCodec(layout.mapping)
        self.heading: Sequence[str] = ("number", "kind", layout.heading(None)[0], "column", "timestamp", "value")

    def of(self, change: Change) -> Shown:
        row: bytes = change["row"]
        key_record, key = self._key(row)
        column, value, text = self._cell(row, change)
        return (
            {**_position(change), **key_record, "column": column, "value": value},
            _fields(change, key, column, text),
        )

    def _key(self, row: bytes) -> tuple[dict[str, object], str]:
        try:
            key = self._codec.key.decode(row)
        except MappingError:
            return {"row": escaped(row)}, escaped(row)
        return {"key": self._layout.record(key, {})}, self._layout.shown_key(key)

    def _cell(self, row: bytes, change: Change) -> tuple[str, object, str]:
        """Returns the column, and the value as JSON and as text; of a delete None and nothing."""
        family, qualifier, data = change["family"], change["qualifier"], change["value"]
        is_put = change["kind"] == "put"
        cell = self._codec.find(family, qualifier)
        if cell is not None:
            name = cell.mapped.name
            if not is_put:
                return name, None, ""
            try:
                value = cell.decode(data, row)
                return name, self._layout.as_json(name, value), self._layout.shown(name, value)
            except MappingError:
                pass
        return f"{escaped(family)}:{escaped(qualifier)}", escaped(data) if is_put else None, escaped(data)


def _position(change: Change) -> dict[str, object]:
    return {name: change[name] for name in ("write_number", "kind", "timestamp")}


def _fields(change: Change, row: str, column: str, value: str) -> Sequence[str]:
    return str(change["write_number"]), change["kind"], row, column, str(change["timestamp"]), value
