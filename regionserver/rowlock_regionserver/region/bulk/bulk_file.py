"""Bulk files: a large bulk batch on disk, before the log names it.

A bulk file is written and synced before its log record exists; the record holds its length and CRC32C. It is read only
by recovery, and goes when the cells are in store files. A small batch is worth no file: the same bytes stand in its log
record. Layout, integers little-endian:

    magic      8 bytes  "rowlkblk"
    version    u32      1
    families   u32      count
    for each family: family number u32, length u64, then an Arrow IPC stream of BULK_SCHEMA of that length

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
    """What proves a bulk file."""

    number: int
    byte_count: int
    checksum: int


def bulk_file_path(folder: Path, number: int) -> Path:
    """Where the bulk file of this number lies."""
    return folder / f"{number:016d}.bulk"


def bulk_file_number(name: str) -> int | None:
    """The number of the bulk file of this name; None when it is none."""
    match = _NAME.fullmatch(name)
    return None if match is None else int(match[1])


def encode_tables(tables: Mapping[int, pa.Table]) -> list[pa.Buffer | bytes]:
    """The layout's bytes, in parts: the cells are not copied twice."""
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
    """The tables by family number, of bytes that a checksum has proved."""
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
    """Writes the tables, BULK_SCHEMA by family number; file and name are durable when it returns.

    `syncing` is entered around each wait for the disk. Raises DiskFullError, TooManyOpenFilesError and OSError; then
    nothing is left behind.
    """
    with new_file(files, bulk_file_path(folder, number), syncing) as file:
        for part in encode_tables(tables):
            file.append(part)
    return WrittenBulkFile(number, file.byte_count, file.checksum)


def read_bulk_file(files: Files, folder: Path, written: WrittenBulkFile) -> dict[int, pa.Table]:
    """The tables by family number. CorruptionError when the file is not what the log says."""
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
