"""What a region knows of its table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from rowlock_regionserver.cells import Durability, Family
from rowlock_regionserver.errors import InvalidRequestError


@dataclass(frozen=True)
class Table:
    """A table as its regions serve it. `families` ascend by name; ids are never used again."""

    name: str
    table_id: int
    families: tuple[Family, ...]
    durability: Durability = Durability.FSYNC

    def __post_init__(self) -> None:
        names = [family.name for family in self.families]
        assert names == sorted(set(names)), names

    @cached_property
    def by_name(self) -> Mapping[bytes, Family]:
        return {family.name: family for family in self.families}

    @cached_property
    def number_by_name(self) -> Mapping[bytes, int]:
        return {family.name: family.number for family in self.families}

    @cached_property
    def name_by_number(self) -> Mapping[int, bytes]:
        return {family.number: family.name for family in self.families}

    def durability_of(self, asked: Durability | None) -> Durability:
        """What a call gets that asked for this. Raises InvalidRequestError for less than the table's."""
        own = self.durability
        if asked is None or asked == own:
            return own
        if asked < own:
            raise InvalidRequestError(
                f"durability {asked.name.lower()} is less than table {self.name!r} promises, {own.name.lower()}; "
                "one call may ask for more, not for less: alter the table instead",
                table=self.name,
            )
        return asked
