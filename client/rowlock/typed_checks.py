"""The result of a conditional change of a typed row."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

# From b"family:qualifier" and a cell's bytes to the column's name and its value; Any: of the column's type.
DecodeCell = Callable[[bytes, bytes], Any]


@dataclass(frozen=True, slots=True)
class TypedCheckResult:
    """The result of a conditional change. It is true if the condition held, so that the changes of `then` were made.

    applied: whether the condition held.
    stored: {b"family:qualifier": value} as bytes, for the column of each check, and each column of filters; None if
        the cell was absent. Servers of protocol 3 and earlier don't send those of filters.
    results: one per change made: an increment's new number, an append's new value, else None.

    `current` and `seen` are decoded at each access, and raise MappingError for bytes that don't fit the type.
    """

    applied: bool
    name_of: Callable[[bytes], str] = field(repr=False, compare=False)
    decode: DecodeCell = field(repr=False, compare=False)
    stored: Mapping[bytes, bytes | None] = field(default_factory=dict)
    results: Sequence[Any] = ()

    @property
    def current(self) -> Any:
        """The value that the first check found; None if the cell was absent."""
        for column, value in self.stored.items():
            return None if value is None else self.decode(column, value)
        return None

    @property
    def seen(self) -> dict[str, Any]:
        """The values that all checks and filters found, {name: value}; None for an absent cell."""
        return {
            self.name_of(column): None if value is None else self.decode(column, value)
            for column, value in self.stored.items()
        }

    def __bool__(self) -> bool:
        return self.applied
