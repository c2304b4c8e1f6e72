"""Bulk files: a large bulk batch on disk, before the log names it.

A bulk file is written and synced before its log record exists; the record holds its length and CRC32C. Only recovery
reads it, and it is removed when the cells are in store files. For a small batch there is no file: its log record holds
the same bytes. Layout, integers little-endian:

    magic      8 bytes  "rowlkblk"
    version    u32      1, or 2 if there are lines
    parts      u32      count
    for each part: family number u32, in version 2 form u32, length u64, then an Arrow IPC stream of that length

Form 0, and each part of version 1, is a family's cells: FAMILY_CELLS_SCHEMA. Form 1 is a family's lines: one record
batch, `FamilyLines.record_batch`. A family has at most one part of each form.

A file that no live log record names is deleted at start.
"""

from __future__ import annotations

import contextlib
import re
import struct
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path

import google_crc32c
import pyarrow as pa

from rowlock_regionserver.arrow.stream_pieces import JoinedPieces
from rowlock_regionserver.config import KIB
from rowlock_regionserver.durable_files import new_file
from rowlock_regionserver.errors import CorruptionError
from rowlock_regionserver.files import Files
from rowlock_regionserver.region.bulk.arranged import FamilyPart, FamilyParts
from rowlock_regionserver.region.bulk.family_lines import FamilyLines
from rowlock_regionserver.unneeded_files import remove_unneeded
from rowlock_regionserver.wal.mutation import BulkRecord

MAGIC = b"rowlkblk"
# Without lines, and with them.
VERSION_CELLS, VERSION_LINES = 1, 2
_HEAD = struct.Struct("<8sII")
_NAME = re.compile(r"(\d{16})\.bulk")
_PART_1 = struct.Struct("<IQ")
_PART_2 = struct.Struct("<IIQ")
_FORM_CELLS, _FORM_LINES = 0, 1
# Buffers of this size are written from where they are. To copy a buffer of some MiB took several milliseconds, mostly
# for fresh memory; smaller ones are joined, because each piece is a write.
_UNCOPIED_BYTES_MIN = 64 * KIB


@dataclass(frozen=True, slots=True)
class WrittenBulkFile:
    """A bulk file's number, length and checksum, by which recovery verifies it."""

    number: int
    byte_count: int
    checksum: int


def bulk_file_path(folder: Path, number: int) -> Path:
    """Returns the path of the bulk file with this number."""
    return folder / f"{number:016d}.bulk"


def remove_bulk_files(files: Files, folder: Path, numbers: Iterable[int]) -> None:
    """Removes bulk files that nothing names any more."""
    remove_unneeded(files, [bulk_file_path(folder, number) for number in numbers])


def bulk_file_number(name: str) -> int | None:
    """Returns the number of the bulk file with this name; None if no bulk file has such a name."""
    match = _NAME.fullmatch(name)
    return None if match is None else int(match[1])


def encode_parts(parts: FamilyParts) -> list[pa.Buffer | bytes]:
    """Encodes a batch in this layout. Returns the bytes in pieces; large columns are not copied."""
    streams: list[tuple[int, int, list[pa.Buffer | bytes]]] = []
    for family_number, part in sorted(parts.items()):
        if part.lines is not None:
            streams.append((family_number, _FORM_LINES, _stream([part.lines.record_batch()])))
        if part.cells is not None:
            streams.append((family_number, _FORM_CELLS, _stream(part.cells.to_batches())))
    version = VERSION_LINES if any(part.lines is not None for part in parts.values()) else VERSION_CELLS
    pieces: list[pa.Buffer | bytes] = [_HEAD.pack(MAGIC, version, len(streams))]
    for family_number, form, stream in streams:
        byte_count = sum([len(piece) for piece in stream])
        if version == VERSION_CELLS:
            pieces.append(_PART_1.pack(family_number, byte_count))
        else:
            pieces.append(_PART_2.pack(family_number, form, byte_count))
        pieces += stream
    return pieces


def _stream(batches: Sequence[pa.RecordBatch]) -> list[pa.Buffer | bytes]:
    # Arrow calls a sink in Python for each buffer, and waits for the interpreter each time.
    is_copied = sum([batch.nbytes for batch in batches]) < _UNCOPIED_BYTES_MIN * batches[0].num_columns
    pieces = JoinedPieces(_UNCOPIED_BYTES_MIN)
    sink = pa.BufferOutputStream() if is_copied else pa.PythonFile(pieces, mode="w")
    with pa.ipc.new_stream(sink, batches[0].schema) as writer:
        for batch in batches:
            writer.write_batch(batch)
    return [sink.getvalue()] if isinstance(sink, pa.BufferOutputStream) else pieces.finish()


def decode_parts(data: bytes, path: Path | str = "the log") -> dict[int, FamilyPart]:
    """Decodes a batch from bytes whose checksum was verified. Raises CorruptionError for another version."""
    magic, version, count = _HEAD.unpack_from(data)
    if magic != MAGIC or version not in (VERSION_CELLS, VERSION_LINES):
        expected = f"a bulk batch of version {VERSION_CELLS} or {VERSION_LINES}"
        raise CorruptionError(path, 0, expected, f"{magic!r}, version {version}; use the rowlock version that wrote it")
    position = _HEAD.size
    parts: dict[int, FamilyPart] = {}
    for _ in range(count):
        if version == VERSION_CELLS:
            family_number, length = _PART_1.unpack_from(data, position)
            form, position = _FORM_CELLS, position + _PART_1.size
        else:
            family_number, form, length = _PART_2.unpack_from(data, position)
            position += _PART_2.size
        table = pa.ipc.open_stream(pa.py_buffer(data).slice(position, length)).read_all()
        position += length
        part = parts.get(family_number, FamilyPart())
        if form == _FORM_LINES:
            part = replace(part, lines=FamilyLines.of(table.to_batches()[0]))
        else:
            part = replace(part, cells=table)
        parts[family_number] = part
    return parts


def read_staged_file(files: Files, folder: Path, record: BulkRecord) -> dict[int, FamilyPart]:
    """Returns the parts of the bulk file that a record names; see `read_bulk_file`."""
    written = WrittenBulkFile(record.file_number, record.file_bytes, record.file_checksum)
    return read_bulk_file(files, folder, written)


def write_bulk_file(
    files: Files,
    folder: Path,
    number: int,
    parts: FamilyParts,
    syncing: Callable[[], AbstractContextManager[None]] = contextlib.nullcontext,
) -> WrittenBulkFile:
    """Writes the batch; file and name are durable when it returns.

    `syncing` is entered around each wait for the disk. Raises DiskFullError, TooManyOpenFilesError, OutOfMemoryError
    and OSError; then no file remains.
    """
    pieces = encode_parts(parts)
    with new_file(files, bulk_file_path(folder, number), syncing) as file, syncing():
        for piece in pieces:
            file.append(piece)
    return WrittenBulkFile(number, file.byte_count, file.checksum)


def read_bulk_file(files: Files, folder: Path, written: WrittenBulkFile) -> dict[int, FamilyPart]:
    """Returns the batch's parts by family number. Raises CorruptionError if the file does not match its log record."""
    path = bulk_file_path(folder, written.number)
    try:
        data = files.read(path)
    except FileNotFoundError:
        raise CorruptionError.missing(path, f"a bulk file of {written.byte_count} bytes", "no file") from None
    if len(data) != written.byte_count:
        raise CorruptionError(path, len(data), f"{written.byte_count} bytes", f"{len(data)} bytes")
    checksum = google_crc32c.value(data)
    if checksum != written.checksum:
        raise CorruptionError(path, 0, f"CRC32C {written.checksum:08x}", f"{checksum:08x}")
    return decode_parts(data, path)
