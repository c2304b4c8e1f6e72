"""Writes sorted cells as a store file, one immutable file, and returns its StoreFileInfo.

1. Blocks are cut, sealed and put into an LMDB file under a temporary name, unsynced.
2. LMDB gives the offset of each block for the block index, and the metadata is added.
3. LMDB is closed. Every value is read back at its offset and verified, because readers will read there without LMDB.
4. The file is synced, renamed, and its folder synced (durable_files.py). Only then may a manifest name it.

A crash leaves at most a file that no manifest names. A failure leaves nothing.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow as pa

from rowlock_regionserver.cells import CELL_SCHEMA, Compression, Family
from rowlock_regionserver.durable_files import durably_named
from rowlock_regionserver.files import Files
from rowlock_regionserver.process import yield_now
from rowlock_regionserver.storefile import format as layout
from rowlock_regionserver.storefile import metadata
from rowlock_regionserver.storefile.block import encoded
from rowlock_regionserver.storefile.cell_properties import CellProperties
from rowlock_regionserver.storefile.container import MAP_BYTES, Container
from rowlock_regionserver.storefile.cutter import Cutter
from rowlock_regionserver.storefile.extents import Extent, container_checksum, read_payload
from rowlock_regionserver.storefile.index import BlockIndex
from rowlock_regionserver.storefile.info import StoreFileInfo

# Blocks that are read back before the thread yields to others: 0.3 ms.
_READ_IN_ONE_STRETCH = 4


def write_store_file(
    path: Path,
    tables: Iterable[pa.Table],
    family: Family,
    files: Files,
    *,
    number: int,
    map_bytes: int = MAP_BYTES,
) -> StoreFileInfo:
    """Writes the cells of `tables` (CELL_SCHEMA, in store order over all tables) as a durable file; blocks on the disk.

    No cells make a valid file without blocks. `number` is the store file's number, stored in its info; `map_bytes` is
    the initial size of LMDB's map, which grows. Memory: one table, some 16 MiB of blocks on their way to the disk, and
    8 bytes a row. Raises DiskFullError or another OSError, after which nothing is left behind and a retry is safe, and
    OutOfOrderError when the cells are not in order.
    """
    with durably_named(files, path) as temporary:
        info, extents = _write_unsynced(temporary, tables, family, files, number, map_bytes)
        return _read_back_and_sync(temporary, files, info, extents)


def _write_unsynced(
    path: Path, tables: Iterable[pa.Table], family: Family, files: Files, number: int, map_bytes: int
) -> tuple[StoreFileInfo, list[Extent]]:
    """Writes the file; returns its info, still without places, and the extents of all values, the metadata last."""
    properties = CellProperties(hash_rows=family.bloom_filter)
    with Container(path, files, map_bytes) as container:
        blocks = _Blocks(container, family.compression)
        for batch in _cut(tables, Cutter(family.block_bytes), properties):
            blocks.write(batch)
        container.commit_blocks()
        index = blocks.index(container.block_offsets())
        info = _info(properties, number, len(index))
        value = layout.sealed(
            layout.METADATA_MAGIC,
            number,
            properties.cell_count,
            metadata.encode(metadata.Metadata(info.summary(), properties.bloom_words(), index)),
            value_bytes_min=container.page_bytes + 1,
        )
        container.put_metadata(value)
        place = container.metadata_offset()
    return info, [*index.extents(), Extent(place, layout.unpack_header(value, path, place))]


def _cut(tables: Iterable[pa.Table], cutter: Cutter, properties: CellProperties) -> Iterator[pa.RecordBatch]:
    for table in tables:
        assert table.schema.equals(CELL_SCHEMA), f"a store file holds cells, not {table.schema}"
        for batch in table.combine_chunks().to_batches():
            if batch.num_rows:
                yield from cutter.add(batch, properties.add(batch))
    yield from cutter.finish()


class _Blocks:
    """Seals blocks, passes them to the container, and collects the index."""

    def __init__(self, container: Container, compression: Compression) -> None:
        self._container = container
        self._compression = compression
        self._index = BlockIndex([], [], [], [], [], [])

    def write(self, batch: pa.RecordBatch) -> None:
        number = len(self._index.first_rows)
        first, last = 0, batch.num_rows - 1
        row, qualifier, timestamp, write_number = (batch.column(place)[first].as_py() for place in range(4))
        value = layout.sealed(
            layout.BLOCK_MAGIC,
            number,
            batch.num_rows,
            encoded(batch, self._compression),
            value_bytes_min=self._container.page_bytes + 1,
        )
        self._container.put_block(layout.block_key(row, qualifier, timestamp, write_number, number), value)
        self._index.payload_bytes.append(len(value) - layout.HEADER_BYTES)
        self._index.cell_counts.append(batch.num_rows)
        self._index.checksums.append(layout.unpack_header(value, Path(), 0).checksum)
        self._index.first_rows.append(row)
        self._index.last_rows.append(batch.column(0)[last].as_py())

    def index(self, offsets: list[int]) -> BlockIndex:
        """Returns the finished index, with the offsets at which LMDB put the blocks."""
        assert len(offsets) == len(self._index.first_rows), f"{len(offsets)} of {len(self._index.first_rows)} blocks"
        return replace(self._index, offsets=offsets)


def _info(properties: CellProperties, number: int, block_count: int) -> StoreFileInfo:
    return StoreFileInfo(
        number=number,
        cell_count=properties.cell_count,
        row_count=properties.row_count,
        block_count=block_count,
        write_number_min=properties.write_number_min,
        write_number_max=properties.write_number_max,
        timestamp_min=properties.timestamp_min,
        timestamp_max=properties.timestamp_max,
        delete_version_count=properties.delete_version_count,
        delete_column_count=properties.delete_column_count,
        delete_family_count=properties.delete_family_count,
        has_versions=properties.has_versions,
        file_bytes=0,
        metadata_offset=0,
        metadata_bytes=0,
        metadata_checksum=0,
        container_checksum=0,
    )


def _read_back_and_sync(path: Path, files: Files, info: StoreFileInfo, extents: list[Extent]) -> StoreFileInfo:
    """Checks and syncs the finished file; returns `info` with the places."""
    descriptor = files.open(path, os.O_RDONLY)
    try:
        file_bytes = files.identity(descriptor).byte_count
        for count, extent in enumerate(extents):
            read_payload(files, descriptor, path, extent)
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
