"""The plain model of reads for a table whose limits are altered: an alter is an event between two writes."""

from __future__ import annotations

from dataclasses import dataclass

from rowlock_regionserver.cells import PUT, Family

from tests.property.list_source import Write
from tests.property.scan_model import Model, apply_write, seen_versions


@dataclass(frozen=True, slots=True)
class Alter:
    """The limits of a family before and after an alter, which has a number and a time."""

    write_number: int
    now_ms: int
    before: Family
    after: Family


@dataclass(frozen=True, slots=True)
class AlteredModel(Model):
    """A model with the alters so far; `families` have the limits of now."""

    alters: tuple[Alter, ...] = ()

    def _visible(self, row: bytes, family: Family) -> dict[bytes, list[tuple[int, bytes]]]:
        """Returns (timestamp, value) by qualifier, newest first."""
        of_family = [alter for alter in self.alters if alter.after.name == family.name]
        events: list[Write | Alter] = [*of_family]
        events += [write for write in self.writes if write.row == row and write.family == family.name]
        versions = of_family[0].before.versions if of_family else family.versions
        live: dict[bytes, dict[int, bytes]] = {}
        # Within one write number the tombstones come first.
        for event in sorted(events, key=lambda event: (event.write_number, getattr(event, "kind", None) == PUT)):
            if isinstance(event, Write):
                if event.write_number <= self.read_point.write_number:
                    apply_write(event, live, versions)
            else:
                versions = event.after.versions
                for column in live.values():
                    _alter(column, event)
        return seen_versions(live, family, self.read_point.now_ms)


def _alter(column: dict[int, bytes], alter: Alter) -> None:
    """Removes what has expired, for good, and what exceeds the new limit."""
    before = alter.before
    for timestamp in sorted(column):
        is_expired = before.time_to_live_ms and timestamp + before.time_to_live_ms <= alter.now_ms
        if (is_expired and not before.min_versions) or len(column) > alter.after.versions:
            del column[timestamp]
