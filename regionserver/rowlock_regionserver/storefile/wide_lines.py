"""Makes Lines of the chunks of a wide block, without copying them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa

from rowlock_regionserver.arrow.columns import Column, Integers
from rowlock_regionserver.arrow.compressed_columns import value_array
from rowlock_regionserver.arrow.line_values import as_binary
from rowlock_regionserver.arrow.lines import Lines
from rowlock_regionserver.arrow.stored_lines import LineNumbers
from rowlock_regionserver.sources import LinesWanted
from rowlock_regionserver.storefile.wide_directory import Directory
from rowlock_regionserver.storefile.wide_form import ROWS_CHUNK

# Returns a chunk by its number, verified and decompressed.
RawOf = Callable[[int], pa.Buffer]


def decoded_lines(directory: Directory, raw_of: RawOf, wanted: LinesWanted) -> Lines:
    """Returns all lines of the block, with the columns that are wanted as far as it has them."""
    form = directory.form
    timestamps, _ = timestamps_of(directory, raw_of, wanted)
    places, with_values = places_of(directory, wanted), wanted.columns
    qualifiers = tuple([form.qualifiers[place] for place in places])
    columns = []
    for place, qualifier in zip(places, qualifiers, strict=True):
        values, validity = form.columns[place].values, form.columns[place].validity
        if with_values is None or qualifier in with_values:
            bitmap = None if validity is None else raw_of(validity)
            columns.append(value_array(raw_of(values), directory.line_count, form.chunks[values].width, bitmap))
        else:
            columns.append(_marks(directory, raw_of, validity))
    write_numbers, _ = write_numbers_of(directory, raw_of, wanted)
    return Lines(_rows(directory, raw_of(ROWS_CHUNK)), timestamps, write_numbers, qualifiers, tuple(columns))


def timestamps_of(directory: Directory, raw_of: RawOf, wanted: LinesWanted) -> LineNumbers:
    """Returns the timestamps of the columns that are wanted, as far as the block has them."""
    form = directory.form
    if form.timestamps is not None:
        return LineNumbers(_integers(raw_of(form.timestamps))[np.newaxis], form.qualifiers)
    places = places_of(directory, wanted)
    numbers = _numbers(raw_of, directory.timestamp, [form.columns[place].timestamps for place in places])
    return LineNumbers(numbers, tuple([form.qualifiers[place] for place in places]))


def write_numbers_of(directory: Directory, raw_of: RawOf, wanted: LinesWanted) -> LineNumbers:
    """Returns the write numbers of the columns that are wanted, as far as the block has them."""
    form, base = directory.form, directory.write_number_base
    if form.write_numbers is not None:
        by_line = _integers(raw_of(form.write_numbers))[np.newaxis]
        return LineNumbers(by_line + base if base else by_line, form.qualifiers)
    places = places_of(directory, wanted)
    by_column = [form.columns[place].write_numbers for place in places]
    numbers = _numbers(raw_of, directory.write_number, by_column)
    if base and not all(number is None for number in by_column):
        numbers = numbers + base
    return LineNumbers(numbers, tuple([form.qualifiers[place] for place in places]))


def places_of(directory: Directory, wanted: LinesWanted) -> Sequence[int]:
    """Returns the places of the columns that are wanted and that the block has, ascending."""
    if wanted.columns is None or wanted.marks_others:
        return range(len(directory.form.columns))
    place_of = directory.form.place_of
    return sorted([place_of[qualifier] for qualifier in wanted.columns if qualifier in place_of])


def chunks_of(directory: Directory, wanted: LinesWanted) -> list[int]:
    """Returns the numbers of the chunks that are read for these lines beside the keys, ascending."""
    form = directory.form
    return [
        number
        for place in places_of(directory, wanted)
        for number in form.columns[place].numbers()
        if number != form.columns[place].values or wanted.columns is None or form.qualifiers[place] in wanted.columns
    ]


def _rows(directory: Directory, raw: pa.Buffer) -> Column:
    """Returns the rows as a binary column."""
    return as_binary(value_array(raw, directory.line_count, directory.form.chunks[ROWS_CHUNK].width))


def _marks(directory: Directory, raw_of: RawOf, validity: int | None) -> Column:
    """Returns a column with empty values, null where a line has no cell."""
    bitmap = None if validity is None else raw_of(validity)
    null_count = 0 if validity is None else -1
    return pa.Array.from_buffers(pa.binary(0), directory.line_count, [bitmap, pa.py_buffer(b"")], null_count)


def _numbers(raw_of: RawOf, constant: int, by_column: Sequence[int | None]) -> Integers:
    """Returns the timestamps or write numbers of columns, or of all cells, in the shape that Lines have."""
    chunks = [number for number in by_column if number is not None]
    if chunks:
        return np.stack([_integers(raw_of(number)) for number in chunks])
    return np.full((1, 1), constant, np.int64)


def _integers(raw: pa.Buffer) -> Integers:
    return np.frombuffer(memoryview(raw), "<i8")
