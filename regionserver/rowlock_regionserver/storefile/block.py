"""A block of cells: encodes a record batch as a payload, decodes it, and looks up single rows.

Look-ups read the Arrow buffers in place, through memoryviews; with pyarrow's scalars a row of one cell takes ten times
as long.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Literal, NamedTuple

import pyarrow as pa

from rowlock_regionserver.arrow import columns
from rowlock_regionserver.cells import CELL_SCHEMA, DELETE_FAMILY, Compression
from rowlock_regionserver.errors import CorruptionError
from rowlock_regionserver.few_rows import CELL_BYTES, FEW_BYTES_MAX, FEW_CELLS_MAX
from rowlock_regionserver.found_cells import AWAY_BYTES_MIN, AwayValue, FoundCell, LongRowError
from rowlock_regionserver.storefile.codecs import SHRUNK_MAX
from rowlock_regionserver.storefile.format import HEADER_BYTES

_CODECS: dict[Compression, Literal["lz4", "zstd"]] = {Compression.LZ4: "lz4", Compression.ZSTD: "zstd"}

_SCHEMA_MESSAGE_BYTES = CELL_SCHEMA.serialize().size
_END_OF_STREAM_BYTES = 8

# Memory of a Block beside its buffers: the objects that refer to them.
_OVERHEAD_BYTES = 3000


def encoded(batch: pa.RecordBatch, compression: Compression) -> bytes:
    """Returns the cells as one Arrow IPC message, without the schema message: the schema is always CELL_SCHEMA."""
    if compression is Compression.NONE:
        return batch.serialize().to_pybytes()
    compressed = _compressed(batch, compression)
    if len(compressed) > SHRUNK_MAX * pa.ipc.get_record_batch_size(batch):
        # Cells that don't shrink, as random values, are read faster as they are. The message says that they are plain.
        return batch.serialize().to_pybytes()
    return compressed


def _compressed(batch: pa.RecordBatch, compression: Compression) -> bytes:
    # RecordBatch.serialize() can't compress. A stream can; it has the schema message, the batch, and an end mark.
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression=_CODECS[compression], use_threads=False)
    with pa.ipc.new_stream(sink, CELL_SCHEMA, options=options) as stream:
        stream.write_batch(batch)
    written = sink.getvalue().to_pybytes()
    return written[_SCHEMA_MESSAGE_BYTES:-_END_OF_STREAM_BYTES]


def decoded(payload: pa.Buffer, cell_count: int, path: Path, offset: int) -> pa.RecordBatch:
    """Returns the cells of a verified payload; they refer to it unless they were compressed.

    Raises CorruptionError when it is not a record batch of `cell_count` cells. As its checksum is right, that would be
    a mistake of the writer.
    """
    try:
        batch = pa.ipc.read_record_batch(payload, CELL_SCHEMA)
    except MemoryError:  # Arrow's, too, which is no damage.
        raise
    except (pa.ArrowException, OSError) as error:
        raise CorruptionError(path, offset + HEADER_BYTES, "an Arrow record batch", f"{error}") from error
    if batch.num_rows != cell_count:
        raise CorruptionError(path, offset + HEADER_BYTES, f"{cell_count} cells", f"{batch.num_rows}")
    return batch


class BlockRows(NamedTuple):
    """The first rows of a range in a block. `is_all`: the block has no other row of the range."""

    rows: list[bytes]
    starts: list[int]  # the first cell of each, and at last the end
    byte_count: int
    is_all: bool


class Block:
    """A verified, decompressed block, ready for look-ups. Immutable; safe to use from many threads."""

    __slots__ = (
        "_kinds",
        "_qualifier_stops",
        "_qualifiers",
        "_row_stops",
        "_rows",
        "_timestamps",
        "_value_stops",
        "_values",
        "_write_numbers",
        "batch",
        "bytes_held",
    )

    def __init__(self, batch: pa.RecordBatch) -> None:
        """`batch` is a result of decoded()."""
        self.batch = batch
        rows, qualifiers, timestamps, write_numbers, kinds, values = batch.columns
        self._row_stops = columns.numbers(rows, "i", one_more=True)
        # Copied to bytes, as a search slices them many times, and slices of bytes cost a third of a memoryview's.
        # Searching a list of rows would be faster still, but building it costs as much as five reads of the block.
        self._rows = _data(rows).tobytes()
        self._qualifier_stops = columns.numbers(qualifiers, "i", one_more=True)
        self._qualifiers = _data(qualifiers)
        self._timestamps = columns.numbers(timestamps, "q")
        self._write_numbers = columns.numbers(write_numbers, "q")
        self._kinds = columns.numbers(kinds, "b")
        self._value_stops = columns.numbers(values, "i", one_more=True)
        self._values = _data(values)
        self.bytes_held = batch.get_total_buffer_size() + len(self._rows) + _OVERHEAD_BYTES

    def row_cells(self, row: bytes, cells_max: int, value_of: Callable[[int], bytes]) -> list[FoundCell]:
        """Returns the row's cells in this block, in store order. O(log cells of the block + cells of the row).

        Large values are away: value_of(cell) reads them later, without a reference to this block. Raises LongRowError
        when there are more than `cells_max`.
        """
        start, stop = self.range_of(row)
        if stop - start > cells_max:
            raise LongRowError
        return self._cells_at(start, stop, value_of)

    def columns_cells(
        self, row: bytes, qualifiers: Sequence[bytes], cells_max: int, value_of: Callable[[int], bytes]
    ) -> list[FoundCell]:
        """Returns the row's cells in these columns and its family tombstones; otherwise like row_cells.

        O(columns * log cells of the block + returned cells).
        """
        start, stop = self.range_of(row)
        found: list[FoundCell] = []
        if start < stop and self._qualifier_stops[start + 1] == self._qualifier_stops[start]:
            # Family tombstones come first, among the cells of the empty qualifier.
            named = self._first_not_below(b"\x00", start, stop)
            if named - start > cells_max:
                raise LongRowError
            found = self._cells_at(start, named, value_of)
            if not qualifiers or qualifiers[0]:
                found = [cell for cell in found if cell[3] == DELETE_FAMILY]
            start = named
        for qualifier in qualifiers:
            first = self._first_not_below(qualifier, start, stop)
            start = self._first_not_below(qualifier + b"\x00", first, stop)
            if len(found) + start - first > cells_max:
                raise LongRowError
            found += self._cells_at(first, start, value_of)
        return found

    def few_rows(self, start: bytes, stop: bytes, rows_max: int, bytes_max: int) -> BlockRows | None:
        """Returns the first rows of [start, stop); None if one is too large. Some 5 µs for a row of 10 cells."""
        cell, _ = self.range_of(start)
        cell_count, data = self.batch.num_rows, self._rows
        row_stops, qualifier_stops, value_stops = self._row_stops, self._qualifier_stops, self._value_stops
        rows: list[bytes] = []
        starts = [cell]
        byte_count = 0
        while cell < cell_count:
            row = data[row_stops[cell] : row_stops[cell + 1]]
            if stop and row >= stop:
                break
            if len(rows) == rows_max or (rows and byte_count >= bytes_max):
                return BlockRows(rows, starts, byte_count, is_all=False)
            after = cell + 1
            while after < cell_count and data[row_stops[after] : row_stops[after + 1]] == row:
                after += 1
            row_bytes = len(row) + value_stops[after] - value_stops[cell]
            row_bytes += qualifier_stops[after] - qualifier_stops[cell]
            if after - cell > FEW_CELLS_MAX or row_bytes > FEW_BYTES_MAX:
                return None
            rows.append(row)
            starts.append(after)
            byte_count += row_bytes + CELL_BYTES * (after - cell)
            cell = after
        return BlockRows(rows, starts, byte_count, is_all=True)

    def cells(self, start: int, stop: int) -> list[FoundCell]:
        """Returns the cells [start, stop) of a row that `few_rows` returned."""
        return self._cells_at(start, stop, self.value)

    def value(self, cell: int) -> bytes:
        """Returns the value of one cell."""
        return bytes(self._values[self._value_stops[cell] : self._value_stops[cell + 1]])

    @property
    def last_qualifier(self) -> bytes:
        """The qualifier of the last cell."""
        return bytes(self._qualifiers[self._qualifier_stops[-2] : self._qualifier_stops[-1]])

    def _first_not_below(self, qualifier: bytes, start: int, stop: int) -> int:
        """Returns the first cell of [start, stop), all of one row, with a qualifier >= `qualifier`; else `stop`."""
        qualifiers, stops = self._qualifiers, self._qualifier_stops
        while start < stop:
            middle = (start + stop) >> 1
            if bytes(qualifiers[stops[middle] : stops[middle + 1]]) < qualifier:
                start = middle + 1
            else:
                stop = middle
        return start

    def _cells_at(self, start: int, stop: int, value_of: Callable[[int], bytes]) -> list[FoundCell]:
        if start == stop:
            return []
        qualifier_stops = self._qualifier_stops[start : stop + 1].tolist()
        value_stops = self._value_stops[start : stop + 1].tolist()
        # Slices of one copy of the row's bytes: slices of a memoryview cost three times as much.
        first_qualifier, first_value = qualifier_stops[0], value_stops[0]
        qualifiers = self._qualifiers[first_qualifier : qualifier_stops[-1]].tobytes()
        if value_stops[-1] - first_value > AWAY_BYTES_MIN:
            return self._cells_with_values_away(start, qualifier_stops, value_stops, value_of)
        values = self._values[first_value : value_stops[-1]].tobytes()
        if stop - start == 1:
            return [(qualifiers, -self._timestamps[start], -self._write_numbers[start], self._kinds[start], values)]
        return [
            (
                qualifiers[qualifier_start - first_qualifier : qualifier_stop - first_qualifier],
                -timestamp,
                -write_number,
                kind,
                values[value_start - first_value : value_stop - first_value],
            )
            for (qualifier_start, qualifier_stop), timestamp, write_number, kind, (value_start, value_stop) in zip(
                pairwise(qualifier_stops),
                self._timestamps[start:stop].tolist(),
                self._write_numbers[start:stop].tolist(),
                self._kinds[start:stop].tolist(),
                pairwise(value_stops),
                strict=True,
            )
        ]

    def _cells_with_values_away(
        self, start: int, qualifier_stops: list[int], value_stops: list[int], value_of: Callable[[int], bytes]
    ) -> list[FoundCell]:
        """Returns the cells from `start` on; large values are away."""
        cells: list[FoundCell] = []
        for cell, (qualifier_bounds, value_bounds) in enumerate(
            zip(pairwise(qualifier_stops), pairwise(value_stops), strict=True), start
        ):
            size = value_bounds[1] - value_bounds[0]
            value = (
                AwayValue(size, partial(value_of, cell))
                if size > AWAY_BYTES_MIN
                else bytes(self._values[slice(*value_bounds)])
            )
            qualifier = bytes(self._qualifiers[slice(*qualifier_bounds)])
            cells.append((qualifier, -self._timestamps[cell], -self._write_numbers[cell], self._kinds[cell], value))
        return cells

    def range_of(self, row: bytes) -> tuple[int, int]:
        """Returns the row's cells as (start, stop); equal when there are none."""
        rows, stops = self._rows, self._row_stops
        start, cell_count = 0, self.batch.num_rows
        stop = cell_count
        while start < stop:
            middle = (start + stop) >> 1
            if rows[stops[middle] : stops[middle + 1]] < row:
                start = middle + 1
            else:
                stop = middle
        # Find the end by doubling steps, because most rows have few cells.
        inside, probe, step = start, start, 1
        while probe < cell_count and rows[stops[probe] : stops[probe + 1]] == row:
            inside = probe + 1
            probe += step
            step *= 2
        stop = min(probe, cell_count)
        while inside < stop:
            middle = (inside + stop) >> 1
            if rows[stops[middle] : stops[middle + 1]] == row:
                inside = middle + 1
            else:
                stop = middle
        return start, stop


def _data(column: columns.Column) -> memoryview:
    """Returns the data buffer of a binary column."""
    buffer = column.buffers()[2]
    return memoryview(b"") if buffer is None else memoryview(buffer)
