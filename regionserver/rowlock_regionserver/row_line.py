"""A row of an answer whose cells are a line: one of each column, all of one timestamp.

In a table that is written by whole rows most rows are. A tuple for each cell takes longer than the row's own look-up.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import repeat
from typing import overload

from rowlock_regionserver.operations import AnswerCell


class RowLine(Sequence[AnswerCell]):
    """The cells of such a row, of one family. They are made when they are asked for."""

    __slots__ = ("byte_count", "family", "qualifiers", "timestamp", "value_lengths", "values")

    def __init__(self, family: bytes, qualifiers: tuple[bytes, ...], timestamp: int, values: list[bytes]) -> None:
        """qualifiers: they ascend; `values` has one for each."""
        self.family = family
        self.qualifiers = qualifiers
        self.timestamp = timestamp
        self.values = values
        self.value_lengths = list(map(len, values))
        # Of its names and values, as often as the cells have them.
        self.byte_count = len(family) * len(values) + sum(map(len, qualifiers)) + sum(self.value_lengths)

    def __iter__(self) -> Iterator[AnswerCell]:
        return zip(repeat(self.family), self.qualifiers, repeat(self.timestamp), self.values, strict=False)

    def __len__(self) -> int:
        return len(self.values)

    @overload
    def __getitem__(self, place: int) -> AnswerCell: ...

    @overload
    def __getitem__(self, place: slice) -> list[AnswerCell]: ...

    def __getitem__(self, place: int | slice) -> AnswerCell | list[AnswerCell]:
        if isinstance(place, slice):
            return list(self)[place]
        return self.family, self.qualifiers[place], self.timestamp, self.values[place]

    def __eq__(self, other: object) -> bool:
        return list(self) == list(other) if isinstance(other, Sequence) else NotImplemented

    __hash__ = None  # type: ignore[assignment]  # its values are a list
