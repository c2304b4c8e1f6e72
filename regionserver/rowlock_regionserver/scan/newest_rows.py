"""Rows with the newest value of each column: the answer for a client that needs neither timestamps nor versions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class NewestRows:
    """Distinct rows, ascending, each with at least one value.

    column_sets: the columns that a row has, each as family and qualifier with a colon between them, ascending.
    sets_of_rows: for each row the place of its columns in column_sets.
    values: for each row its values, in the order of its columns.
    """

    rows: Sequence[bytes]
    column_sets: Sequence[tuple[bytes, ...]]
    sets_of_rows: Sequence[int]
    values: Sequence[Sequence[bytes]]

    def __len__(self) -> int:
        return len(self.rows)
