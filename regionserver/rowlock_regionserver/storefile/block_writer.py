"""Cuts lines and cells into the blocks of a new store file, seals them, and collects the indexes of its runs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Generic, NamedTuple, TypeVar

import pyarrow as pa

from rowlock_regionserver.arrow.columns import ROW, Column, equals_previous, run_starts
from rowlock_regionserver.arrow.lines import Lines
from rowlock_regionserver.arrow.lines_by_age import divided_by_age
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
from rowlock_regionserver.storefile.wide_index import OlderIndex, WideIndex, facts_of

# If a smaller share of lines has a newer one of its row, all stay together: then most point reads would look for older
# lines needlessly.
_OLDER_SHARE_MIN = 0.25

_Index = TypeVar("_Index", bound=BlockIndex)
_LinesIndex = TypeVar("_LinesIndex", bound=WideIndex)


class Written(NamedTuple):
    """The indexes of a file's runs, and the row groups of its wide blocks."""

    cell_index: BlockIndex
    wide_index: WideIndex
    older_index: OlderIndex
    row_groups: RowGroups


class BlockWriter:
    """Writes the blocks of one file. Not thread-safe.

    Holds less than a block of each kind between calls; its lines keep alive the piece that they are of.
    """

    def __init__(self, container: Container, family: Family) -> None:
        self._container = container
        self._compression = family.compression
        self._cutter = Cutter(family.block_bytes)
        self._index = BlockIndex.empty()
        self._last_row: bytes | None = None  # of the cells
        self._row_digests = RowDigests()  # of the lines
        self._wide = _LinesWriter(
            container, family, layout.WIDE_BLOCKS_DATABASE, WideIndex.empty(), digests=self._row_digests
        )
        self._older = _LinesWriter(container, family, layout.OLDER_BLOCKS_DATABASE, OlderIndex.empty())

    def add(self, lines: Lines | None, cells: pa.Table | None) -> None:
        """Adds the next lines and cells, each in store order over all calls; lines are of whole rows."""
        if lines is not None:
            if lines.has_versions and 1 - lines.starts_row.mean() >= _OLDER_SHARE_MIN:
                newest, older = divided_by_age(lines)
                self._wide.add(newest)
                if len(older):
                    self._older.add(older)
            else:
                self._wide.add(lines)
        for batch in cells.to_batches() if cells is not None else ():
            rows = batch.column(ROW)
            starts = run_starts(equals_previous(rows))
            is_continued = self._last_row is not None and rows[0].as_py() == self._last_row
            self._last_row = rows[-1].as_py()
            self._write(self._cutter.add(batch, starts[1:] if is_continued else starts))

    def finish(self) -> Written:
        """Writes the last blocks, and returns the indexes with the offsets at which LMDB put the blocks."""
        self._wide.finish()
        self._older.finish()
        self._write(self._cutter.finish())
        self._container.commit_blocks()
        index = _placed(self._index, self._container.block_offsets(layout.BLOCKS_DATABASE))
        return Written(index, self._wide.placed_index(), self._older.placed_index(), self._row_digests.finish())

    def _write(self, batches: Iterable[pa.RecordBatch]) -> None:
        for batch in batches:
            number = len(self._index.first_rows)
            row, qualifier, timestamp, write_number = (batch.column(place)[0].as_py() for place in range(4))
            header, value = layout.sealed(
                layout.BLOCK_MAGIC,
                number,
                batch.num_rows,
                encoded(batch, self._compression),
                value_bytes_min=self._container.page_bytes + 1,
            )
            key = layout.block_key(row, qualifier, timestamp, write_number, number)
            self._container.put_block(layout.BLOCKS_DATABASE, key, value)
            _add_entry(self._index, header, batch.column(ROW))


class _LinesWriter(Generic[_LinesIndex]):
    """Writes the blocks of one run of lines. Not thread-safe."""

    def __init__(
        self,
        container: Container,
        family: Family,
        database: bytes,
        index: _LinesIndex,
        digests: RowDigests | None = None,
    ) -> None:
        """Adds an entry a block to `index`, which is empty, and its lines to the `digests`."""
        self._container = container
        self._compression = family.compression
        self._database = database
        self._cutter = LinesCutter(family.block_bytes)
        self._index = index
        self._digests = digests

    def add(self, lines: Lines) -> None:
        """Adds the next lines, of whole rows as far as the run has them."""
        if self._digests is not None:
            self._digests.add(lines)
        self._write(self._cutter.add(lines))

    def finish(self) -> None:
        """Writes the last block."""
        self._write(self._cutter.finish())

    def placed_index(self) -> _LinesIndex:
        """Returns the index with the offsets of the blocks, which are committed."""
        return _placed(self._index, self._container.block_offsets(self._database))

    def _write(self, blocks: Iterable[Lines]) -> None:
        index = self._index
        for block in blocks:
            lines = with_least_numbers(block)
            number = len(index.first_rows)
            payload_bytes_min = self._container.page_bytes + 1 - layout.HEADER_BYTES
            encoded_block = encoded_lines(lines, self._compression, payload_bytes_min)
            header, value = layout.sealed(
                index.magic,
                number,
                lines.cell_count,
                encoded_block.payload,
                value_bytes_min=0,
                version=layout.WIDE_FORMAT_VERSION,
                checked_bytes=encoded_block.directory_bytes,
            )
            key = layout.block_key(lines.rows[0].as_py(), b"", 0, 0, number)
            self._container.put_block(self._database, key, value)
            _add_entry(index, header, lines.rows)
            _add_wide_entry(index, encoded_block, lines)
            # Compressing a block takes a millisecond or two.
            yield_now()


def _placed(index: _Index, offsets: list[int]) -> _Index:
    """Returns the index of blocks with their offsets."""
    assert len(offsets) == len(index.first_rows), f"{len(offsets)} of {len(index.first_rows)} blocks"
    return replace(index, offsets=offsets)


def _add_entry(index: BlockIndex, header: layout.Header, rows: Column) -> None:
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
