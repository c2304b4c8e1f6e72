"""The limits of each family as one region has applied them: a part of its manifest.

The catalog has the limits that are wanted. An alter commits them there first, then each region applies them at a write
number of its own, and commits that in its manifest before it takes another write. So after a crash the log of a region
has no write under limits that its manifest does not know, and the start applies the catalog's limits after the replay.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass, replace

from rowlock_regionserver.cells import Family, PastLimits
from rowlock_regionserver.table import Table


@dataclass(frozen=True, slots=True)
class AppliedLimits:
    """The limits of one family, and those from before its alters."""

    versions: int
    min_versions: int
    time_to_live_ms: int
    past: tuple[PastLimits, ...] = ()

    @staticmethod
    def of(family: Family) -> AppliedLimits:
        return AppliedLimits(family.versions, family.min_versions, family.time_to_live_ms, family.past)

    def to_json(self) -> dict[str, object]:
        return {
            "versions": self.versions,
            "min_versions": self.min_versions,
            "time_to_live_ms": self.time_to_live_ms,
            "past": [astuple(limits) for limits in self.past],
        }

    @staticmethod
    def from_json(fields: Mapping[str, int], past: Sequence[Sequence[int]]) -> AppliedLimits:
        return AppliedLimits(
            fields["versions"],
            fields["min_versions"],
            fields["time_to_live_ms"],
            tuple(PastLimits(*limits) for limits in past),
        )


def limits_of(table: Table) -> dict[int, AppliedLimits]:
    """Returns the limits of the table's families, by family number."""
    return {family.number: AppliedLimits.of(family) for family in table.families}


def with_applied_limits(table: Table, applied: Mapping[int, AppliedLimits]) -> Table:
    """Returns the catalog's table with the limits that the region has applied, by family number."""
    families = []
    for family in table.families:
        limits = applied.get(family.number)
        families.append(
            family
            if limits is None
            else replace(
                family,
                versions=limits.versions,
                min_versions=limits.min_versions,
                time_to_live_ms=limits.time_to_live_ms,
                past=limits.past,
            )
        )
    return replace(table, families=tuple(families))
