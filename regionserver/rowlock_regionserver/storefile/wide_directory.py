"""The directory of a wide block: where each chunk begins, how it is compressed and checked, and the block's form.

    line count, chunk count, bytes of the form: 4 bytes each; 4 zeros
    timestamp, write number: 8 bytes each; those of all cells, if no chunk has them
    stored bytes of each chunk; raw bytes of each chunk; CRC32C of the stored bytes of each chunk: 4 bytes each
    compression of each chunk: a byte each
    the form (wide_form.py)
    zeros up to the directory's end

The chunks follow the directory without gaps. All numbers are little-endian. The directory's checksum is verified before
it is parsed; then its fields are checked against one another.
"""

from __future__ import annotations

import functools
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa

from rowlock_regionserver.errors import CorruptionError
from rowlock_regionserver.storefile import codecs, wide_form
from rowlock_regionserver.storefile.chunk_reads import getter_of
from rowlock_regionserver.storefile.format import HEADER_BYTES
from rowlock_regionserver.storefile.wide_form import ChunkForm, Form, require

_HEAD = struct.Struct("<IIII2q")

# Bounds of a block, which no writer exceeds: more would be damage.
LINES_MAX = 1 << 24
RAW_BYTES_MAX = 1 << 30

# Memory of a Directory, and of each chunk's three numbers in it.
_DIRECTORY_BYTES, _CHUNK_BYTES = 400, 3 * (8 + 32)


class StoredChunk(NamedTuple):
    """A chunk as the writer made it: its form, and its bytes."""

    form: ChunkForm
    stored: bytes
    raw_bytes: int
    checksum: int
    compression: int  # as codecs.compressed returned it


@dataclass(frozen=True, slots=True)
class Directory:
    """The decoded directory. Immutable. The sequences have an element for each chunk."""

    form: Form
    line_count: int
    timestamp: int
    write_number: int
    starts: Sequence[int]  # in the payload, and at last its end
    raw_bytes: Sequence[int]
    checksums: tuple[int, ...]
    compressions: bytes
    # Added to the write numbers that chunks have (adopted_numbers.py); `write_number` includes it.
    write_number_base: int = 0

    def is_plain(self, number: int) -> bool:
        """Returns whether the chunk is stored as it is, and has rows or values of one length."""
        return self.form.chunks[number].width > 0 and not self.compressions[number]

    def are_as_written(self, numbers: Sequence[int], stored: Sequence[pa.Buffer]) -> bool:
        """Returns whether the stored bytes of these chunks, at least one, which ascend, have their checksums."""
        return tuple(map(codecs.checksum, stored)) == getter_of(numbers)(self.checksums)

    @property
    def bytes_held(self) -> int:
        """About the memory of the numbers, and of the form unless many blocks share it."""
        return _DIRECTORY_BYTES + _CHUNK_BYTES * len(self.compressions) + self.form.bytes_held


def encode(
    line_count: int,
    timestamp: int,
    write_number: int,
    chunks: Sequence[StoredChunk],
    qualifiers: Sequence[bytes],
    payload_bytes_min: int,
) -> bytes:
    """Returns the directory, so long that with the chunks it takes `payload_bytes_min`, and a multiple of 8."""
    form = wide_form.encode([chunk.form for chunk in chunks], qualifiers)
    stored_bytes = [len(chunk.stored) for chunk in chunks]
    directory = b"".join(
        [
            _HEAD.pack(line_count, len(chunks), len(form), 0, timestamp, write_number),
            struct.pack(
                f"<{3 * len(chunks)}I",
                *stored_bytes,
                *[chunk.raw_bytes for chunk in chunks],
                *[chunk.checksum for chunk in chunks],
            ),
            bytes([chunk.compression for chunk in chunks]),
            form,
        ]
    )
    length = max(len(directory), payload_bytes_min - sum(stored_bytes))
    return directory.ljust(-(-length // 8) * 8, b"\0")


def decode(directory: bytes, payload_bytes: int, line_count: int | None, path: Path, offset: int) -> Directory:
    """Returns the directory of a block at `offset` of the file, from its verified bytes.

    `line_count` is that of the index, None if that is not known. Raises CorruptionError when the directory contradicts
    itself. As its checksum is right, that would be a mistake of the writer.
    """
    try:
        decoded = _decode(directory, payload_bytes)
        require(line_count in (None, decoded.line_count), f"{decoded.line_count} lines, not {line_count}")
        return decoded
    except (ValueError, struct.error) as error:
        raise CorruptionError(path, offset + HEADER_BYTES, "the directory of a wide block", f"{error}") from error


def _decode(directory: bytes, payload_bytes: int) -> Directory:
    line_count, chunk_count, form_bytes, _, timestamp, write_number = _HEAD.unpack_from(directory)
    require(0 < line_count <= LINES_MAX, f"{line_count} lines")
    numbers_stop = _HEAD.size + 12 * chunk_count
    form_start = numbers_stop + chunk_count
    require(form_start + form_bytes <= len(directory), f"{chunk_count} chunks in {len(directory)} bytes")
    numbers = struct.unpack_from(f"<{3 * chunk_count}I", directory, _HEAD.size)
    stored_bytes, raw_bytes = numbers[:chunk_count], numbers[chunk_count : 2 * chunk_count]
    starts = list(accumulate(stored_bytes, initial=len(directory)))
    require(starts[-1] == payload_bytes, f"chunks that end at {starts[-1]} of {payload_bytes} bytes")
    require(sum(raw_bytes) <= RAW_BYTES_MAX, f"{sum(raw_bytes)} raw bytes")
    compressions = directory[numbers_stop:form_start]
    fitting = _kept_form if form_bytes <= wide_form.KEPT_BYTES_MAX else _fitting_form
    form = fitting(directory[form_start : form_start + form_bytes], line_count, raw_bytes, compressions)
    for stored, raw, compression in zip(stored_bytes, raw_bytes, compressions, strict=True):
        if stored != raw and not compression:
            raise ValueError(f"{stored} bytes of {raw}, not compressed")
    return Directory(
        form, line_count, timestamp, write_number, starts, raw_bytes, numbers[2 * chunk_count :], compressions
    )


def _fitting_form(form: bytes, line_count: int, raw_bytes: tuple[int, ...], compressions: bytes) -> Form:
    """Returns the parsed form. Raises ValueError if chunks of it can't have these lengths or compressions."""
    parsed = wide_form.decode(form, len(raw_bytes))
    # A sixth of what a read of one column takes, so without a call for each chunk.
    offsets_bytes, bitmap_bytes = 4 * (line_count + 1), (line_count + 7) >> 3
    for chunk, size, raw, compression in zip(parsed.chunks, parsed.sizes, raw_bytes, compressions, strict=True):
        if size.line_bytes:
            has_size = raw == size.line_bytes * line_count
        else:
            has_size = raw >= offsets_bytes if size.has_offsets else raw == bitmap_bytes
        if not has_size or compression not in size.compressions:
            raise ValueError(f"{raw} bytes, compression {compression}, for {line_count} lines: {chunk}")
    return parsed


# Blocks of rows that are all of one length mostly differ in nothing else.
_kept_form = functools.lru_cache(maxsize=32)(_fitting_form)
