"""Verifies a whole store file, in which every byte is covered by a checksum.

Unlike a reader it also checks LMDB's own pages, which no read needs, compares the index with the blocks, and recomputes
the properties of the cells.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from rowlock_proto.shown_names import row_text

from rowlock_regionserver.arrow.columns import Column
from rowlock_regionserver.arrow.lines import Lines
from rowlock_regionserver.errors import CorruptionError
from rowlock_regionserver.files import Files
from rowlock_regionserver.row_groups import RowGroups
from rowlock_regionserver.sources import EVERY_LINE, LinesWanted
from rowlock_regionserver.storefile.block import decoded
from rowlock_regionserver.storefile.cell_properties import CellProperties, OutOfOrderError, merged_counts
from rowlock_regionserver.storefile.common_rows import common_count
from rowlock_regionserver.storefile.extents import Extent, container_checksum, read_payload
from rowlock_regionserver.storefile.index import BlockIndex
from rowlock_regionserver.storefile.info import StoreFileInfo
from rowlock_regionserver.storefile.reader import metadata_extent, read_metadata
from rowlock_regionserver.storefile.row_digests import RowDigests
from rowlock_regionserver.storefile.wide_chunks import WideChunks
from rowlock_regionserver.storefile.wide_index import OlderIndex, WideIndex, facts_of
from rowlock_regionserver.storefile.wide_lines import decoded_lines

_ROWS = LinesWanted(frozenset())


def verify_store_file(path: Path, info: StoreFileInfo, files: Files) -> list[CorruptionError]:
    """Returns the damage in the file that `info` describes, in file order as far as known; empty when it is intact.

    Reads the whole file; blocks on the disk. If the metadata is damaged, the blocks can't be found, and only the
    metadata is reported.
    """
    try:
        descriptor = files.open(path, os.O_RDONLY)
    except OSError as error:
        return [CorruptionError.of(error, path)]
    try:
        return _verify(path, info, files, descriptor)
    finally:
        files.close(descriptor)


def _verify(path: Path, info: StoreFileInfo, files: Files, descriptor: int) -> list[CorruptionError]:
    info = info.as_written()
    try:
        contents = read_metadata(path, info, files, descriptor)
    except CorruptionError as damage:
        return [damage]
    blocks = _Blocks(path, files, descriptor)
    # Rows of one run that the other has too are counted once.
    groups = contents.row_groups
    shared = common_count(blocks.rows_of_wide_blocks(contents.wide_index, groups), blocks.rows_of_cells(contents.index))
    newer_count = 0
    if len(contents.older_index):
        newer_count = common_count(
            blocks.rows_of_older_blocks(contents.older_index), blocks.rows_again(contents.wide_index)
        )
    damages = blocks.damages
    if not damages and newer_count < blocks.older_lines.row_count:
        rows = f"{blocks.older_lines.row_count} rows of older lines in wide blocks"
        damages.append(CorruptionError(path, info.metadata_offset, rows, f"{newer_count}"))
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
    """Verifies the blocks of all runs, and collects the damage and the properties of the cells."""

    def __init__(self, path: Path, files: Files, descriptor: int) -> None:
        self._place = files, descriptor, path
        self._path = path
        self._cells = CellProperties(hash_rows=False)
        self._lines = CellProperties(hash_rows=False)
        self.older_lines = CellProperties(hash_rows=False)
        self._row_digests = RowDigests()
        self.damages: list[CorruptionError] = []

    def counted(self, shared_row_count: int) -> dict[str, int]:
        """Returns the properties of all cells by their names in StoreFileInfo."""
        # All rows of older lines are in wide blocks too.
        older = self.older_lines
        found = merged_counts((self._cells, self._lines, older), shared_row_count + older.row_count)
        return {**found, "has_versions": found["has_versions"] or older.cell_count > 0}

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

    def rows_of_wide_blocks(self, index: WideIndex, groups: RowGroups) -> Iterator[Column]:
        """Verifies the wide blocks, and yields their rows."""
        for lines in self._checked_lines(index, self._lines):
            self._row_digests.add_like(lines, groups)
            yield lines.rows

    def rows_of_older_blocks(self, index: OlderIndex) -> Iterator[Column]:
        """Verifies the blocks of older lines, and yields their rows."""
        for lines in self._checked_lines(index, self.older_lines):
            yield lines.rows

    def rows_again(self, index: WideIndex) -> Iterator[Column]:
        """Yields the rows of wide blocks without verifying them."""
        for number in range(len(index)):
            extent = index.extent(number)
            # Damage was found before.
            with contextlib.suppress(CorruptionError):
                chunks = WideChunks.of_extent(extent, read_payload(*self._place, extent), self._path)
                yield decoded_lines(chunks.directory, chunks.raw, _ROWS).rows

    def _checked_lines(self, index: WideIndex, properties: CellProperties) -> Iterator[Lines]:
        """Verifies blocks with all their chunks, and yields their lines, which it adds to the properties."""
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
                    properties.add_lines(lines)
                yield lines

    def _check(self, index: BlockIndex, number: int, rows: Column) -> None:
        found = (rows[0].as_py(), rows[-1].as_py())
        expected = (index.first_rows[number], index.last_rows[number])
        if found != expected:
            expected_text, found_text = (
                f"rows from {row_text(first)} to {row_text(last)}" for first, last in (expected, found)
            )
            raise CorruptionError(self._path, index.offsets[number], expected_text, found_text)

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
