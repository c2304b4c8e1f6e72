"""What a region knows of its table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from rowlock_regionserver.cells import Durability, Family


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
