"""Reads the intact blocks of a damaged store file.

It needs no manifest: sealed values are found by their magic bytes. If the metadata is intact, its index gives the place
and checksum of every block, so that even a block with a damaged header is saved. Otherwise the blocks with an intact
header and payload are saved. Of a wide block the columns are saved whose chunks are intact.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa

from rowlock_regionserver.arrow.lines import cells_of
from rowlock_regionserver.cells import CELL_SCHEMA
from rowlock_regionserver.errors import CorruptionError, DataFolderError
from rowlock_regionserver.files import Files
from rowlock_regionserver.sources import LinesWanted
from rowlock_regionserver.storefile import format as layout
from rowlock_regionserver.storefile import metadata
from rowlock_regionserver.storefile.block import decoded
from rowlock_regionserver.storefile.extents import Extent, read_exactly, read_payload
from rowlock_regionserver.storefile.info import StoreFileInfo
from rowlock_regionserver.storefile.wide_chunks import WideChunks
from rowlock_regionserver.storefile.wide_lines import decoded_lines

# LMDB's page size is a multiple of this, and a value begins within this many bytes of a page's start.
_PAGE_BYTES = 4096
_PAGE_HEADER_BYTES_MAX = 64


def salvage(path: Path, files: Files, info: StoreFileInfo | None = None) -> Iterator[pa.Table | CorruptionError]:
    """Yields the cells of each intact block, and a CorruptionError for each damaged block or column of a wide one.

    `info`: the manifest's entry for the file, if there is one. Intact metadata that does not agree with it shows that
    another store file is in this file's place. Its cells are of another family, region or time: none is yielded.

    The cells of the cell blocks come first, then older lines, then those of the wide blocks, each in store order.

    Blocks cut off the end of a file are reported only if the metadata, which is written last, is intact. Blocks on the
    disk. Raises OSError when the file can't be opened.
    """
    descriptor = files.open(path, os.O_RDONLY)
    try:
        found = list(_sealed_values(path, files, descriptor))
        intact = _intact_metadata(path, files, descriptor, found)
        if intact is None:
            yield CorruptionError(path, 0, "metadata", "none that is intact")
            index = [extent for extent in found if extent.header.magic != layout.METADATA_MAGIC]
        elif info is not None and not info.as_written().agrees_with(intact.summary):
            yield CorruptionError(path, 0, f"store file {info.header_number}", "another store file")
            return
        else:
            index = intact.extents()
        for extent in sorted(index, key=lambda extent: (extent.header.magic, extent.header.number)):
            is_wide = extent.header.magic in layout.LINES_MAGICS
            try:
                payload = _payload(path, files, descriptor, extent)
                if is_wide:
                    yield from _columns(path, extent, payload)
                else:
                    yield _cells(path, extent, payload)
            except CorruptionError as damage:
                yield damage
    finally:
        files.close(descriptor)


def _intact_metadata(path: Path, files: Files, descriptor: int, found: list[Extent]) -> metadata.Metadata | None:
    for extent in found:
        if extent.header.magic == layout.METADATA_MAGIC:
            try:
                payload = read_payload(files, descriptor, path, extent)
                return metadata.decode(payload.to_pybytes(), path, extent.offset)
            except CorruptionError:
                continue
    return None


def _payload(path: Path, files: Files, descriptor: int, extent: Extent) -> pa.Buffer:
    # The header on disk is not read: the index says what it must be.
    value = read_exactly(files, descriptor, path, extent.stop - extent.offset, extent.offset)
    payload = value.slice(layout.HEADER_BYTES)
    layout.check_payload(payload, extent.header, path, extent.offset)
    return payload


def _cells(path: Path, extent: Extent, payload: pa.Buffer) -> pa.Table:
    batch = decoded(payload, extent.header.cell_count, path, extent.offset)
    return pa.Table.from_batches([batch], CELL_SCHEMA)


def _columns(path: Path, extent: Extent, payload: pa.Buffer) -> Iterator[pa.Table | CorruptionError]:
    """Yields the cells of the intact columns of a wide block, and the damage of the others."""
    chunks = WideChunks.of_extent(extent, payload, path)
    directory = chunks.directory
    intact = set()
    for qualifier, column in zip(directory.form.qualifiers, directory.form.columns, strict=True):
        try:
            for number in column.numbers():
                chunks.raw(number)
        except CorruptionError as damage:
            yield damage
        else:
            intact.add(qualifier)
    yield cells_of(decoded_lines(directory, chunks.raw, LinesWanted(frozenset(intact))))


def _sealed_values(path: Path, files: Files, descriptor: int) -> Iterator[Extent]:
    """Yields every value with an intact header that fits into the file, by offset, skipping those inside another."""
    file_bytes = files.size(path)
    place = 0
    while place < file_bytes:
        extent = _sealed_value(path, files, descriptor, place, file_bytes)
        if extent is None:
            place += _PAGE_BYTES
        else:
            yield extent
            place = -(-extent.stop // _PAGE_BYTES) * _PAGE_BYTES


def _sealed_value(path: Path, files: Files, descriptor: int, page: int, file_bytes: int) -> Extent | None:
    try:
        head = files.pread(descriptor, _PAGE_HEADER_BYTES_MAX + layout.HEADER_BYTES, page)
    except OSError:
        return None
    for magic in (layout.BLOCK_MAGIC, *layout.LINES_MAGICS, layout.METADATA_MAGIC):
        start = head.find(magic)
        if start >= 0:
            try:
                header = layout.unpack_header(head[start : start + layout.HEADER_BYTES], path, page + start)
            except (CorruptionError, DataFolderError):
                return None
            extent = Extent(page + start, header)
            return extent if extent.stop <= file_bytes else None
    return None
