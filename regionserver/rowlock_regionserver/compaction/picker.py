"""Which files of a store are compacted next: a pure function of what is known of the files.

Invariants of each plan, for any files:

1. Its inputs are neighbours in the store's order, and at most `files_max` of them.
2. A major plan has the oldest file. So for its rows no older cell is left out, and it may drop tombstones.
3. A minor plan has deltas alone, or drops all its inputs unread.
4. It makes progress: afterwards there are fewer files, or fewer deltas, or fewer bases with something to drop, or fewer
   clipped files. So plans come to an end, and an idle store stays idle until it is written to, its region is split, a
   reader ends, or time passes.

`pick` makes the first of these plans that is due (docs/compaction.md has a picture):

1. Files whose every cell has expired are dropped.
2. Major: all files are compacted because of the deltas' bytes or number, of what can be dropped, or of age.
3. Minor: neighbouring deltas of similar size become one. If there are too many deltas of different sizes, the run that
   is the cheapest becomes one.
4. Clipped files are rewritten: deltas by a minor compaction, bases by a major one. A split has left rows in them that
   belong to other regions (storefile/clipped_run.py), and take disk.

A major compaction costs the whole base, so the deltas must be a share of it: their number alone leads to a minor one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum
from itertools import groupby

from rowlock_regionserver.compaction.row_groups import RowSpan, row_groups
from rowlock_regionserver.compaction.settings import CompactionSettings
from rowlock_regionserver.compaction.size_tiers import cheapest_run, similar_run

# `major_deltas` deltas lead to a major compaction from this part of `major_delta_share` on.
_SHARE_PART = 10
# With this many files a store without a base gets one: that costs little, as the store is small, and a table that was
# written three times over is as large and as quick to read as one that was written once.
_FILES_OF_FIRST_BASE = 3
# A major compaction makes at most files_max / 4 + 1 bases (row_groups.py), so the next one has room for deltas.
_GROUP_PART = 8
_DAY_MS = 24 * 3600 * 1000


class Kind(Enum):
    """What a compaction makes of its inputs."""

    MINOR = "minor"  # neighbouring deltas become one delta
    MAJOR = "major"  # the inputs become bases


@dataclass(frozen=True, slots=True)
class FileFacts:
    """What the picker knows of a store file. Rows are inclusive at both ends."""

    number: int
    byte_count: int
    cell_count: int
    tombstone_count: int  # of any kind
    expired_count: int  # cells, estimated; those that a reader still protects do not count
    is_all_expired: bool  # exact: the file may be dropped unread
    is_base: bool
    is_protected: (
        bool  # a protected read point is below its newest cell, so tombstones and old versions may have to stay
    )
    age_ms: int  # since the oldest of its cells was flushed; of a base, since it was written
    first_row: bytes
    last_row: bytes
    row_count: int = 0  # 0: unknown
    family_tombstone_count: int = 0  # those of the tombstones that delete a whole row
    has_surplus_versions: bool = False  # beyond the family's limit
    is_clipped: bool = (
        False  # some of its rows belong to other regions; bytes and counts are then estimates of the rest
    )

    @property
    def has_deleted_cells(self) -> bool:
        """Whether a major compaction drops tombstones or versions of this file, even if it is compacted alone."""
        return not self.is_protected and (self.tombstone_count > 0 or self.has_surplus_versions)

    @property
    def must_rewrite(self) -> bool:
        """Whether a major compaction leaves out cells of this file, even if it is compacted alone."""
        return self.has_deleted_cells or self.expired_count > 0 or self.is_clipped


@dataclass(frozen=True, slots=True)
class Plan:
    """One compaction. Each input is in exactly one of `groups`, `moved` and `dropped`."""

    kind: Kind
    inputs: tuple[int, ...]  # file numbers, newest first
    why: str  # for the operator
    groups: tuple[tuple[int, ...], ...] = ()  # each becomes one file; newest first; of a major plan, in row order
    moved: tuple[int, ...] = ()  # become bases, or stay bases, unread
    dropped: tuple[int, ...] = ()  # all cells have expired: removed unread
    is_continued: bool = False  # a request is not done with this plan: call pick_requested again


def pick(files: Sequence[FileFacts], settings: CompactionSettings) -> Plan | None:
    """Returns the compaction that is due, or None. `files` are all of a store, newest first."""
    if not settings.automatic:
        return None
    plan = _dropping(files, settings)
    if plan is None and (why := _why_major(files, settings)):
        plan = _major(files, settings, why)
    plan = plan or _minor(files, settings) or _unclipping(files, settings)
    return plan and replace(plan, is_continued=False)


def pick_requested(files: Sequence[FileFacts], settings: CompactionSettings, *, major: bool) -> Plan | None:
    """Returns the compaction that does the most, due or not, or None if it would change nothing.

    If the plan `is_continued`, the request is done after those that this function returns then, until one is not
    continued or there is none.
    """
    if major:
        return _major(files, settings, "requested")
    return _dropping(files, settings) or _minor_of_all(files, settings, "requested")


def _why_major(files: Sequence[FileFacts], settings: CompactionSettings) -> str:
    """Returns why a major compaction is due, or an empty string."""
    deltas = [file for file in files if not file.is_base]
    has_base = len(deltas) < len(files)
    if not has_base:
        deltas = deltas[:-1]  # Until there is a base, the oldest delta counts as one.
    delta_bytes = _bytes(deltas)
    base_bytes = _bytes(files) - delta_bytes
    share_min = settings.major_delta_share
    is_share = share_min > 0 and delta_bytes >= share_min * base_bytes
    if deltas and is_share and (has_base or len(files) >= _FILES_OF_FIRST_BASE):
        return f"deltas are {delta_bytes / max(base_bytes, 1):.0%} of the {'bases' if has_base else 'oldest file'}"
    if _are_too_many(deltas, settings) and delta_bytes >= share_min / _SHARE_PART * base_bytes:
        return f"{len(deltas)} deltas"
    dropped_share = _dropped_share(files)
    if settings.major_dropped_share and dropped_share >= settings.major_dropped_share:
        return f"{dropped_share:.0%} of the cells are deleted or expired"
    age_ms = max((file.age_ms for file in files if not file.is_base or file.has_deleted_cells), default=0)
    if settings.major_age_ms and age_ms >= settings.major_age_ms:
        return f"a file is {age_ms / _DAY_MS:.1f} days old"
    return ""


def _are_too_many(deltas: Sequence[FileFacts], settings: CompactionSettings) -> bool:
    return 0 < settings.major_deltas <= len(deltas)


def _dropped_share(files: Sequence[FileFacts]) -> float:
    """Returns the share of the cells that a major compaction would drop, estimated.

    A tombstone hides one cell, or as many as a row has. Tombstones that a reader protects do not count: a compaction
    would retain them, and the next one be due at once.
    """
    cells = sum(file.cell_count for file in files)
    droppable = [file for file in files if not file.is_protected]
    tombstones = sum(file.tombstone_count for file in droppable)
    family_tombstones = sum(file.family_tombstone_count for file in droppable)
    puts = cells - sum(file.tombstone_count for file in files)
    rows = sum(file.row_count for file in files)
    row_cells = max(1.0, puts / rows) if rows else 1.0
    hidden = min(puts, tombstones - family_tombstones + family_tombstones * row_cells)
    expired = sum(file.expired_count for file in files)
    return min(1.0, (tombstones + hidden + expired) / cells) if cells else 0.0


def _dropping(files: Sequence[FileFacts], settings: CompactionSettings) -> Plan | None:
    """Returns a plan that drops the longest run of files whose every cell has expired."""
    run = _longest_run(files, [file.is_all_expired for file in files])[: settings.files_max]
    numbers = _numbers(run)
    return Plan(Kind.MINOR, numbers, "all cells have expired", dropped=numbers, is_continued=True) if run else None


def _major(files: Sequence[FileFacts], settings: CompactionSettings, why: str) -> Plan | None:
    """Returns a plan for all files; if they are too many, one that brings it nearer."""
    if len(files) > settings.files_max and any(file.is_base for file in files):
        # Otherwise the base would be written again for each part of the deltas.
        first = _minor_of_all(
            files, settings, f"{why}; first {settings.files_max} of {len(files)} files", is_first=True
        )
        if first:
            return first
    inputs = files[-settings.files_max :]
    left = [file for file in inputs if not file.is_all_expired]
    spans = [RowSpan(file.first_row, file.last_row, file.byte_count, file.must_rewrite) for file in left]
    enough_bytes = max(settings.move_bytes_min, _GROUP_PART * _bytes(inputs) // settings.files_max + 1)
    groups = [[left[index] for index in group] for group in row_groups(spans, enough_bytes)]
    moved = {group[0].number for group in groups if len(group) == 1 and not group[0].must_rewrite}
    if len(moved) == len(inputs) and all(file.is_base for file in inputs):
        return None
    return Plan(
        Kind.MAJOR,
        _numbers(inputs),
        why,
        groups=tuple(_numbers(group) for group in groups if group[0].number not in moved),
        moved=_numbers([file for file in left if file.number in moved]),
        dropped=_numbers([file for file in inputs if file.is_all_expired]),
        is_continued=len(inputs) < len(files),
    )


def _minor(files: Sequence[FileFacts], settings: CompactionSettings) -> Plan | None:
    """Returns the plan of the size tiers."""
    run = _longest_run(files, [not file.is_base for file in files])
    byte_counts = [file.byte_count for file in run]
    found = similar_run(byte_counts, settings.minor_files_min, settings.minor_size_ratio, settings.files_max)
    why = "of similar size"
    if found is None and _are_too_many(run, settings):
        found = cheapest_run(byte_counts, settings.files_max)
        why = f"of {len(run)}, the cheapest to compact"
    if found is None:
        return None
    numbers = _numbers(run[found.start : found.stop])
    return Plan(Kind.MINOR, numbers, f"{len(numbers)} deltas {why}", groups=(numbers,))


def _unclipping(files: Sequence[FileFacts], settings: CompactionSettings) -> Plan | None:
    """Returns a plan that rewrites clipped files; if only deltas are clipped, no others."""
    clipped = [file for file in files if file.is_clipped]
    if not clipped:
        return None
    why = f"{len(clipped)} {'files have' if len(clipped) > 1 else 'file has'} rows of other regions, after a split"
    if any(file.is_base for file in clipped):
        return _major(files, settings, why)
    numbers = _numbers(_longest_run(files, [file.is_clipped for file in files])[: settings.files_max])
    return Plan(Kind.MINOR, numbers, why, groups=(numbers,))


def _minor_of_all(
    files: Sequence[FileFacts], settings: CompactionSettings, why: str, *, is_first: bool = False
) -> Plan | None:
    """Returns a plan that makes one delta of all, or of the oldest if they are too many."""
    run = _longest_run(files, [not file.is_base for file in files])
    numbers = _numbers(run[-settings.files_max :])
    if len(numbers) < 2:
        return None
    return Plan(Kind.MINOR, numbers, why, groups=(numbers,), is_continued=is_first or len(numbers) < len(run))


def _longest_run(files: Sequence[FileFacts], wanted: Sequence[bool]) -> Sequence[FileFacts]:
    """Returns the longest run of neighbours that are all wanted; the newest of several."""
    runs = [
        [index for index, _ in group]
        for is_wanted, group in groupby(enumerate(wanted), lambda item: item[1])
        if is_wanted
    ]
    longest = max(runs, key=len, default=[])
    return [files[index] for index in longest]


def _bytes(files: Sequence[FileFacts]) -> int:
    return sum(file.byte_count for file in files)


def _numbers(files: Sequence[FileFacts]) -> tuple[int, ...]:
    return tuple(file.number for file in files)
