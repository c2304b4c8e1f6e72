"""Converts Arrow cells of whole rows into Python rows, and typed rows into a pandas DataFrame."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, cast

import numpy as np
import pyarrow as pa

from rowlock._codec.arrow_buffers import int64_array, joined, one_array, values_of
from rowlock._codec.columns import Text
from rowlock._core.scan_progress import Received, row_starts

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, slots=True)
class Cell(Generic[Text]):
    """One version of one column of one row. column: `family:qualifier`. timestamp: milliseconds since the epoch."""

    row: Text
    column: Text
    timestamp: int
    value: Text


def check_pandas() -> None:
    """Raises ImportError, with the command that installs pandas, if pandas is missing."""
    if importlib.util.find_spec("pandas") is None:
        raise ImportError("to_pandas needs pandas: pip install 'rowlock[pandas]'", name="pandas")


def data_frame(rows: pa.Table) -> pd.DataFrame:
    """Returns rows as a DataFrame, with pandas' nullable types for integers and booleans.

    Its other types have no null for them: a null would make the whole column floats, in which integers beyond 2^53
    change.
    """
    import pandas as pd

    nullable = {
        pa.int8(): pd.Int8Dtype(),
        pa.int16(): pd.Int16Dtype(),
        pa.int32(): pd.Int32Dtype(),
        pa.int64(): pd.Int64Dtype(),
        pa.bool_(): pd.BooleanDtype(),
    }
    return rows.to_pandas(types_mapper=nullable.get)


def python_rows(found: Received, decode: Callable[[bytes], Text]) -> Iterator[tuple[Text, dict[Text, Text]]]:
    """Yields (row, {column: value}) in the order of the rows or cells, with the newest version of each column."""
    return _rows_of_cells(found, decode) if isinstance(found, pa.Table) else found.expanded(decode)


def _rows_of_cells(cells: pa.Table, decode: Callable[[bytes], Text]) -> Iterator[tuple[Text, dict[Text, Text]]]:
    first_cells = row_starts(cells)
    rows = _decoded(cells.select(["row"]).take(int64_array(first_cells)), "row", decode)
    names = _column_names(cells, decode)
    values = _decoded(cells, "value", decode)
    starts = first_cells.tolist()
    starts.append(len(values))
    for row, start, stop in zip(rows, starts, starts[1:], strict=False):
        data = dict(zip(names[start:stop], values[start:stop], strict=True))
        if len(data) < stop - start:
            # Several versions of a column: the newest comes first, so it must be set last.
            for place in range(stop - 1, start - 1, -1):
                data[names[place]] = values[place]
        yield row, data


def python_cells(cells: pa.Table, decode: Callable[[bytes], Text]) -> Iterator[Cell[Text]]:
    """Yields every cell, in order."""
    rows = _decoded(cells, "row", decode)
    names = _column_names(cells, decode)
    values = _decoded(cells, "value", decode)
    timestamps: list[int] = values_of(one_array(cells.column("timestamp")), np.int64).tolist()
    for row, name, timestamp, value in zip(rows, names, timestamps, values, strict=True):
        yield Cell(row, name, timestamp, value)


def _column_names(cells: pa.Table, decode: Callable[[bytes], Text]) -> list[Text]:
    """Returns `family:qualifier` of every cell. A table has few columns, so cells share one object per name."""
    encoded = joined(one_array(cells.column("family")), b":", one_array(cells.column("qualifier"))).dictionary_encode()
    found = cast(list[bytes], encoded.dictionary.to_pylist())  # the schema says binary, not null
    names = [decode(name) for name in found]
    return [names[index] for index in values_of(encoded.indices, np.int32).tolist()]


def _decoded(cells: pa.Table, name: str, decode: Callable[[bytes], Text]) -> list[Text]:
    """Returns a binary column as decoded Python values."""
    values = cast(list[bytes], cells.column(name).to_pylist())  # the schema says binary, not null
    return list(map(decode, values))
