"""The table of a region: its name, families, durability and properties."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from rowlock_regionserver.cells import Durability, Family
from rowlock_regionserver.errors import InvalidRequestError


@dataclass(frozen=True)
class Table:
    """A table as its regions serve it. `families` and `properties` ascend by name; ids are never reused."""

    name: str
    table_id: int
    families: tuple[Family, ...]
    durability: Durability = Durability.FSYNC
    properties: tuple[tuple[str, str], ...] = ()  # names and values; the parts that use them check them

    def __post_init__(self) -> None:
        names = [family.name for family in self.families]
        assert names == sorted(set(names)), names
        assert list(self.properties) == sorted(dict(self.properties).items()), self.properties

    @cached_property
    def by_name(self) -> Mapping[bytes, Family]:
        return {family.name: family for family in self.families}

    @cached_property
    def number_by_name(self) -> Mapping[bytes, int]:
        return {family.name: family.number for family in self.families}

    @cached_property
    def name_by_number(self) -> Mapping[int, bytes]:
        return {family.number: family.name for family in self.families}

    @property
    def newest_alter(self) -> int:
        """The greatest write number that an alter of the region has taken; 0: none has."""
        return max((limits.write_number for family in self.families for limits in family.past), default=0)

    def durability_of(self, requested: Durability | None) -> Durability:
        """The durability of a call that requests this one. Raises InvalidRequestError for less than the table's."""
        own = self.durability
        if requested is None or requested == own:
            return own
        if requested < own:
            raise InvalidRequestError(
                f"durability {requested.name.lower()} is less than table {self.name!r} guarantees, {own.name.lower()}; "
                "a call may request more, not less: alter the table instead",
                table=self.name,
            )
        return requested
