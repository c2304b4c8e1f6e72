"""Writes sorted cells as a store file, one immutable file, and returns its StoreFileInfo.

1. Pieces are divided into lines and cells (pieces.py). Blocks of both are cut, sealed and put into an LMDB file under a
   temporary name (block_writer.py), which is synced as it grows (container.py).
2. LMDB gives the offset of each block for the block indexes, and the metadata is added.
3. LMDB is closed. Every value is read back at its offset and verified, because readers will read there without LMDB.
4. The rest of the file is synced, the file renamed, and its folder synced (durable_files.py). Only then may a manifest
   name it.

A crash leaves at most a file that no manifest names. A failure leaves nothing.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pyarrow as pa

from rowlock_regionserver.arrow.lines import Lines
from rowlock_regionserver.cells import Family
from rowlock_regionserver.durable_files import durably_named
from rowlock_regionserver.files import Files
from rowlock_regionserver.process import yield_now
from rowlock_regionserver.process_limits import lack_of_memory_refused
from rowlock_regionserver.storefile import format as layout
from rowlock_regionserver.storefile import metadata
from rowlock_regionserver.storefile.block_writer import BlockWriter, Written
from rowlock_regionserver.storefile.cell_properties import CellProperties
from rowlock_regionserver.storefile.container import MAP_BYTES, Container
from rowlock_regionserver.storefile.extents import Extent, container_checksum, read_payload
from rowlock_regionserver.storefile.info import StoreFileInfo
from rowlock_regionserver.storefile.pieces import Divided, Divider
from rowlock_regionserver.storefile.wide_chunks import WideChunks

# Blocks that are read back before the thread yields to others: 0.3 ms.
_READ_IN_ONE_STRETCH = 4


def write_store_file(
    path: Path,
    pieces: Iterable[pa.Table | Lines],
    family: Family,
    files: Files,
    *,
    number: int,
    forms_lines: bool = True,
    map_bytes: int = MAP_BYTES,
) -> StoreFileInfo:
    """Writes the cells of `pieces` as a durable file; blocks on the disk.

    A piece is a table of CELL_SCHEMA or Lines; they are in store order over all. Lines have whole rows, while a row of
    a table may continue in the next one. Where lines are denser, cells of tables become lines, unless `forms_lines` is
    False. No cells make a valid file without blocks. `number` is the store file's number, stored in its info;
    `map_bytes` is the initial size of LMDB's map, which grows. Memory: some pieces, some 16 MiB of blocks on their way
    to the disk, and 8 bytes a row. Raises DiskFullError, OutOfMemoryError or another OSError, after which nothing is
    left behind and a retry is safe, and OutOfOrderError when the cells are not in order.
    """
    with durably_named(files, path) as temporary:
        properties = CellProperties(hash_rows=family.bloom_filter)
        divided = Divider(properties, forms_lines=forms_lines).divided(pieces)
        info, extents = _write_with_lmdb(temporary, divided, properties, family, files, number, map_bytes)
        return _read_back_and_sync(temporary, files, info, extents)


def _write_with_lmdb(
    path: Path,
    pieces: Iterable[Divided],
    properties: CellProperties,
    family: Family,
    files: Files,
    number: int,
    map_bytes: int,
) -> tuple[StoreFileInfo, list[Extent]]:
    """Writes the file; returns its info, still without places, and the extents of all values, the metadata last."""
    with Container(path, files, map_bytes) as container:
        blocks = BlockWriter(container, family)
        for lines, cells in pieces:
            blocks.add(lines, cells)
        written = blocks.finish()
        info = _info(properties, number, written)
        contents = metadata.Metadata(info.summary(), properties.bloom_words(), *written)
        header, value = layout.sealed(
            layout.METADATA_MAGIC,
            number,
            properties.cell_count,
            metadata.encode(contents),
            value_bytes_min=container.page_bytes + 1,
            version=info.format_version,
        )
        container.put_metadata(value)
        place = container.metadata_offset()
    return info, [*contents.extents(), Extent(place, header)]


def _info(properties: CellProperties, number: int, written: Written) -> StoreFileInfo:
    return StoreFileInfo(
        number=number,
        cell_count=properties.cell_count,
        row_count=properties.row_count,
        block_count=len(written.cell_index),
        write_number_min=properties.write_number_min,
        write_number_max=properties.write_number_max,
        timestamp_min=properties.timestamp_min,
        timestamp_max=properties.timestamp_max,
        delete_version_count=properties.delete_version_count,
        delete_column_count=properties.delete_column_count,
        delete_family_count=properties.delete_family_count,
        # Whether an older line has a column of the newest one is not looked at.
        has_versions=properties.has_versions or bool(len(written.older_index)),
        file_bytes=0,
        metadata_offset=0,
        metadata_bytes=0,
        metadata_checksum=0,
        container_checksum=0,
        wide_block_count=len(written.wide_index),
        older_block_count=len(written.older_index),
    )


def _read_back_and_sync(path: Path, files: Files, info: StoreFileInfo, extents: list[Extent]) -> StoreFileInfo:
    """Checks and syncs the finished file; returns `info` with the places."""
    with lack_of_memory_refused(path):
        descriptor = files.open(path, os.O_RDONLY)
    try:
        with lack_of_memory_refused(path):
            file_bytes = files.identity(descriptor).byte_count
            for count, extent in enumerate(extents):
                payload = read_payload(files, descriptor, path, extent)
                if extent.header.magic in layout.LINES_MAGICS:
                    WideChunks.of_extent(extent, payload, path).check_all()
                if count % _READ_IN_ONE_STRETCH == 0:
                    yield_now()
            checksum = container_checksum(files, descriptor, path, extents, file_bytes)
        # If this fails, the file is removed, never synced again.
        files.fsync(descriptor)
    finally:
        files.close(descriptor)
    place = extents[-1]
    return replace(
        info,
        file_bytes=file_bytes,
        metadata_offset=place.offset,
        metadata_bytes=place.stop - place.offset,
        metadata_checksum=place.header.checksum,
        container_checksum=checksum,
    )
