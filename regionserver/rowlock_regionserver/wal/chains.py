"""The state of each region at the log's end: the end of its chain, its reservations, and whether it has new records.

Markers are made from it. A full marker names every region. A partial one names the regions with records since the
marker before; docs/wal_format.md says what it proves for the others.
"""

from __future__ import annotations

from rowlock_regionserver.wal.marker import DAMAGED, Marker, RegionState, marker_size
from rowlock_regionserver.wal.record import Position
from rowlock_regionserver.wal.recovered import Recovered

# A marker of an idle log names every region when the log has grown by this many times the marker's size. So at most one
# part in this many of the log is names, however many regions there are, and damage leaves other regions in doubt no
# further than that.
_FULL_MARKER_SHARE = 16


class Chains:
    """Guarded by the log's order lock."""

    def __init__(self, recovered: Recovered, head_end: Position) -> None:
        """The state that a recovery found, for a segment whose head ends at `head_end`."""
        regions = recovered.regions
        self.last = {region_id: state.last_logged for region_id, state in regions.items()}  # by region
        # The regions with records since the last marker. The segment began with copies of these changes.
        self.news = {record.region_id for record in recovered.unproven_changes()}
        # What the log says of each region. An entry is made after its record: without memory, neither is made.
        self.reserved = {region_id: (state.numbers_until, state.stamps_until) for region_id, state in regions.items()}
        self.generations = {region_id: state.manifest_generation for region_id, state in regions.items()}
        self._damaged = set(recovered.damaged)
        self._is_incomplete = recovered.unknown_damage is not None
        self._since = head_end
        self._full_marker_at = 0  # of the bytes appended
        self.catalog_generation = recovered.catalog_generation

    def to_reserve(self, region_id: int, numbers_until: int, stamps_until: int) -> tuple[int, int] | None:
        """Makes the region known. Returns the bounds to reserve: only that of stamps may go back.

        None: the log says so already, in the segment's head or since. So a start adds no record for each region.
        """
        self.last.setdefault(region_id, 0)
        before = self.reserved.get(region_id)
        bounds = max(numbers_until, before[0] if before is not None else 0), stamps_until
        return None if bounds == before else bounds

    def forget(self, region_id: int) -> None:
        """Removes the region: no later marker names it."""
        self.last.pop(region_id, None)
        self.news.discard(region_id)
        self.reserved.pop(region_id, None)
        self.generations.pop(region_id, None)
        self._damaged.discard(region_id)

    def states(self) -> dict[int, RegionState]:
        """The states of all regions, as a full marker lists them."""
        states = {region_id: self._state(region_id) for region_id in self.last}
        states.update((region_id, RegionState(DAMAGED)) for region_id in self._damaged)
        return states

    def full_marker(self, *, is_last: bool = False) -> bytes:
        """Returns a marker that names every region. `is_last`: the log ends with it."""
        return Marker(
            self.states(), self._is_incomplete, is_last=is_last, catalog_generation=self.catalog_generation
        ).encode()

    def idle_marker(self, appended_bytes: int) -> tuple[bytes, bool]:
        """Returns the marker for an idle log of this many appended bytes, and whether it names every region."""
        region_count = len(self.last) + len(self._damaged)
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
        """Notes that a marker was added. The next partial one names the regions with records at or after `since`.

        That is the end of a full marker, whose content is in no other record. It is the start of a partial marker: the
        records before it have the same content, so nothing is lost with it.
        """
        self._since = since
        self.news.clear()
        if is_full:
            self._full_marker_at = appended_bytes

    def _state(self, region_id: int) -> RegionState:
        reserved = self.reserved.get(region_id, (0, 0))
        return RegionState(self.last[region_id], *reserved, self.generations.get(region_id, 0))
