"""Encodes rows of a DataFrame: as rows by a mapping, or as cells from a key and a map of columns. No I/O."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, cast

import numpy as np
import pyarrow as pa
from rowlock_proto.nearest import nearest

from rowlock._codec.arrow_buffers import Array, Ints, bools_of, int64_array, lengths_of, names_array, values_of
from rowlock._codec.bulk_rows import BULK_SCHEMA, BulkCells, BulkData, BulkRows
from rowlock._codec.columns import parse_cell_column
from rowlock._codec.escapes import EscapeError, unescaped
from rowlock._codec.mapped_rows import bulk_rows_of, keys_of_rows
from rowlock.errors import InvalidArgumentError, MappingError
from rowlock.mapping import MappedColumn, Mapping, TimestampColumn

_BYTES = (pa.binary(), pa.string(), pa.large_binary(), pa.large_string())
_MAP_FORM = "row BINARY, columns MAP<STRING, BINARY>"


class RowForm(Protocol):
    """Picklable; stateless."""

    @property
    def families(self) -> frozenset[bytes]:
        """The families that every write includes; empty for maps, whose families are in the data."""

    @property
    def mapping(self) -> Mapping | None: ...

    @property
    def names_that_differ(self) -> tuple[str, ...]:
        """Columns of the DataFrame that match the mapping only if letter case is ignored."""

    def keys(self, rows: pa.RecordBatch) -> Array:
        """Returns the rows' keys. Raises MappingError."""

    def encoded(self, rows: pa.RecordBatch, timestamp: int) -> BulkData:
        """Returns the rows, in order, for a bulk batch. Raises MappingError for a value that does not fit."""


def form_of(schema: pa.Schema, mapping: Mapping | None, *, nulls_delete: bool, kept: Mapping | None = None) -> RowForm:
    """Returns the form of a DataFrame with that schema. Raises MappingError if it can't be written.

    Columns match by exact name, or else by a name that differs only in letter case. kept: the mapping that the table
    keeps, if `mapping` has those of its columns that the DataFrame has; for messages.
    """
    wanted = ["row", "columns"] if mapping is None else [column.name for column in _written(mapping)]
    names = _names(schema.names, wanted)
    renamed = pa.schema([field.with_name(name) for field, name in zip(schema, names, strict=True)])
    form = _form_of(renamed, mapping, kept, nulls_delete)
    return form if renamed.names == schema.names else RenamedForm(form, tuple(schema.names), tuple(names))


def _form_of(schema: pa.Schema, mapping: Mapping | None, kept: Mapping | None, nulls_delete: bool) -> RowForm:
    if mapping is not None:
        _check_mapped(schema, mapping, kept)
        return MappedForm(mapping, nulls_delete)
    if not is_map_form(schema):
        raise MappingError(
            f"the DataFrame has the columns {', '.join(schema.names)}; set the option mapping to map them to cells, "
            f"for example 'id STRING :key, delay INT info:delay'. Without it a DataFrame must be {_MAP_FORM}, with "
            "family:qualifier as the map's keys"
        )
    return MapForm(nulls_delete)


def _names(given: Sequence[str], wanted: Sequence[str]) -> list[str]:
    """Returns the columns' names, each replaced by the wanted name that differs only in letter case.

    Raises MappingError if two columns match one wanted name.
    """
    missing = {name.lower(): name for name in wanted if name not in given}
    found = Counter(name.lower() for name in given if name not in wanted and name.lower() in missing)
    for folded, count in found.items():
        if count > 1:
            alike = ", ".join(name for name in given if name.lower() == folded)
            raise MappingError(
                f"the DataFrame has {alike}, which differ only in letter case, and the mapping has {missing[folded]}; "
                "choose one with df.select(...)"
            )
    return [name if name in wanted else missing.get(name.lower(), name) for name in given]


@dataclass(frozen=True, slots=True)
class RenamedForm:
    """A form whose columns differ from another's in letter case. given, wanted: the names in the DataFrame's order."""

    form: RowForm
    given: tuple[str, ...]
    wanted: tuple[str, ...]

    @property
    def families(self) -> frozenset[bytes]:
        return self.form.families

    @property
    def mapping(self) -> Mapping | None:
        return self.form.mapping

    @property
    def names_that_differ(self) -> tuple[str, ...]:
        return tuple(given for given, wanted in zip(self.given, self.wanted, strict=True) if given != wanted)

    def keys(self, rows: pa.RecordBatch) -> Array:
        return self.form.keys(rows.rename_columns(list(self.wanted)))

    def encoded(self, rows: pa.RecordBatch, timestamp: int) -> BulkData:
        return self.form.encoded(rows.rename_columns(list(self.wanted)), timestamp)


@dataclass(frozen=True, slots=True)
class MappedForm:
    """Each mapped column is a part of the key or a cell."""

    mapping: Mapping
    nulls_delete: bool

    @property
    def names_that_differ(self) -> tuple[str, ...]:
        return ()

    @property
    def families(self) -> frozenset[bytes]:
        return frozenset(column.family for column in self.mapping.values)

    def keys(self, rows: pa.RecordBatch) -> Array:
        return keys_of_rows(rows, self.mapping)

    def encoded(self, rows: pa.RecordBatch, timestamp: int) -> BulkRows:
        return bulk_rows_of(rows, self.mapping, timestamp, nulls_delete=self.nulls_delete)


@dataclass(frozen=True, slots=True)
class MapForm:
    r"""A key and a map from family:qualifier to the value. In the map's keys \xNN is a byte."""

    nulls_delete: bool

    @property
    def families(self) -> frozenset[bytes]:
        return frozenset()

    @property
    def mapping(self) -> Mapping | None:
        return None

    @property
    def names_that_differ(self) -> tuple[str, ...]:
        return ()

    def keys(self, rows: pa.RecordBatch) -> Array:
        return _checked_keys(rows.column(rows.schema.names.index("row")))

    def encoded(self, rows: pa.RecordBatch, timestamp: int) -> BulkCells:
        import pyarrow.compute as pc

        keys = self.keys(rows)
        # The stubs type a column by its scalars only.
        maps = cast("pa.MapArray[Any, Any]", rows.column(rows.schema.names.index("columns")))
        row_of, place = _entries(maps)
        names, values = maps.keys.take(int64_array(place)), maps.items.take(int64_array(place)).cast(pa.binary())
        if values.null_count and not self.nulls_delete:
            is_valid = bools_of(values.is_valid())
            row_of = row_of[is_valid]
            valid = int64_array(np.flatnonzero(is_valid))
            names, values = names.take(valid), values.take(valid)
        encoded = names.dictionary_encode()
        columns = [_parsed(name) for name in cast(list[str], encoded.dictionary.to_pylist())]  # keys are never null
        arrays = [
            pc.take(keys, int64_array(row_of)),
            pc.take(names_array([family for family, _ in columns]), encoded.indices),
            pc.take(names_array([qualifier for _, qualifier in columns]), encoded.indices),
            int64_array(np.full(len(row_of), timestamp, np.int64)),
            values,
        ]
        return BulkCells(pa.RecordBatch.from_arrays(arrays, schema=BULK_SCHEMA))


def _entries(maps: pa.MapArray[Any, Any]) -> tuple[Ints, Ints]:
    """Returns for each entry of the maps the index of its row, and its index among the keys and items."""
    offsets = values_of(maps.offsets, np.int32).astype(np.int64)
    lengths = np.diff(offsets)
    # The offsets of a null map are arbitrary.
    lengths[~bools_of(maps.is_valid())] = 0
    row_of = np.repeat(np.arange(len(maps)), lengths)
    before = np.cumsum(lengths) - lengths
    return row_of, np.repeat(offsets[:-1] - before, lengths) + np.arange(int(lengths.sum()))


def _checked_keys(keys: Array) -> Array:
    found = keys.cast(pa.binary())
    if found.null_count:
        index = int(np.flatnonzero(bools_of(found.is_null()))[0])
        raise MappingError(f"the key 'row' is null in row {index}; every row needs its key")
    is_empty = lengths_of(found) == 0
    if is_empty.any():
        raise MappingError(f"the key 'row' is empty in row {int(np.flatnonzero(is_empty)[0])}; every row needs its key")
    return found


def _parsed(name: str) -> tuple[bytes, bytes]:
    try:
        return parse_cell_column(unescaped(name))
    except (EscapeError, InvalidArgumentError) as error:
        raise MappingError(
            f"a map of 'columns' has the key {name!r}, which is not family:qualifier: {error}"
        ) from error


def is_map_form(schema: pa.Schema) -> bool:
    """Returns whether a DataFrame has a key and a map of its columns."""
    if sorted(schema.names) != ["columns", "row"]:
        return False
    columns = schema.field("columns").type
    return (
        schema.field("row").type in _BYTES
        and isinstance(columns, pa.MapType)
        and columns.key_type in (pa.string(), pa.large_string())
        and columns.item_type in _BYTES
    )


def _written(mapping: Mapping) -> list[MappedColumn | TimestampColumn]:
    """Returns the columns of a DataFrame that is written; the last one may be left out if it is the rows' time."""
    return [*mapping.columns, *([mapping.timestamp] if mapping.timestamp is not None else [])]


def _check_mapped(schema: pa.Schema, mapping: Mapping, kept: Mapping | None) -> None:
    wanted = [column.name for column in mapping.columns]
    counts, known = Counter(schema.names), {column.name for column in _written(mapping)}
    duplicate = sorted(name for name, count in counts.items() if count > 1)
    missing = [name for name in wanted if name not in counts]
    extra = [name for name in counts if name not in known]
    if duplicate or missing or extra:
        faults = [
            f"{what} {', '.join(names)}"
            for what, names in (("has twice", duplicate), ("lacks", missing), ("has also", extra))
            if names
        ]
        advice = _advice(mapping) if kept is None else _advice_by_kept(kept, counts, extra)
        raise MappingError(f"the DataFrame {' and '.join(faults)}: it has {', '.join(schema.names)}, and {advice}")
    if not mapping.values:
        whose = repr(mapping) if kept is None or not kept.values else "the DataFrame"
        raise MappingError(f"{whose} has only a key; a row exists only with at least one cell")
    for column in _written(mapping):
        if column.name not in schema.names:
            continue
        found = schema.field(column.name).type
        if not _can_become(found, column):
            if pa.types.is_nested(found):
                remedy = f"a cell holds one value: write it as text, F.to_json('{column.name}'), or as several columns"
            else:
                remedy = f"cast it: F.col('{column.name}').cast('{column.type_text.lower()}')"
            raise MappingError(
                f"the column {column.name!r} is {found} in the DataFrame and {column.type_text} in the mapping; "
                f"{remedy}"
            )


def _advice(mapping: Mapping) -> str:
    """Returns what to do about columns that differ from those of a mapping that was given."""
    return (
        f"the mapping has {', '.join(column.name for column in mapping.columns)}. Each column must be in both; choose "
        "columns with df.select(...), or remove from the mapping the columns that you don't write"
    )


def _advice_by_kept(kept: Mapping, given: Collection[str], extra: Sequence[str]) -> str:
    """Returns what to do about columns that differ from those of the mapping that the table keeps."""
    known = [column.name for column in _written(kept)]
    meant = [f"{found} for {name}" for name in extra if (found := nearest(name, set(known) - set(given))) is not None]
    question = f" (did you mean {', '.join(meant)}?)" if meant else ""
    return (
        f"the mapping that the table keeps has {', '.join(known)}{question}. A DataFrame needs the columns of the key, "
        f"{', '.join(part.name for part in kept.keys)}, and may lack others: rename its columns (withColumnRenamed), "
        "leave them out (drop), or add them to the mapping (alter_table)"
    )


def _can_become(found: pa.DataType, column: MappedColumn | TimestampColumn) -> bool:
    """Returns whether the conversion is exact for every value that fits. A value that does not fit fails with its row.

    Refuses types whose conversion may lose precision, though casts.py accepts their exact values.
    """
    wanted = column.arrow
    if found == wanted:
        return True
    if pa.types.is_integer(wanted):
        return pa.types.is_integer(found)
    if pa.types.is_floating(wanted):
        return pa.types.is_integer(found) or (pa.types.is_float64(wanted) and pa.types.is_float32(found))
    if pa.types.is_timestamp(wanted):
        # A timestamp without a zone is in the session's zone, which only Spark knows.
        return pa.types.is_date(found) or (pa.types.is_timestamp(found) and found.tz is not None)
    if pa.types.is_decimal(wanted):
        return pa.types.is_integer(found) or pa.types.is_decimal(found)
    return wanted in _BYTES and found in _BYTES
