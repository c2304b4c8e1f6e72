"""Converts the input of put_arrow into batches of rows or cells of about equal size. No I/O."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, cast

import pyarrow as pa
from rowlock_proto.nearest import did_you_mean

from rowlock._codec.arrow_buffers import Array
from rowlock._codec.bulk_rows import BULK_SCHEMA, BulkCells, BulkData, BulkRows, timestamps_array
from rowlock._codec.mapped_rows import ColumnsRefusedError, bulk_rows_of
from rowlock.errors import InvalidArgumentError, MappingError
from rowlock.mapping import Mapping


class ArrowStream(Protocol):
    """An object that exports an Arrow stream: tables and batches of pyarrow, pandas, polars, duckdb, ..."""

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any: ...  # Any: an opaque capsule


ArrowInput = pa.Table | pa.RecordBatch | pa.RecordBatchReader | ArrowStream | Iterable[pa.RecordBatch]

# A batch that is more than this many times as large as estimated is halved.
_OVERSHOOT_MAX = 2
# The columns that pandas makes of an index without a name.
_UNNAMED_INDEX = re.compile(r"__index_level_\d+__")
# The size of a cell's timestamp, offsets and bitmaps, apart from family, qualifier and key.
_CELL_OVERHEAD_BYTES = 28


@dataclass(frozen=True, slots=True)
class Sizes:
    """The sizes to cut batches to, in bytes, estimated.

    batch: of a batch as it is sent. as_cells: of its cells, if they are more; a server of an earlier version gets them
    instead of rows. None: every server takes rows.
    """

    batch: int
    as_cells: int | None


@dataclass(frozen=True, slots=True)
class Piece:
    """Rows or cells to send as one batch, made from the rows of the input with these numbers; perhaps none."""

    rows: range
    data: BulkData

    @property
    def byte_count(self) -> int:
        """The size of this batch alone. (A slice shares the larger buffers of the batch that it was cut from.)"""
        return self.data.batch.nbytes


def bulk_pieces(
    data: ArrowInput,
    mapping: Mapping | None,
    timestamp: int | None,
    sizes: Sizes,
    *,
    is_partial: bool = False,
    or_cells: bool = False,
    prefers_cells: bool = False,
) -> Iterator[Piece]:
    """Yields the input as rows, or as cells if it has no mapping, in order.

    is_partial: whether the data may lack value columns of the mapping, which are then not written. Then the mapping
    must name each column of the data, because one that is misspelled is not missed. or_cells: batches with the columns
    of cells are cells, unless the mapping names these columns; prefers_cells: they are cells even then.
    Raises MappingError or InvalidArgumentError for data that don't fit.
    """
    takes_cells = mapping is None or prefers_cells or (or_cells and not _names_cell_columns(mapping))

    def convert(piece: pa.RecordBatch) -> BulkData:
        if mapping is None or (takes_cells and _has_cell_columns(piece.schema.names)):
            return BulkCells(_as_cells(piece, timestamp))
        own = _partial_mapping(mapping, piece.schema.names) if is_partial else mapping
        return bulk_rows_of(piece, own, timestamp)

    yield from cut_batches(record_batches(data), convert, mapping, sizes)


def _cell_columns(names: Sequence[str]) -> list[str]:
    """Returns the columns of cells. names: the columns of the data, which may lack the timestamp."""
    return [name for name in BULK_SCHEMA.names if name != "timestamp" or name in names]


def _has_cell_columns(names: Sequence[str]) -> bool:
    return sorted(names) == sorted(_cell_columns(names))


def _names_cell_columns(mapping: Mapping) -> bool:
    return set(_cell_columns(())) <= {column.name for column in mapping.columns}


def _partial_mapping(mapping: Mapping, names: Sequence[str]) -> Mapping:
    """Returns the mapping of those of its columns that the data has. Raises MappingError for a column it lacks."""
    known = [column.name for column in mapping.columns]
    if mapping.timestamp is not None:
        known.append(mapping.timestamp.name)
    for name in names:
        if name not in known and not _UNNAMED_INDEX.fullmatch(name):
            raise ColumnsRefusedError(
                f"the data has the column {name!r}, which the mapping does not name"
                f"{did_you_mean(name, set(known) - set(names))}: rename it, or leave it out of the data. The mapping "
                f"has {', '.join(known)}"
            )
    chosen = mapping.select_among(names)
    if mapping.values and not chosen.values:
        raise ColumnsRefusedError(
            f"the data has no column of the mapping besides the key; those are "
            f"{', '.join(column.name for column in mapping.values)}"
        )
    return chosen


def cut_batches(
    batches: Iterable[pa.RecordBatch],
    convert: Callable[[pa.RecordBatch], BulkData],
    mapping: Mapping | None,
    sizes: Sizes,
) -> Iterator[Piece]:
    """Cuts batches, between rows, into pieces of about the sizes. A piece whose values are all null has no cells.

    mapping: for the estimate of their size; None: a piece is as large as its rows.
    """
    position = 0
    for batch in batches:
        # Pieces of about equal size.
        count = -(-batch.num_rows // _rows_per_batch(batch, mapping, sizes))
        step = -(-batch.num_rows // max(1, count))
        for start in range(0, batch.num_rows, max(1, step)):
            piece = batch.slice(start, step)
            yield from _sized(piece, position, convert, sizes)
            position += piece.num_rows


def record_batches(data: ArrowInput) -> Iterator[pa.RecordBatch]:
    """Yields the input's record batches. Raises TypeError unless it is Arrow data, MappingError if it can't convert."""
    check_arrow_input(data)
    if isinstance(data, pa.RecordBatch):
        yield data
    elif isinstance(data, pa.Table):
        yield from data.to_batches()
    elif isinstance(data, pa.RecordBatchReader):
        yield from data
    elif hasattr(data, "__arrow_c_stream__"):
        yield from _reader_of(cast(ArrowStream, data))
    else:
        for item in data:
            if isinstance(item, pa.Table):
                yield from item.to_batches()
            elif isinstance(item, pa.RecordBatch):
                yield item
            else:
                raise TypeError(
                    f"put_arrow takes Arrow tables or batches, not {type(item).__name__}; to write a list of dicts, "
                    "convert it with pyarrow.Table.from_pylist()"
                )


def check_arrow_input(data: object) -> None:
    """Raises TypeError unless it may be Arrow data. The items of an iterable are checked when they are read."""
    if hasattr(data, "__arrow_c_stream__") or isinstance(data, pa.RecordBatch):
        return
    if not isinstance(data, Iterable) or isinstance(data, bytes | str | dict):
        raise TypeError(
            f"put_arrow takes Arrow tables or batches, not {type(data).__name__}; to write a dict of columns, "
            "convert it with pyarrow.table()"
        )


def _reader_of(stream: ArrowStream) -> pa.RecordBatchReader:
    """Returns a reader. Raises MappingError if a column of Python objects, as in pandas, has no type in Arrow."""
    try:
        return pa.RecordBatchReader.from_stream(stream)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, OverflowError) as error:
        # The last argument says what is wrong, those before it in which column.
        reason = ": ".join(str(part) for part in reversed(error.args))
        raise MappingError(
            f"can't convert the data to Arrow columns: {reason}; give all values of a column one type that Arrow has, "
            "or leave the column out of the data"
        ) from error


def _sized(
    piece: pa.RecordBatch, position: int, convert: Callable[[pa.RecordBatch], BulkData], sizes: Sizes
) -> Iterator[Piece]:
    """Yields one piece, converted; halves it while it is far larger than estimated."""
    rows = range(position, position + piece.num_rows)
    try:
        converted = Piece(rows, convert(piece))
    except MappingError as error:
        if isinstance(error, ColumnsRefusedError):
            raise MappingError(error.message) from error.__cause__
        raise MappingError(f"{error} (rows counted from row {position} of the data)") from error
    if _is_far_too_large(converted, sizes) and piece.num_rows > 1:
        half = piece.num_rows // 2
        yield from _sized(piece.slice(0, half), position, convert, sizes)
        yield from _sized(piece.slice(half), position + half, convert, sizes)
    else:
        yield converted


def _is_far_too_large(piece: Piece, sizes: Sizes) -> bool:
    byte_count = piece.byte_count
    if byte_count > _OVERSHOOT_MAX * sizes.batch:
        return True
    if sizes.as_cells is None or not isinstance(piece.data, BulkRows):
        return False
    names = sum(len(family) + len(qualifier) + _CELL_OVERHEAD_BYTES for family, qualifier in piece.data.columns)
    keys = piece.data.keys.nbytes * len(piece.data.columns)
    return byte_count + names * piece.data.batch.num_rows + keys > _OVERSHOOT_MAX * sizes.as_cells


def _rows_per_batch(batch: pa.RecordBatch, mapping: Mapping | None, sizes: Sizes) -> int:
    """Returns about how many rows give batches of these sizes, at least 1."""
    if batch.num_rows == 0:
        return 1
    row_bytes = batch.nbytes / batch.num_rows
    count = sizes.batch / max(row_bytes, 1)
    if mapping is not None and sizes.as_cells is not None:
        # Each cell carries the key. Its length is not known yet; the row's size serves as an estimate.
        names = sum(len(column.family) + len(column.qualifier) + _CELL_OVERHEAD_BYTES for column in mapping.values)
        count = min(count, sizes.as_cells / (row_bytes + names + min(row_bytes, 32) * len(mapping.values)))
    return max(1, int(count))


def _as_cells(batch: pa.RecordBatch, timestamp: int | None) -> pa.RecordBatch:
    """Returns a batch of cells cast to the protocol's schema."""
    names = batch.schema.names
    if not _has_cell_columns(names):
        raise InvalidArgumentError(
            f"the data has the columns {', '.join(names)}. Without a mapping the data is cells: row, family, "
            "qualifier, value and, optionally, timestamp. For rows pass a mapping, such as 'id STRING :key, n BIGINT "
            "f:n', or make the table keep one by alter_table(name, mapping=...)"
        )
    if timestamp is not None and "timestamp" in names:
        raise InvalidArgumentError("the cells have a timestamp column; leave out the argument timestamp")
    arrays: list[Array] = []
    for field in BULK_SCHEMA:
        if field.name not in names:
            arrays.append(timestamps_array(batch.num_rows, timestamp))
            continue
        array = batch.column(field.name)
        try:
            array = array.cast(field.type)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise InvalidArgumentError(f"the column {field.name!r} of cells is not {field.type}: {error}") from error
        if array.null_count and not field.nullable:
            raise InvalidArgumentError(f"the column {field.name!r} of cells has nulls; every cell needs a value there")
        arrays.append(array if array.offset == 0 else pa.concat_arrays([array.slice(0, 0), array]))
    return pa.RecordBatch.from_arrays(arrays, schema=BULK_SCHEMA)
