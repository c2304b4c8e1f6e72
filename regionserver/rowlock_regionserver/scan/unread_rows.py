"""Rows whose values are read from their blocks when they are answered, message by message.

A window has several messages. If its values were read at once, the first ones would have left the processor's cache
when the last ones are sent. And only the values of one message are in memory.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from rowlock_regionserver.arrow.columns import Column, Integers
from rowlock_regionserver.arrow.compressed_columns import CompressedColumn, LineColumn
from rowlock_regionserver.arrow.line_values import as_binary, fixed_size
from rowlock_regionserver.arrow.stored_lines import StoredLines
from rowlock_regionserver.scan.row_form import RowLayout


class _Values(NamedTuple):
    """A column of values of one length: its place in the form, and its name in the blocks."""

    place: int
    name: bytes
    width: int


@dataclass(frozen=True, slots=True)
class UnreadRows:
    """Distinct rows, ascending, and the form's columns: values that stay in their blocks, and others. Immutable."""

    lines: StoredLines
    values: Sequence[_Values]
    others: Mapping[int, Column]  # by place
    schema: pa.Schema  # of the table
    is_fixed_size: bool

    @classmethod
    def of(cls, keys: LineColumn, columns: Sequence[LineColumn | None], form: RowLayout) -> UnreadRows | None:
        """Returns rows with these columns of the form; None unless each is in all blocks, and best left unread."""
        if not isinstance(keys, CompressedColumn):
            return None
        if not all(block.reader.leaves_unread for block, _, _ in keys.lines.slices):
            return None
        values: list[_Values] = []
        others: dict[int, Column] = {}
        fields = [form.schema.field(0)]
        for place, column in enumerate(columns):
            field = form.schema.field(1 + place)
            if isinstance(column, CompressedColumn):
                if column.lines is not keys.lines or column.layers or column.null_count or not column.width:
                    return None
                assert column.name is not None, f"rows as column {place}"
                values.append(_Values(place, column.name, column.width))
                field = field.with_type(pa.binary(column.width)) if form.fixed_size else field
            elif column is None or field.type == pa.binary():
                return None
            else:
                others[place] = column
            fields.append(field)
        return cls(keys.lines, values, others, pa.schema(fields), form.fixed_size) if values else None

    @property
    def num_rows(self) -> int:
        """The number of rows; named as that of a table."""
        return self.lines.line_count

    def slice(self, start: int, count: int) -> UnreadRows:
        """Returns some of the rows, unread."""
        others = {place: column.slice(start, count) for place, column in self.others.items()}
        return UnreadRows(self.lines.slice(start, count), self.values, others, self.schema, self.is_fixed_size)

    def followed_by(self, parts: Sequence[UnreadRows]) -> UnreadRows | None:
        """Returns these rows and those of the parts after them; None if columns differ."""
        every = [self, *parts]
        if any(part.values != self.values or part.others.keys() != self.others.keys() for part in parts):
            return None
        lines = StoredLines(tuple([each for part in every for each in part.lines.slices]))
        others = {place: pa.concat_arrays([part.others[place] for part in every]) for place in self.others}
        return UnreadRows(lines, self.values, others, self.schema, self.is_fixed_size)

    def table(self) -> pa.Table:
        """Reads the rows; returns them as a table of the form's columns."""
        count = self.num_rows
        data = [pa.allocate_buffer(count * width) for _, _, width in self.values]
        self.lines.values_into([name for _, name, _ in self.values], [memoryview(each) for each in data])
        columns = dict(self.others)
        for (place, _, width), each in zip(self.values, data, strict=True):
            column = fixed_size(width, count, None, each)
            columns[place] = column if self.is_fixed_size else as_binary(column)
        keys = CompressedColumn(self.lines, None).plain
        return pa.Table.from_arrays([keys, *[columns[place] for place in range(len(columns))]], schema=self.schema)

    def byte_bounds(self) -> tuple[Integers, Integers]:
        """Returns some places, from 0 to the number of rows, and about how many bytes of rows come before each."""
        places = np.cumsum([0, *self.lines.counts])
        beside = sum([int(column.type.byte_width) for column in self.others.values()])
        return places, self.lines.bytes_before(places) + beside * places

    @property
    def bytes_held(self) -> int:
        """The memory that the rows keep alive."""
        return sum([column.get_total_buffer_size() for column in self.others.values()])
