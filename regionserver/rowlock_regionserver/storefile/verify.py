"""Verifies a whole store file, in which every byte is covered by a checksum.

Unlike a reader it also checks LMDB's own pages, which no read needs, compares the index with the blocks, and recomputes
the properties of the cells.
"""

from __future__ import annotations

import os
from pathlib import Path

from rowlock_regionserver.errors import CorruptionError
from rowlock_regionserver.files import Files
from rowlock_regionserver.storefile.block import decoded
from rowlock_regionserver.storefile.cell_properties import CellProperties, OutOfOrderError
from rowlock_regionserver.storefile.extents import Extent, container_checksum, read_payload
from rowlock_regionserver.storefile.index import BlockIndex
from rowlock_regionserver.storefile.info import StoreFileInfo
from rowlock_regionserver.storefile.reader import metadata_extent, read_metadata


def verify_store_file(path: Path, info: StoreFileInfo, files: Files) -> list[CorruptionError]:
    """Returns the damage in the file that `info` describes, in file order as far as known; empty when it is intact.

    Reads the whole file; blocks on the disk. If the metadata is damaged, the blocks can't be found, and only the
    metadata is reported.
    """
    try:
        descriptor = files.open(path, os.O_RDONLY)
    except OSError as error:
        return [CorruptionError(path, 0, "a readable file", f"{error}")]
    try:
        return _verify(path, info, files, descriptor)
    finally:
        files.close(descriptor)


def _verify(path: Path, info: StoreFileInfo, files: Files, descriptor: int) -> list[CorruptionError]:
    try:
        index = read_metadata(path, info, files, descriptor).index
    except CorruptionError as damage:
        return [damage]
    damages = []
    properties = CellProperties(hash_rows=False)
    for number in range(len(index)):
        try:
            _verify_block(path, files, descriptor, index, number, properties)
        except CorruptionError as damage:
            damages.append(damage)
    if not damages and properties.counted() != {name: getattr(info, name) for name in properties.counted()}:
        damages.append(CorruptionError(path, info.metadata_offset, f"{info}", f"{properties.counted()}"))
    try:
        _verify_container(path, info, files, descriptor, [*index.extents(), metadata_extent(info)])
    except CorruptionError as damage:
        damages.append(damage)
    return damages


def _verify_block(
    path: Path, files: Files, descriptor: int, index: BlockIndex, number: int, properties: CellProperties
) -> None:
    extent = index.extent(number)
    payload = read_payload(files, descriptor, path, extent)
    batch = decoded(payload, extent.header.cell_count, path, extent.offset)
    rows = batch.column(0)
    found = (rows[0].as_py(), rows[-1].as_py())
    expected = (index.first_rows[number], index.last_rows[number])
    if found != expected:
        raise CorruptionError(path, extent.offset, f"rows from {expected[0]!r} to {expected[1]!r}", f"{found}")
    try:
        properties.add(batch)
    except OutOfOrderError as error:
        raise CorruptionError(path, extent.offset, "cells in order", f"{error}") from error


def _verify_container(path: Path, info: StoreFileInfo, files: Files, descriptor: int, extents: list[Extent]) -> None:
    checksum = container_checksum(files, descriptor, path, extents, info.file_bytes)
    if checksum != info.container_checksum:
        raise CorruptionError(
            path, 0, f"a checksum of LMDB's pages of {info.container_checksum:#010x}", f"{checksum:#010x}"
        )
