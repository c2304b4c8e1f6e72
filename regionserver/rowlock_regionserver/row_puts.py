"""The puts of a row that came as values: of one family, each of another column, all without a timestamp.

Most changes of several columns have this form. To make a tuple for each put, and to check each, takes as long as to
make the row's log record. What the columns have in common is found once for all rows that name the same columns in the
same order.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import repeat
from operator import itemgetter
from typing import overload

from rowlock_regionserver.operations import Put


class PutColumns:
    """The columns of such puts, in the order of the client's values."""

    __slots__ = ("_ascending", "_in_order", "family", "qualifier_bytes", "qualifier_bytes_max", "qualifiers")

    def __init__(self, family: bytes, qualifiers: Sequence[bytes]) -> None:
        """qualifiers: at least one, all different."""
        assert len(set(qualifiers)) == len(qualifiers) > 0, f"the columns {qualifiers}"
        self.family = family
        self.qualifiers = tuple(qualifiers)
        self.qualifier_bytes = sum(map(len, qualifiers))
        self.qualifier_bytes_max = max(map(len, qualifiers))
        places = sorted(range(len(qualifiers)), key=self.qualifiers.__getitem__)
        self._ascending = tuple([self.qualifiers[place] for place in places])
        # Picks the values in this order; None if they are in it.
        self._in_order = itemgetter(*places) if self._ascending != self.qualifiers else None

    def ascending(self, values: Sequence[bytes]) -> Iterable[tuple[bytes, bytes]]:
        """Returns qualifier and value of each put of a row, in ascending order of the qualifiers."""
        return zip(self._ascending, values if self._in_order is None else self._in_order(values), strict=True)


class RowPuts(Sequence[Put]):
    """The puts of a row. They are made when they are asked for."""

    __slots__ = ("columns", "value_bytes", "value_bytes_max", "values")

    def __init__(self, columns: PutColumns, values: Sequence[bytes], value_bytes: int, value_bytes_max: int) -> None:
        """values: one for each column; all of them have `value_bytes`, the longest has `value_bytes_max`."""
        assert len(values) == len(columns.qualifiers), f"{len(values)} values of {len(columns.qualifiers)} columns"
        self.columns = columns
        self.values = values
        self.value_bytes = value_bytes
        self.value_bytes_max = value_bytes_max

    def __iter__(self) -> Iterator[Put]:
        return map(Put, repeat(self.columns.family), self.columns.qualifiers, self.values)

    def __len__(self) -> int:
        return len(self.values)

    @overload
    def __getitem__(self, place: int) -> Put: ...

    @overload
    def __getitem__(self, place: slice) -> Sequence[Put]: ...

    def __getitem__(self, place: int | slice) -> Put | Sequence[Put]:
        if isinstance(place, slice):
            return tuple(self)[place]
        return Put(self.columns.family, self.columns.qualifiers[place], self.values[place])

    def __eq__(self, other: object) -> bool:
        return tuple(self) == tuple(other) if isinstance(other, Sequence) else NotImplemented

    def __repr__(self) -> str:
        return repr(tuple(self))

    def __hash__(self) -> int:
        return hash(tuple(self))
