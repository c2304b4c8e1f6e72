"""Encodes lines as the payload of a wide block; wide_directory.py describes the payload, wide_block.py reads it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from rowlock_regionserver.arrow.columns import Column, Integers, offsets
from rowlock_regionserver.arrow.line_values import as_binary, is_present, spread_values
from rowlock_regionserver.arrow.lines import Lines, compact_numbers
from rowlock_regionserver.cells import Compression
from rowlock_regionserver.storefile import codecs, wide_directory
from rowlock_regionserver.storefile.wide_directory import StoredChunk
from rowlock_regionserver.storefile.wide_form import ChunkForm, Kind


class EncodedBlock(NamedTuple):
    """A payload, and what the index says of it."""

    payload: bytes
    directory_bytes: int
    key_bytes: int
    raw_bytes: int


def encoded_lines(lines: Lines, compression: Compression, payload_bytes_min: int) -> EncodedBlock:
    """Returns the lines, as `with_least_numbers` returned them, as a payload of at least `payload_bytes_min`."""
    chunks = list(_chunks(lines, compression))
    directory = wide_directory.encode(
        len(lines),
        int(lines.timestamps[0, 0]) if lines.timestamps.shape == (1, 1) else 0,
        int(lines.write_numbers[0, 0]) if lines.write_numbers.shape == (1, 1) else 0,
        chunks,
        lines.qualifiers,
        payload_bytes_min,
    )
    key_bytes = sum([len(chunk.stored) for chunk in chunks if chunk.form.kind <= Kind.WRITE_NUMBERS])
    return EncodedBlock(
        b"".join([directory, *[chunk.stored for chunk in chunks]]),
        len(directory),
        len(directory) + key_bytes,
        sum([chunk.raw_bytes for chunk in chunks]),
    )


def _chunks(lines: Lines, compression: Compression) -> Iterator[StoredChunk]:
    """Yields the chunks in their order."""

    def chunk(kind: Kind, column: int, raw: bytes, width: int = 0) -> StoredChunk:
        form = ChunkForm(kind, column, width)
        stored, how = codecs.compressed(raw, compression, form.value_bytes)
        return StoredChunk(form, stored, len(raw), codecs.checksum(stored), how)

    yield chunk(Kind.ROWS, 0, *_values(lines.rows))
    for kind, numbers in ((Kind.TIMESTAMPS, lines.timestamps), (Kind.WRITE_NUMBERS, lines.write_numbers)):
        if len(numbers) == 1 and numbers.shape != (1, 1):
            yield chunk(kind, 0, numbers.astype("<i8").tobytes())
    for place, column in enumerate(lines.columns):
        if column.null_count:
            yield chunk(Kind.VALIDITY, place, np.packbits(is_present(column), bitorder="little").tobytes())
        if len(lines.timestamps) > 1:
            yield chunk(Kind.COLUMN_TIMESTAMPS, place, lines.timestamps[place].astype("<i8").tobytes())
        if len(lines.write_numbers) > 1:
            yield chunk(Kind.COLUMN_WRITE_NUMBERS, place, lines.write_numbers[place].astype("<i8").tobytes())
        yield chunk(Kind.VALUES, place, *_values(column))


def with_least_numbers(lines: Lines) -> Lines:
    """Returns the lines without columns that no line has, and with their numbers in the smallest form."""
    kept = [
        qualifier
        for qualifier, column in zip(lines.qualifiers, lines.columns, strict=True)
        if column.null_count < len(column)
    ]
    lines = lines.select(kept)
    timestamps, write_numbers = _least(lines, lines.timestamps), _least(lines, lines.write_numbers)
    if timestamps is lines.timestamps and write_numbers is lines.write_numbers:
        return lines
    return replace(lines, timestamps=timestamps, write_numbers=write_numbers)


def _least(lines: Lines, numbers: Integers) -> Integers:
    if numbers.shape[0] > 1:
        return compact_numbers(numbers, np.stack([is_present(column) for column in lines.columns]))
    return numbers[:, :1] if numbers.shape[1] > 1 and (numbers == numbers[0, 0]).all() else numbers


def _values(column: Column) -> tuple[bytes, int]:
    """Returns the rows or values as the bytes of a chunk, and their width; 0 if they have different lengths."""
    count = len(column)
    if column.null_count:
        # Bytes under a null are zeros, whatever the array has there.
        mask = is_present(column)
        column = spread_values(as_binary(column.drop_null()), np.flatnonzero(mask), count)
    if pa.types.is_fixed_size_binary(column.type):
        width = column.type.byte_width
        if not width:
            return bytes(4 * (count + 1)), 0
        data = memoryview(column.buffers()[1] or b"")
        return bytes(data[column.offset * width : (column.offset + count) * width]), width
    bounds = offsets(column)
    data = memoryview(column.buffers()[2] or b"")[int(bounds[0]) : int(bounds[-1])]
    lengths = np.diff(bounds)
    width = int(lengths[0])
    if width and (lengths == width).all():
        return bytes(data), width
    return (bounds - bounds[0]).astype("<i4").tobytes() + bytes(data), 0
