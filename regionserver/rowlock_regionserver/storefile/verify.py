"""Verifies a whole store file, in which every byte is covered by a checksum.

Unlike a reader it also checks LMDB's own pages, which no read needs, compares the index with the blocks, and recomputes
the properties of the cells.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from rowlock_regionserver.arrow.columns import Column
from rowlock_regionserver.errors import CorruptionError
from rowlock_regionserver.files import Files
from rowlock_regionserver.row_groups import RowGroups
from rowlock_regionserver.sources import EVERY_LINE
from rowlock_regionserver.storefile.block import decoded
from rowlock_regionserver.storefile.cell_properties import CellProperties, OutOfOrderError, merged_counts
from rowlock_regionserver.storefile.common_rows import common_count
from rowlock_regionserver.storefile.extents import Extent, container_checksum, read_payload
from rowlock_regionserver.storefile.index import BlockIndex
from rowlock_regionserver.storefile.info import StoreFileInfo
from rowlock_regionserver.storefile.reader import metadata_extent, read_metadata
from rowlock_regionserver.storefile.row_digests import RowDigests
from rowlock_regionserver.storefile.wide_chunks import WideChunks
from rowlock_regionserver.storefile.wide_index import WideIndex, facts_of
from rowlock_regionserver.storefile.wide_lines import decoded_lines


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
        contents = read_metadata(path, info, files, descriptor)
    except CorruptionError as damage:
        return [damage]
    blocks = _Blocks(path, files, descriptor)
    # Rows of one run that the other has too are counted once.
    groups = contents.row_groups
    shared = common_count(blocks.rows_of_lines(contents.wide_index, groups), blocks.rows_of_cells(contents.index))
    damages = blocks.damages
    if not damages and (found := blocks.counted(shared)) != {name: getattr(info, name) for name in found}:
        damages.append(CorruptionError(path, info.metadata_offset, f"{info}", f"{found}"))
    if not damages and groups and not blocks.has_groups(groups):
        damages.append(CorruptionError(path, info.metadata_offset, "digests of the row groups", "others"))
    try:
        _verify_container(path, info, files, descriptor, [*contents.extents(), metadata_extent(info)])
    except CorruptionError as damage:
        damages.append(damage)
    return damages


class _Blocks:
    """Verifies the blocks of both runs, and collects the damage and the properties of the cells."""

    def __init__(self, path: Path, files: Files, descriptor: int) -> None:
        self._place = files, descriptor, path
        self._path = path
        self._cells = CellProperties(hash_rows=False)
        self._lines = CellProperties(hash_rows=False)
        self._row_digests = RowDigests()
        self.damages: list[CorruptionError] = []

    def counted(self, shared_row_count: int) -> dict[str, int]:
        """Returns the properties of all cells by their names in StoreFileInfo."""
        return merged_counts(self._cells, self._lines, shared_row_count)

    def has_groups(self, groups: RowGroups) -> bool:
        """Returns whether the rows of all lines have these groups."""
        found = self._row_digests.finish()
        return (found.digests, found.complete_columns) == (groups.digests, groups.complete_columns)

    def rows_of_cells(self, index: BlockIndex) -> Iterator[Column]:
        """Verifies the cell blocks, and yields their rows, in which neighbours may be equal."""
        for number in range(len(index)):
            extent = index.extent(number)
            with self._collected():
                payload = read_payload(*self._place, extent)
                batch = decoded(payload, extent.header.cell_count, self._path, extent.offset)
                self._check(index, number, batch.column(0))
                with self._in_order(extent):
                    self._cells.add(batch)
                yield batch.column(0)

    def rows_of_lines(self, index: WideIndex, groups: RowGroups) -> Iterator[Column]:
        """Verifies the wide blocks with all their chunks, and yields their rows."""
        for number in range(len(index)):
            extent = index.extent(number)
            with self._collected():
                chunks = WideChunks.of_extent(extent, read_payload(*self._place, extent), self._path)
                lines = decoded_lines(chunks.directory, chunks.raw, EVERY_LINE)
                self._check(index, number, lines.rows)
                found, expected = facts_of(lines), index.facts(number)
                if found != expected:
                    raise CorruptionError(self._path, extent.offset, f"{expected}", f"{found}")
                with self._in_order(extent):
                    self._lines.add_lines(lines)
                self._row_digests.add_like(lines, groups)
                yield lines.rows

    def _check(self, index: BlockIndex, number: int, rows: Column) -> None:
        found = (rows[0].as_py(), rows[-1].as_py())
        expected = (index.first_rows[number], index.last_rows[number])
        if found != expected:
            expected_text = f"rows from {expected[0]!r} to {expected[1]!r}"
            raise CorruptionError(self._path, index.offsets[number], expected_text, f"{found}")

    @contextlib.contextmanager
    def _collected(self) -> Iterator[None]:
        try:
            yield
        except CorruptionError as damage:
            self.damages.append(damage)

    @contextlib.contextmanager
    def _in_order(self, extent: Extent) -> Iterator[None]:
        try:
            yield
        except OutOfOrderError as error:
            raise CorruptionError(self._path, extent.offset, "cells in order", f"{error}") from error


def _verify_container(path: Path, info: StoreFileInfo, files: Files, descriptor: int, extents: list[Extent]) -> None:
    checksum = container_checksum(files, descriptor, path, extents, info.file_bytes)
    if checksum != info.container_checksum:
        raise CorruptionError(
            path, 0, f"a checksum of LMDB's pages of {info.container_checksum:#010x}", f"{checksum:#010x}"
        )
