"""What the log knows of its regions at its end: where their chains end, what they reserved, and what is new of them.

Markers are made of it. A full one names every region. A partial one names those with something new since the marker
before; see docs/wal_format.md for what it proves all the same.
"""

from __future__ import annotations

from rowlock_regionserver.wal.marker import BROKEN, Marker, RegionState, marker_size
from rowlock_regionserver.wal.record import Position
from rowlock_regionserver.wal.recovered import Recovered

# A marker of an idle log names every region once the log has grown by so many times its size: then names are at most
# this share of the log, however many regions there are, and damage leaves the others in doubt no further than that.
_FULL_MARKER_SHARE = 16


class Chains:
    """Guarded by the log's order lock."""

    def __init__(self, recovered: Recovered, head_end: Position) -> None:
        """As a recovery found them, in a segment whose head ends there."""
        regions = recovered.regions
        self.last = {region_id: state.last_logged for region_id, state in regions.items()}  # by region
        # The regions with something since the last marker. The segment began with copies of these changes.
        self.news = {record.region_id for record in recovered.unproven_changes()}
        self._reserved = {region_id: (state.numbers_until, state.stamps_until) for region_id, state in regions.items()}
        self._generations = {region_id: state.manifest_generation for region_id, state in regions.items()}
        self._broken = set(recovered.broken)
        self._is_incomplete = recovered.unknown_broken is not None
        self._since = head_end
        self._full_marker_at = 0  # of the bytes appended
        self.catalog_generation = recovered.catalog_generation

    def reserve(self, region_id: int, numbers_until: int, stamps_until: int) -> tuple[int, int]:
        """Makes the region known; the bounds that count. That of numbers never goes back, that of stamps may."""
        numbers_before, _ = self._reserved.get(region_id, (0, 0))
        self.last.setdefault(region_id, 0)
        self._reserved[region_id] = max(numbers_until, numbers_before), stamps_until
        return self._reserved[region_id]

    def note_manifest(self, region_id: int, generation: int) -> None:
        """The region's manifest of this generation is durable."""
        self._generations[region_id] = generation

    def forget(self, region_id: int) -> None:
        """No later marker names the region."""
        self.last.pop(region_id, None)
        self.news.discard(region_id)
        self._reserved.pop(region_id, None)
        self._generations.pop(region_id, None)
        self._broken.discard(region_id)

    def states(self) -> dict[int, RegionState]:
        """What a full marker says at this moment."""
        states = {region_id: self._state(region_id) for region_id in self.last}
        states.update((region_id, RegionState(BROKEN)) for region_id in self._broken)
        return states

    def full_marker(self, *, is_last: bool = False) -> bytes:
        """Names every region. `is_last`: the log ends with it."""
        return Marker(
            self.states(), self._is_incomplete, is_last=is_last, catalog_generation=self.catalog_generation
        ).encode()

    def idle_marker(self, appended_bytes: int) -> tuple[bytes, bool]:
        """What an idle log to which so many bytes were appended is marked with, and whether that names every region."""
        region_count = len(self.last) + len(self._broken)
        grown_bytes = appended_bytes - self._full_marker_at
        if region_count == len(self.news) or grown_bytes >= _FULL_MARKER_SHARE * marker_size(region_count):
            return self.full_marker(), True
        partial = Marker(
            {region_id: self._state(region_id) for region_id in self.news},
            self._is_incomplete,
            is_partial=True,
            catalog_generation=self.catalog_generation,
            since=self._since,
        )
        return partial.encode(), False

    def marked(self, since: Position, appended_bytes: int, *, is_full: bool) -> None:
        """A marker was added. What the next partial one names came at or after `since`.

        A full marker tells what nothing else does, so what follows counts from its end. A partial one tells what was
        told by records before it, so nothing is lost with it.
        """
        self._since = since
        self.news.clear()
        if is_full:
            self._full_marker_at = appended_bytes

    def _state(self, region_id: int) -> RegionState:
        reserved = self._reserved.get(region_id, (0, 0))
        return RegionState(self.last[region_id], *reserved, self._generations.get(region_id, 0))
