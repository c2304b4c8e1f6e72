"""Which files of a store are compacted next: a pure function of what is known of the files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from rowlock_regionserver.compaction.settings import CompactionSettings


class Kind(Enum):
    """What a compaction makes of its inputs."""

    MINOR = "minor"  # neighbouring deltas become one delta
    MAJOR = "major"  # all files become bases


@dataclass(frozen=True, slots=True)
class FileFacts:
    """What the picker knows of a store file. Rows are inclusive at both ends."""

    number: int
    byte_count: int
    cell_count: int
    tombstone_count: int  # of any kind
    expired_count: int  # cells, estimated
    is_all_expired: bool  # exact: the file may be dropped unread
    is_base: bool
    age_ms: int  # since the oldest of its cells was flushed; of a base, since it was written
    first_row: bytes
    last_row: bytes
    row_count: int = 0  # 0: unknown
    family_tombstone_count: int = 0  # those of the tombstones that delete a whole row
    has_surplus_versions: bool = False  # a compaction would drop versions, so a major one rewrites the file


@dataclass(frozen=True, slots=True)
class Plan:
    """One compaction. Inputs are neighbours; each is in exactly one of `groups`, `moved` and `dropped`."""

    kind: Kind
    inputs: tuple[int, ...]  # file numbers, newest first
    why: str  # for the operator
    groups: tuple[tuple[int, ...], ...] = ()  # each becomes one file; newest first
    moved: tuple[int, ...] = ()  # become bases unread
    dropped: tuple[int, ...] = ()  # all cells have expired: removed unread
    is_continued: bool = False  # files_max cut what is due: pick again afterwards


def pick(files: Sequence[FileFacts], settings: CompactionSettings) -> Plan | None:
    """Returns the compaction that is due, or None. `files` are those of a store, newest first."""
    raise NotImplementedError


def pick_requested(files: Sequence[FileFacts], settings: CompactionSettings, *, major: bool) -> Plan | None:
    """Returns the compaction that does as much as can be done, or None if it would change nothing."""
    raise NotImplementedError
