"""Bulk files: a large bulk batch on disk, before the log names it.

A bulk file is written and synced before its log record exists; the record holds its length and CRC32C. Only recovery
reads it, and it is removed when the cells are in store files. For a small batch there is no file: its log record holds
the same bytes. Layout, integers little-endian:

    magic      8 bytes  "rowlkblk"
    version    u32      1
    families   u32      count
    for each family: family number u32, length u64, then an Arrow IPC stream of FAMILY_CELLS_SCHEMA of that length

A file that no live log record names is deleted at start.
"""

from __future__ import annotations

import contextlib
import re
import struct
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

import google_crc32c
import pyarrow as pa

from rowlock_regionserver.durable_files import new_file
from rowlock_regionserver.errors import CorruptionError
from rowlock_regionserver.files import Files

MAGIC = b"rowlkblk"
VERSION = 1
_HEAD = struct.Struct("<8sII")
_NAME = re.compile(r"(\d{16})\.bulk")
_FAMILY = struct.Struct("<IQ")


@dataclass(frozen=True, slots=True)
class WrittenBulkFile:
    """A bulk file's number, length and checksum, by which recovery verifies it."""

    number: int
    byte_count: int
    checksum: int


def bulk_file_path(folder: Path, number: int) -> Path:
    """Returns the path of the bulk file with this number."""
    return folder / f"{number:016d}.bulk"


def bulk_file_number(name: str) -> int | None:
    """Returns the number of the bulk file with this name; None if no bulk file has such a name."""
    match = _NAME.fullmatch(name)
    return None if match is None else int(match[1])


def encode_tables(tables: Mapping[int, pa.Table]) -> list[pa.Buffer | bytes]:
    """Encodes the tables in this layout. Returns the bytes in parts, so that the cells are copied only once."""
    parts: list[pa.Buffer | bytes] = [_HEAD.pack(MAGIC, VERSION, len(tables))]
    for family_number, table in sorted(tables.items()):
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table)
        stream = sink.getvalue()
        parts.append(_FAMILY.pack(family_number, stream.size))
        parts.append(stream)
    return parts


def decode_tables(data: bytes) -> dict[int, pa.Table]:
    """Decodes the tables by family number from bytes whose checksum was verified."""
    _, _, count = _HEAD.unpack_from(data)
    position = _HEAD.size
    tables: dict[int, pa.Table] = {}
    for _ in range(count):
        family_number, length = _FAMILY.unpack_from(data, position)
        position += _FAMILY.size
        with pa.ipc.open_stream(pa.py_buffer(data).slice(position, length)) as reader:
            tables[family_number] = reader.read_all()
        position += length
    return tables


def write_bulk_file(
    files: Files,
    folder: Path,
    number: int,
    tables: Mapping[int, pa.Table],
    syncing: Callable[[], AbstractContextManager[None]] = contextlib.nullcontext,
) -> WrittenBulkFile:
    """Writes the tables, FAMILY_CELLS_SCHEMA by family number; file and name are durable when it returns.

    `syncing` is entered around each wait for the disk. Raises DiskFullError, TooManyOpenFilesError and OSError; then no
    file remains.
    """
    with new_file(files, bulk_file_path(folder, number), syncing) as file:
        for part in encode_tables(tables):
            file.append(part)
    return WrittenBulkFile(number, file.byte_count, file.checksum)


def read_bulk_file(files: Files, folder: Path, written: WrittenBulkFile) -> dict[int, pa.Table]:
    """Returns the tables by family number. Raises CorruptionError if the file does not match its log record."""
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
    return decode_tables(data)
