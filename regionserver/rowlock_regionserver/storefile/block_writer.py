"""Cuts lines and cells into the blocks of a new store file, seals them, and collects the two indexes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pyarrow as pa

from rowlock_regionserver.arrow.columns import ROW, Column, equals_previous, run_starts
from rowlock_regionserver.arrow.lines import Lines
from rowlock_regionserver.cells import Family
from rowlock_regionserver.process import yield_now
from rowlock_regionserver.row_groups import RowGroups
from rowlock_regionserver.storefile import format as layout
from rowlock_regionserver.storefile.block import encoded
from rowlock_regionserver.storefile.container import Container
from rowlock_regionserver.storefile.cutter import Cutter
from rowlock_regionserver.storefile.index import BlockIndex
from rowlock_regionserver.storefile.lines_cutter import LinesCutter
from rowlock_regionserver.storefile.row_digests import RowDigests
from rowlock_regionserver.storefile.wide_encoding import EncodedBlock, encoded_lines, with_least_numbers
from rowlock_regionserver.storefile.wide_index import WideIndex, facts_of


class BlockWriter:
    """Writes the blocks of one file. Holds less than a block of each kind between calls. Not thread-safe."""

    def __init__(self, container: Container, family: Family) -> None:
        self._container = container
        self._compression = family.compression
        self._cutter = Cutter(family.block_bytes)
        self._lines_cutter = LinesCutter(family.block_bytes)
        self._index = BlockIndex.empty()
        self._wide_index = WideIndex.empty()
        self._row_digests = RowDigests()  # of the lines
        self._last_row: bytes | None = None  # of the cells

    def add(self, lines: Lines | None, cells: pa.Table | None) -> None:
        """Adds the next lines and cells, each in store order over all calls; lines are of whole rows."""
        if lines is not None:
            self._write_wide(self._lines_cutter.add(lines))
        for batch in cells.to_batches() if cells is not None else ():
            rows = batch.column(ROW)
            starts = run_starts(equals_previous(rows))
            is_continued = self._last_row is not None and rows[0].as_py() == self._last_row
            self._last_row = rows[-1].as_py()
            self._write(self._cutter.add(batch, starts[1:] if is_continued else starts))

    def finish(self) -> tuple[BlockIndex, WideIndex, RowGroups]:
        """Writes the last blocks, and returns the indexes with the offsets at which LMDB put the blocks."""
        self._write_wide(self._lines_cutter.finish())
        self._write(self._cutter.finish())
        self._container.commit_blocks()
        offsets, wide_offsets = self._container.block_offsets(), self._container.wide_block_offsets()
        for index, found in ((self._index, offsets), (self._wide_index, wide_offsets)):
            assert len(found) == len(index.first_rows), f"{len(found)} of {len(index.first_rows)} blocks"
        groups = self._row_digests.finish()
        return replace(self._index, offsets=offsets), replace(self._wide_index, offsets=wide_offsets), groups

    def _write(self, batches: Iterable[pa.RecordBatch]) -> None:
        for batch in batches:
            number = len(self._index.first_rows)
            row, qualifier, timestamp, write_number = (batch.column(place)[0].as_py() for place in range(4))
            value = layout.sealed(
                layout.BLOCK_MAGIC,
                number,
                batch.num_rows,
                encoded(batch, self._compression),
                value_bytes_min=self._container.page_bytes + 1,
            )
            self._container.put_block(layout.block_key(row, qualifier, timestamp, write_number, number), value)
            _add_entry(self._index, value, batch.column(ROW))

    def _write_wide(self, blocks: Iterable[Lines]) -> None:
        for block in blocks:
            lines = with_least_numbers(block)
            number = len(self._wide_index.first_rows)
            payload_bytes_min = self._container.page_bytes + 1 - layout.HEADER_BYTES
            encoded_block = encoded_lines(lines, self._compression, payload_bytes_min)
            value = layout.sealed(
                layout.WIDE_BLOCK_MAGIC,
                number,
                lines.cell_count,
                encoded_block.payload,
                value_bytes_min=0,
                version=layout.WIDE_FORMAT_VERSION,
                checked_bytes=encoded_block.directory_bytes,
            )
            self._container.put_wide_block(layout.block_key(lines.rows[0].as_py(), b"", 0, 0, number), value)
            _add_entry(self._wide_index, value, lines.rows)
            _add_wide_entry(self._wide_index, encoded_block, lines)
            self._row_digests.add(lines)
            # Compressing a block takes a millisecond or two.
            yield_now()


def _add_entry(index: BlockIndex, value: bytes, rows: Column) -> None:
    header = layout.unpack_header(value, Path(), 0)
    index.payload_bytes.append(header.payload_bytes)
    index.cell_counts.append(header.cell_count)
    index.checksums.append(header.checksum)
    index.first_rows.append(rows[0].as_py())
    index.last_rows.append(rows[-1].as_py())


def _add_wide_entry(index: WideIndex, encoded_block: EncodedBlock, lines: Lines) -> None:
    index.directory_bytes.append(encoded_block.directory_bytes)
    index.key_bytes.append(encoded_block.key_bytes)
    index.raw_bytes.append(encoded_block.raw_bytes)
    facts = facts_of(lines)
    index.line_counts.append(facts.line_count)
    index.write_numbers_min.append(facts.write_number_min)
    index.write_numbers_max.append(facts.write_number_max)
    index.timestamps_min.append(facts.timestamp_min)
    index.timestamps_max.append(facts.timestamp_max)
    index.have_versions.append(facts.have_versions)
