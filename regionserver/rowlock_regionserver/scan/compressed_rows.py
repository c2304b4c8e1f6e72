"""Rows in a row form whose columns may be compressed: what a scan answers in place of a table.

It is cut and joined as a table is. `rpc/messages/compressed_rows.py` encodes it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from rowlock_regionserver.arrow.columns import Column, Integers, offsets
from rowlock_regionserver.arrow.compressed_columns import (
    CompressedColumn,
    Concatenation,
    LineColumn,
    decompress_together,
    plain,
)
from rowlock_regionserver.arrow.line_values import as_binary
from rowlock_regionserver.arrow.stored_lines import StoredLines
from rowlock_regionserver.operations import FormPart
from rowlock_regionserver.scan.row_form import RowLayout

# Compressed rows cost their reader more than plain ones, so they have to be smaller by this factor.
SHRUNK_MAX = 0.75


@dataclass(frozen=True, slots=True)
class CompressedRows:
    """Distinct rows in the scan's order, and the form's columns; None stands for a column without any value."""

    keys: LineColumn
    columns: Sequence[LineColumn | None]
    form: RowLayout

    @property
    def num_rows(self) -> int:
        """The number of rows; named as that of a table."""
        return len(self.keys)

    @property
    def has_keys(self) -> bool:
        """Whether the keys are to be sent."""
        return not (self.form.without_keys and isinstance(self.keys, CompressedColumn))

    def row_after(self) -> bytes:
        """Returns the first possible row after the last one of these, which ascend."""
        if isinstance(self.keys, CompressedColumn):
            block, _, stop = self.keys.lines.slices[-1]
            if stop == block.line_count:
                return block.last_row + b"\x00"
        last = plain(self.keys)[-1].as_py()
        assert isinstance(last, bytes), last
        return last + b"\x00"

    @property
    def is_worth_it(self) -> bool:
        """Whether all that has to be sent is much smaller than the plain rows."""
        stored = self._stored
        stored_bytes = sum([lines.stored_bytes for lines in stored])
        raw_bytes = sum([lines.raw_bytes for lines in stored])
        # Plain bytes would not make up for it, and to count them takes a merge of layers.
        if not stored or stored_bytes > SHRUNK_MAX * raw_bytes:
            return False
        plain_bytes = sum(map(_byte_count, self._plain))
        return plain_bytes + stored_bytes <= SHRUNK_MAX * (plain_bytes + raw_bytes)

    @property
    def _stored(self) -> Sequence[StoredLines]:
        """The stored lines of which there are columns."""
        columns = [column for column in (self.keys, *self.columns) if isinstance(column, CompressedColumn)]
        return list({id(column.lines): column.lines for column in columns}.values())

    @property
    def _plain(self) -> Sequence[Column]:
        columns = [column for column in (self.keys, *self.columns) if column is not None]
        changes = [column.changes for column in columns if isinstance(column, CompressedColumn)]
        return [
            *[column for column in columns if not isinstance(column, CompressedColumn)],
            *[each.values for each in changes if each is not None],
        ]

    def slice(self, start: int, count: int) -> CompressedRows:
        """Returns some of the rows, uncopied."""
        return CompressedRows(
            self.keys.slice(start, count),
            [None if column is None else column.slice(start, count) for column in self.columns],
            self.form,
        )

    def table(self) -> pa.Table:
        """Returns the rows as a table of the form's columns."""
        arrays = [as_binary(plain(self.keys))]
        decompress_together([column for column in self.columns if isinstance(column, CompressedColumn)])
        fields = [self.form.schema.field(0)]
        for place, column in enumerate(self.columns):
            field = self.form.schema.field(1 + place)
            array = pa.nulls(self.num_rows, field.type) if column is None else plain(column)
            if not self.form.fixed_size and field.type == pa.binary():
                array = as_binary(array)
            arrays.append(array)
            fields.append(pa.field(field.name, array.type))
        return pa.Table.from_arrays(arrays, schema=pa.schema(fields))

    def byte_bounds(self) -> tuple[Integers, Integers]:
        """Returns some places, from 0 to the number of rows, and about how many bytes of rows come before each."""
        stored = self._stored
        places = np.unique(np.concatenate([[0, self.num_rows], *[np.cumsum(lines.counts) for lines in stored]]))
        before = sum([lines.bytes_before(places) for lines in stored], np.zeros(len(places), np.int64))
        for column in (self.keys, *self.columns):
            if column is None:
                before += 4 * places
            elif not isinstance(column, CompressedColumn):
                before += bytes_before(column, places)
        return places, before

    @property
    def bytes_held(self) -> int:
        """The memory that the rows keep alive."""
        held = [column.get_total_buffer_size() for column in self._plain]
        return sum(held) + sum([lines.stored_bytes for lines in self._stored])

    @classmethod
    def of_table(cls, table: pa.Table, form: RowLayout) -> CompressedRows:
        """Returns the rows of a table of the form's columns."""
        keys, *columns = [chunked.combine_chunks() for chunked in table.columns]
        return cls(keys, columns, form)


def joined_rows(parts: Sequence[pa.Table | CompressedRows], form: RowLayout) -> CompressedRows:
    """Returns the rows of all parts, one after the other."""
    rows = [CompressedRows.of_table(part, form) if isinstance(part, pa.Table) else part for part in parts]
    counts = [part.num_rows for part in rows]
    concatenation = Concatenation(counts)
    columns: list[LineColumn | None] = []
    for place, column in enumerate(form.columns):
        of_parts = [part.columns[place] for part in rows]
        if all(each is None for each in of_parts):
            columns.append(None)
        elif column.part is FormPart.VALUE:
            columns.append(concatenation.column(of_parts))
        else:
            columns.append(_concatenated_timestamps(of_parts, counts))
    return CompressedRows(concatenation.column([part.keys for part in rows]), columns, form)


def _concatenated_timestamps(parts: Sequence[LineColumn | None], counts: Sequence[int]) -> Column:
    pairs = zip(parts, counts, strict=True)
    return pa.concat_arrays([pa.nulls(count, pa.int64()) if part is None else plain(part) for part, count in pairs])


def _byte_count(column: Column) -> int:
    """Returns the bytes of a column's values, and of their offsets."""
    return int(bytes_before(column, np.array([len(column)]))[0])


def bytes_before(column: Column, places: Integers) -> Integers:
    """Returns how many bytes of a column's values and offsets come before each of the places; a null has no value."""
    if column.type != pa.binary():
        return places * int(column.type.byte_width)
    bounds = offsets(column)
    before: Integers = 4 * places + bounds[places] - bounds[0]
    return before
