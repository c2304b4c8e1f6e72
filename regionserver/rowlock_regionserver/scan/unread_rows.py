"""Rows whose values are read from their blocks when they are answered, batch by batch.

A window is answered in several batches. If its values were read at once, the first ones would have left the processor's
cache before they are sent, and all of them would be in memory. So each batch reads its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from rowlock_regionserver.arrow.columns import Column, Integers
from rowlock_regionserver.arrow.compressed_columns import CompressedColumn, LineColumn
from rowlock_regionserver.arrow.line_values import as_binary, fixed_size
from rowlock_regionserver.arrow.stored_lines import BlockReader, StoredLines
from rowlock_regionserver.scan.compressed_rows import bytes_before
from rowlock_regionserver.scan.row_form import RowLayout

_READER = attrgetter("block.reader")


class _UnreadColumn(NamedTuple):
    """A column of values of one length that stays in the blocks: its place in the form, and its name there."""

    place: int
    name: bytes
    width: int


@dataclass(frozen=True, slots=True)
class UnreadRows:
    """Distinct rows, ascending, with the form's columns: those in the blocks, and others by their places. Immutable."""

    lines: StoredLines
    key_width: int  # the length of each key; 0: they may have different ones
    unread: Sequence[_UnreadColumn]
    others: Mapping[int, Column]
    schema: pa.Schema  # of the table
    fixed_size: bool

    @classmethod
    def of(cls, keys: LineColumn, columns: Sequence[LineColumn | None], form: RowLayout) -> UnreadRows | None:
        """Returns rows with these columns of the form, of which None is absent in all rows.

        None: a column has changes or nulls, or is not of the same blocks; or the blocks are best read at once.
        """
        # A step of several reads may have few rows more, which then are read with their batch, too.
        if not isinstance(keys, CompressedColumn) or not any(
            block.reader.leaves_unread for block, _, _ in keys.lines.slices
        ):
            return None
        unread: list[_UnreadColumn] = []
        others: dict[int, Column] = {}
        fields = [form.schema.field(0)]
        for place, column in enumerate(columns):
            field = form.schema.field(1 + place)
            if column is None:
                others[place] = pa.nulls(len(keys), field.type)
            elif not isinstance(column, CompressedColumn):
                if field.type == pa.binary():
                    return None
                others[place] = column
            elif column.lines is not keys.lines or column.layers or column.null_count or not column.width:
                return None
            else:
                assert column.name is not None, f"rows as column {place}"
                unread.append(_UnreadColumn(place, column.name, column.width))
                field = field.with_type(pa.binary(column.width)) if form.fixed_size else field
            fields.append(field)
        return cls(keys.lines, keys.width, unread, others, pa.schema(fields), form.fixed_size) if unread else None

    @property
    def num_rows(self) -> int:
        """The number of rows; named as that of a table."""
        return self.lines.line_count

    def slice(self, start: int, count: int) -> UnreadRows:
        """Returns some of the rows, unread."""
        others = {place: column.slice(start, count) for place, column in self.others.items()}
        return self._with(self.lines.slice(start, count), others)

    def _with(self, lines: StoredLines, others: Mapping[int, Column]) -> UnreadRows:
        return UnreadRows(lines, self.key_width, self.unread, others, self.schema, self.fixed_size)

    def followed_by(self, parts: Sequence[UnreadRows]) -> UnreadRows | None:
        """Returns these rows and those of the parts after them; None if columns differ."""
        if any(
            part.unread != self.unread or part.key_width != self.key_width or not part.schema.equals(self.schema)
            for part in parts
        ):
            return None
        every = [self, *parts]
        lines = StoredLines.joined([part.lines for part in every])
        others = {place: pa.concat_arrays([part.others[place] for part in every]) for place in self.others}
        return self._with(lines, others)

    def table(self) -> pa.Table:
        """Reads the rows; returns them as a table of the form's columns."""
        # Before the values, which drop blocks that were read whole.
        keys = self._read([(None, self.key_width)])[0] if self.key_width else CompressedColumn(self.lines, None).plain
        columns = dict(self.others)
        values = self._read([(name, width) for _, name, width in self.unread])
        for (place, _, _), column in zip(self.unread, values, strict=True):
            columns[place] = column if self.fixed_size else as_binary(column)
        every = [as_binary(keys), *[columns[place] for place in range(len(columns))]]
        return pa.Table.from_arrays(every, schema=self.schema)

    def _read(self, columns: Sequence[tuple[bytes | None, int]]) -> list[Column]:
        """Reads columns of the blocks together; each is given by its name, None for the keys, and its width."""
        count = self.num_rows
        data = [pa.allocate_buffer(count * width) for _, width in columns]
        self.lines.values_into([name for name, _ in columns], [memoryview(each) for each in data])
        return [fixed_size(width, count, None, each) for (_, width), each in zip(columns, data, strict=True)]

    def byte_bounds(self) -> tuple[Integers, Integers]:
        """Returns some places, from 0 to the number of rows, and about how many bytes of rows come before each."""
        places = np.cumsum([0, *self.lines.counts])
        before = self.lines.bytes_before(places)
        for column in self.others.values():
            before += bytes_before(column, places)
        return places, before

    @property
    def bytes_held(self) -> int:
        """The memory that the rows keep alive."""
        # Columns of timestamps may be one array.
        others = pa.RecordBatch.from_arrays(list(self.others.values()), names=[""] * len(self.others))
        held: int = others.get_total_buffer_size()
        readers: set[BlockReader] = set(map(_READER, self.lines.slices))
        return held + sum([reader.bytes_held for reader in readers])
