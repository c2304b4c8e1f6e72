"""Columns of lines that stay compressed as they are stored, and values that replace some of theirs.

A scan of typed rows passes most values on as they are stored. If its client decompresses them, the server need not, and
a third of the bytes travel. So lines may be **stored lines**: slices of stored blocks, one after the other, which all
their columns share. Newer cells of some lines are laid over a column as changes.

    stored lines   [block 7, lines 100 to 2500] [block 8, all lines]     compressed
    changes        line 17: x, line 1033: y                              plain, of one column

`plain` decompresses a column. Slices and concatenations copy no value, and cost little for many columns.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from operator import is_
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from rowlock_regionserver.arrow import line_values
from rowlock_regionserver.arrow.columns import Column, Integers, Mask, integer_array, packed_bits
from rowlock_regionserver.arrow.dense_lines import Piece, fill
from rowlock_regionserver.arrow.sorted_cells import changes
from rowlock_regionserver.arrow.stored_lines import BlockSlice, StoredLines


@dataclass(frozen=True, slots=True)
class Changes:
    """Values that replace those of some lines. Places ascend, and no value is null."""

    places: Integers
    values: Column

    def slice(self, start: int, stop: int) -> Changes | None:
        """Returns the changes of the lines [start, stop), counted from the first of these."""
        first, last = np.searchsorted(self.places, [start, stop]).tolist()
        if first == last:
            return None
        return Changes(self.places[first:last] - start, self.values.slice(first, last - first))


@dataclass(frozen=True)
class CompressedColumn:
    """A column of stored lines, or with the name None their rows. Immutable.

    Several sources may be laid over it, each with its changes. These are kept as layers, and merged at most once.
    """

    lines: StoredLines
    name: bytes | None
    # Of the changes of one line, those of the last layer count.
    layers: tuple[Changes, ...] = ()

    @classmethod
    def merged(cls, lines: StoredLines, name: bytes | None, changes: Changes | None) -> CompressedColumn:
        """Returns a column with these changes; None: with none."""
        return cls(lines, name, () if changes is None else (changes,))

    @cached_property
    def changes(self) -> Changes | None:
        """The changes of all layers; None: there are none."""
        if len(self.layers) < 2:
            return self.layers[0] if self.layers else None
        places = np.concatenate([layer.places for layer in self.layers])
        order = np.argsort(places, kind="stable")
        places = places[order]
        is_last = np.roll(changes(places), -1)  # A run ends before the next one starts, and at the end.
        values = line_values.concatenated_column(
            [layer.values for layer in self.layers], [len(layer.places) for layer in self.layers]
        )
        return Changes(places[is_last], values.take(integer_array(order[is_last], pa.int64())))

    def __len__(self) -> int:
        return self.lines.line_count

    @cached_property
    def present(self) -> Mask | None:
        """Which lines have a cell; None: all."""
        name = self.name
        if name is None:
            return None
        if all(block.is_complete(name) for block in self.lines.layouts):
            return None
        of_slices = [_present(each, name) for each in self.lines.slices]
        present = np.concatenate(
            [
                np.ones(count, np.bool_) if mask is None else mask
                for mask, count in zip(of_slices, self.lines.counts, strict=True)
            ]
        )
        for layer in self.layers:
            present[layer.places] = True
        return None if present.all() else present

    @cached_property
    def null_count(self) -> int:
        """The number of lines without a cell."""
        return 0 if self.present is None else len(self) - int(np.count_nonzero(self.present))

    def slice(self, start: int, count: int) -> CompressedColumn:
        """Returns `count` lines from `start` on."""
        changes = None if self.changes is None else self.changes.slice(start, start + count)
        return CompressedColumn.merged(self.lines.slice(start, count), self.name, changes)

    def changed(self, places: Integers, values: Column) -> CompressedColumn:
        """Returns the column with other values at these places, which ascend. No value is null."""
        return CompressedColumn(self.lines, self.name, (*self.layers, Changes(places, values)))

    def take(self, indices: Column) -> Column:
        """Returns the values at these places, decompressed."""
        return self.plain.take(indices)

    def pieces(self) -> list[Piece] | None:
        """Returns the values as they are in their blocks, decompressed; None if a block has none.

        Those of absent cells are undefined.
        """
        pieces: list[Piece] = []
        first = 0
        for block, start, stop in self.lines.slices:
            if self.name is not None and not block.has(self.name):
                return None
            count = stop - start
            pieces.append(Piece(slice(first, first + count), block.values(self.name).slice(start, count)))
            first += count
        pieces += [Piece(layer.places, layer.values) for layer in self.layers]
        return pieces

    @cached_property
    def plain(self) -> Column:
        """The column, decompressed: binary, or fixed-size binary if all values have one length. Rows are binary."""
        column = _filled([self])[0] if self.is_filled else self._concatenated()
        return line_values.as_binary(column) if self.name is None else column

    def _concatenated(self) -> Column:
        parts: list[Column | None] = []
        for block, start, stop in self.lines.slices:
            is_there = self.name is None or block.has(self.name)
            parts.append(block.values(self.name).slice(start, stop - start) if is_there else None)
        column = line_values.concatenated_column(parts, self.lines.counts)
        if self.changes is not None:
            count, changes = len(self), self.changes
            indices = np.arange(count)
            indices[changes.places] = count + np.arange(len(changes.places))
            both = line_values.concatenated_column([column, changes.values], [count, len(changes.values)])
            column = both.take(integer_array(indices, pa.int64()))
        return column if self.present is None else _masked(column, self.present)

    @cached_property
    def width(self) -> int:
        """The length of all values; 0 if they may have different ones, or a block has none."""
        widths = {block.width(self.name) for block in self.lines.layouts}
        widths.update([_width(layer.values) for layer in self.layers])
        return widths.pop() if len(widths) == 1 else 0

    @property
    def is_filled(self) -> bool:
        """Whether `plain` copies values of one length from several places."""
        return bool(self.width) and len(self.lines.slices) + len(self.layers) > 1


def decompress_together(columns: Sequence[CompressedColumn]) -> None:
    """Decompresses columns, so that `plain` has them. Those of the same lines take fewer steps than one by one."""
    of_lines: dict[int, list[CompressedColumn]] = {}
    for column in columns:
        if "plain" not in vars(column) and column.name is not None and column.is_filled:
            of_lines.setdefault(id(column.lines), []).append(column)
    for alike in of_lines.values():
        for column, values in zip(alike, _filled(alike), strict=True):
            vars(column)["plain"] = values


def _filled(columns: Sequence[CompressedColumn]) -> list[Column]:
    """Returns the values of columns of the same lines, which `is_filled`. Copies them once, block by block.

    Makes no arrays of the blocks, which are many and small.
    """
    lines, names, widths = columns[0].lines, [column.name for column in columns], [column.width for column in columns]
    buffers = [pa.allocate_buffer(lines.line_count * width) for width in widths]
    targets = [memoryview(buffer) for buffer in buffers]
    lines.values_into(names, targets)
    filled: list[Column] = []
    for column, width, data, target in zip(columns, widths, buffers, targets, strict=True):
        fill(np.frombuffer(target, f"V{width}"), [Piece(layer.places, layer.values) for layer in column.layers])
        filled.append(line_values.fixed_size(width, len(column), column.present, data))
    return filled


LineColumn: TypeAlias = "pa.Array[Any] | CompressedColumn"


def _width(column: Column) -> int:
    """Returns the length of the values; 0 if they may have different ones."""
    return int(column.type.byte_width) if pa.types.is_fixed_size_binary(column.type) else 0


def value_array(raw: pa.Buffer, count: int, width: int, bitmap: pa.Buffer | None = None) -> Column:
    """Returns the values of a raw chunk: fixed-size binary, or binary if `width` is 0."""
    null_count = 0 if bitmap is None else -1
    if width:
        return pa.Array.from_buffers(pa.binary(width), count, [bitmap, raw], null_count)
    stop = 4 * (count + 1)
    return pa.Array.from_buffers(pa.binary(), count, [bitmap, raw.slice(0, stop), raw.slice(stop)], null_count)


def plain(column: LineColumn) -> Column:
    """Returns a column, decompressed."""
    return column.plain if isinstance(column, CompressedColumn) else column


def is_present(column: LineColumn) -> Mask:
    """Returns which lines have a cell of the column."""
    if not isinstance(column, CompressedColumn):
        return line_values.is_present(column)
    return np.ones(len(column), np.bool_) if column.present is None else column.present


class Concatenation:
    """Concatenates the columns of some parts, one column after the other. Used by one thread.

    Columns of the same stored lines have the same stored lines afterwards.
    """

    def __init__(self, counts: Sequence[int]) -> None:
        """`counts` are the lines of each part."""
        self._counts = counts
        self._stored: list[tuple[list[StoredLines], StoredLines]] = []

    def column(self, parts: Sequence[LineColumn | None]) -> LineColumn:
        """Returns a column of all parts; None stands for lines without a cell."""
        compressed = [part for part in parts if isinstance(part, CompressedColumn)]
        if len(compressed) < len(parts):
            return line_values.concatenated_column(
                [None if part is None else plain(part) for part in parts], self._counts
            )
        name = compressed[0].name
        assert all(part.name == name for part in compressed), f"{[part.name for part in compressed]}"
        lines = self.stored([part.lines for part in compressed])
        return CompressedColumn.merged(lines, name, self._changes(compressed))

    def stored(self, parts: Sequence[StoredLines]) -> StoredLines:
        """Returns the stored lines of all parts."""
        for of_parts, joined in self._stored:
            if all(map(is_, of_parts, parts)):
                return joined
        joined = StoredLines.joined(parts)
        self._stored.append((list(parts), joined))
        return joined

    def _changes(self, parts: Sequence[CompressedColumn]) -> Changes | None:
        changes: list[Changes] = []
        start = 0
        for part, count in zip(parts, self._counts, strict=True):
            if part.changes is not None:
                changes.append(Changes(part.changes.places + start, part.changes.values))
            start += count
        if len(changes) < 2:
            return changes[0] if changes else None
        counts = [len(change.places) for change in changes]
        return Changes(
            np.concatenate([change.places for change in changes]),
            line_values.concatenated_column([change.values for change in changes], counts),
        )


def _present(part: BlockSlice, name: bytes) -> Mask | None:
    """Returns which lines of a slice have a cell of the column; None: all."""
    block, start, stop = part
    if not block.has(name):
        return np.zeros(stop - start, np.bool_)
    present = block.present(name)
    return None if present is None else present[start:stop]


def _masked(column: Column, present: Mask) -> Column:
    """Returns the column with nulls where `present` is false."""
    bits = np.concatenate([np.zeros(column.offset, np.bool_), present])
    buffers = [packed_bits(bits), *column.buffers()[1:]]
    array: Column = pa.Array.from_buffers(column.type, len(column), buffers, -1, column.offset)
    return array
