"""Commits of bulk writes, as the catalog keeps them.

1. A region's log record of a bulk write counts only if the catalog has its commit. So writing the catalog commits all
   regions at once. A commit's regions are listed until their manifests say that they have flushed it.
2. A commit is remembered for a day by the number of its bulk write, so that a repeated call is answered.
3. A commit with an identity, a text and a number, is remembered for the configured days. Consecutive numbers of a text
   are one range, whose age is that of its last number.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from rowlock_regionserver.config import Config
from rowlock_regionserver.errors import LimitExceededError

_DAY_MS = 24 * 3600 * 1000
# Remembered commits whose regions are flushed.
_REMEMBERED_MAX = 1000


class Identity(NamedTuple):
    """Makes a commit of a table happen once."""

    text: str
    number: int


class IdentityRange(NamedTuple):
    """The numbers from `first` to `last` of a text are committed; the last one at `committed_ms`."""

    table_id: int
    text: str
    first: int
    last: int
    committed_ms: int


@dataclass(frozen=True, slots=True)
class CommitEntry:
    """One commit. `regions`: (region id, its last write number), of those that may not have flushed it."""

    number: int
    table_id: int
    bulk_write_number: int
    committed_ms: int
    row_count: int
    cell_count: int
    timestamp: int
    regions: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class Commits:
    """The commits of a data folder, the oldest first. Immutable."""

    entries: tuple[CommitEntry, ...] = ()
    identities: tuple[IdentityRange, ...] = ()

    @property
    def numbers(self) -> frozenset[int]:
        """The numbers of all commits of which the log may have records that are not flushed."""
        return frozenset([entry.number for entry in self.entries])

    def of_write(self, bulk_write_number: int) -> CommitEntry | None:
        """Returns the commit of this bulk write; None if there is none, or it is not remembered."""
        found = [each for each in self.entries if each.bulk_write_number == bulk_write_number]
        return found[0] if found else None

    def has_identity(self, table_id: int, identity: Identity) -> bool:
        """Whether a commit of this identity is known."""
        return any(
            each.table_id == table_id and each.text == identity.text and each.first <= identity.number <= each.last
            for each in self.identities
        )

    def with_commit(
        self, entry: CommitEntry, identity: Identity | None, is_flushed: Callable[[int, int], bool], config: Config
    ) -> Commits:
        """Returns the commits with one more, without what is no longer needed.

        `is_flushed(region id, write number)`: whether no log record up to the number will be replayed. Raises
        LimitExceededError for too many identities.
        """
        entries = [
            replace(each, regions=tuple([place for place in each.regions if not is_flushed(*place)]))
            for each in self.entries
        ]
        remembered = [
            each
            for place, each in enumerate(entries)
            if each.regions
            or (each.committed_ms > entry.committed_ms - _DAY_MS and place >= len(entries) - _REMEMBERED_MAX)
        ]
        return Commits((*remembered, entry), self._with_identity(entry, identity, config))

    def _with_identity(
        self, entry: CommitEntry, identity: Identity | None, config: Config
    ) -> tuple[IdentityRange, ...]:
        oldest_ms = entry.committed_ms - config.commit_identities_days * _DAY_MS
        known = [each for each in self.identities if each.committed_ms > oldest_ms]
        if identity is None:
            return tuple(known)
        of_text: list[IdentityRange] = []
        others: list[IdentityRange] = []
        for each in known:
            (of_text if (each.table_id, each.text) == (entry.table_id, identity.text) else others).append(each)
        added = IdentityRange(entry.table_id, identity.text, identity.number, identity.number, entry.committed_ms)
        joined = joined_ranges([*of_text, added])
        range_count = len(joined) + sum(each.table_id == entry.table_id for each in others)
        # Each catalog that is written has them all.
        if len(joined) > len(of_text) and range_count > config.commit_identities_max:
            raise LimitExceededError(
                f"the table has commits of {range_count - 1} ranges of identities in the last "
                f"{config.commit_identities_days} days, and commit_identities_max is {config.commit_identities_max}; "
                "use few texts, each with numbers that count up by 1",
                limit="commit_identities_max",
                limit_value=config.commit_identities_max,
                found=range_count,
            )
        return tuple(others + joined)


NO_COMMITS = Commits()


def joined_ranges(ranges: Sequence[IdentityRange]) -> list[IdentityRange]:
    """Joins the ranges of one text that are adjacent; the later time counts."""
    joined: list[IdentityRange] = []
    for each in sorted(ranges, key=lambda found: found.first):
        if joined and joined[-1].last + 1 == each.first:
            committed_ms = max(joined[-1].committed_ms, each.committed_ms)
            joined[-1] = joined[-1]._replace(last=each.last, committed_ms=committed_ms)
        else:
            joined.append(each)
    return joined


def commits_to_json(commits: Commits) -> dict[str, object]:
    """Returns the fields of the catalog; none without commits."""
    fields: dict[str, object] = {}
    if commits.entries:
        fields["commits"] = [
            [
                each.number,
                each.table_id,
                each.bulk_write_number,
                each.committed_ms,
                each.row_count,
                each.cell_count,
                each.timestamp,
                each.regions,
            ]
            for each in commits.entries
        ]
    if commits.identities:
        fields["identities"] = commits.identities
    return fields


def commits_from_json(fields: Mapping[str, Any]) -> Commits:  # Any: JSON
    """The inverse of `commits_to_json`. Raises TypeError or ValueError for fields of another version."""
    return Commits(
        tuple([_entry_from_json(each) for each in fields.get("commits", ())]),
        tuple([IdentityRange(*each) for each in fields.get("identities", ())]),
    )


def _entry_from_json(fields: Any) -> CommitEntry:  # Any: JSON
    number, table_id, bulk_write_number, committed_ms, row_count, cell_count, timestamp, regions = fields
    places = tuple([(region_id, write_number) for region_id, write_number in regions])
    return CommitEntry(
        number, table_id, bulk_write_number, committed_ms, row_count, cell_count, timestamp, regions=places
    )
