"""A bulk batch that came as rows, as the front end received and validated it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import pyarrow as pa

from rowlock_regionserver.arrow.columns import Column


@dataclass(frozen=True, slots=True)
class RowBatch:
    """Rows in any order, perhaps several of one key; a null value is an absent cell."""

    rows: Column  # binary without nulls
    timestamps: Column  # int64; null: the server's stamp
    names: tuple[tuple[bytes, bytes], ...]  # the family and qualifier of each column, distinct
    columns: tuple[Column, ...]  # binary or fixed-size binary
    nulls_delete: bool = False  # a null value deletes the column's versions up to the timestamp

    def __len__(self) -> int:
        return len(self.rows)

    def take(self, places: Column, between: Callable[[], None] = lambda: None) -> RowBatch:
        """Returns the rows at these places, in their order. Calls `between` after each column."""
        columns: list[Column] = []
        for column in self.columns:
            columns.append(column.take(places))
            between()
        rows, timestamps = self.rows.take(places), self.timestamps.take(places)
        return replace(self, rows=rows, timestamps=timestamps, columns=tuple(columns))

    def select(self, places: Sequence[int]) -> RowBatch:
        """Returns the same rows with the columns at these places."""
        names = tuple([self.names[place] for place in places])
        return replace(self, names=names, columns=tuple([self.columns[place] for place in places]))


# Cells as a table of (row, family, qualifier, timestamp nullable, value nullable), or rows.
BulkBatch: TypeAlias = pa.Table | RowBatch
