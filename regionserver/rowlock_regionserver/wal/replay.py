"""The replay: records delivered in log order, and what they say about their regions' chains.

Each change names its region's previous logged write number, so a lost record breaks a chain at the region's next one.
After damage, a region is proven whole only by a marker or a reservation that names the end of its chain as it was
read: a change alone does not show that no reservation was lost. What is not proven is named as damaged.

A partial marker proves more than the regions that it names. All that was logged since the position that it gives is of
these. So when the oldest damage that is unresolved begins at or after that position, no other region can have lost
anything in it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from rowlock_regionserver.errors import CorruptionError
from rowlock_regionserver.wal.marker import (
    BROKEN,
    Marker,
    RegionState,
    decode_generation,
    decode_marker,
    decode_reservation,
)
from rowlock_regionserver.wal.reader import SegmentBytes
from rowlock_regionserver.wal.record import (
    GENERATION,
    HEADER_BYTES,
    RECORD,
    RESERVATION,
    SIZE_MASK,
    SIZE_ROUNDING,
    Position,
    extend_checksum,
)

Apply = Callable[[int, int, int, bytes], None]

# As an end of a chain: no write number equals it, so each later record of the region leaves the short path.
_BROKEN_CHAIN = -1


@dataclass(frozen=True, slots=True)
class Damage:
    """Where the log lost something that was proven durable, and how that shows."""

    path: Path
    offset: int
    expected: str
    found: str

    def error(self) -> CorruptionError:
        return CorruptionError(self.path, self.offset, self.expected, self.found)


class Replay:
    """The state of all chains while the log is read from its oldest segment on. For one thread."""

    def __init__(self, apply: Apply, flushed: Mapping[int, int]) -> None:
        self._apply = apply
        self._flushed = flushed
        self._last: dict[int, int] = {}
        self._reserved: dict[int, tuple[int, int]] = {}
        self._generations: dict[int, int] = {}
        self._starts: dict[int, int] | None = None  # the chains' ends before the oldest segment
        self._proven: set[int] = set()  # regions proven whole since the last gap
        self._gap: Damage | None = None
        self._doubt: Position | None = None  # where the oldest gap begins that some region is not proven whole after
        self._hidden: Damage | None = None
        self.broken: dict[int, Damage] = {}
        self.catalog_generation = 0
        self.record_count = 0

    def read(self, segment: SegmentBytes, start: int, limit: int, touched: dict[int, int]) -> tuple[int, Position]:
        """Delivers the valid records from `start` on, up to the first bad one or `limit`.

        Returns where it stopped, and what the last record calls proven durable, which is the greatest such position
        as positions never go back. Adds each region with its last write number to `touched`.
        """
        path, data, seed, version = segment.path, segment.data, segment.seed, segment.version
        first_of_log = GENERATION if version > 1 else RESERVATION
        offset = start
        durable_segment = durable_offset = 0
        last, last_of = self._last, self._last.get
        unpack, extend, apply = RECORD.unpack_from, extend_checksum, self._apply
        count = 0
        last_start = limit - HEADER_BYTES
        while offset <= last_start:
            checksum, length, region_id, write_number, previous, proven_segment, proven_offset, kind = unpack(
                data, offset
            )
            end = offset + ((length + SIZE_ROUNDING) & SIZE_MASK)
            if not kind or end > limit or extend(seed ^ offset, data[offset + 4 : end]) != checksum:
                break
            payload = data[offset + HEADER_BYTES : offset + HEADER_BYTES + length]
            durable_segment, durable_offset = proven_segment, proven_offset
            if kind < first_of_log:
                touched[region_id] = write_number
                if last_of(region_id, 0) == previous or self._mends(path, offset, region_id, previous):
                    last[region_id] = write_number
                    apply(region_id, write_number, kind, payload)
                    count += 1
            elif kind == RESERVATION:
                self._reservation(path, offset, region_id, previous, payload)
            elif kind == GENERATION:
                self._generation(path, offset, region_id, previous, payload)
            else:
                self._marker(path, offset, payload, version)
            offset = end
        self.record_count += count
        return offset, Position(durable_segment, durable_offset)

    def gap(self, damage: Damage, start: Position) -> None:
        """Proven records are lost from `start` on: nothing is whole until it is proven again."""
        self._gap = self._hidden = damage
        self._doubt = self._doubt or start
        self._proven = set()

    def finish(self) -> None:
        """The log has ended: what was not proven whole since the last gap is damaged."""
        if self._gap is None:
            return
        for region_id in self._last:
            if region_id not in self._proven and region_id not in self.broken:
                self.broken[region_id] = self._gap

    def damage_of_unknown(self) -> Damage | None:
        """Why a region that the log does not know may have lost records; None when it can't have."""
        return self._hidden

    def regions(self) -> dict[int, RegionState]:
        """The regions whose chains are whole."""
        return {
            region_id: RegionState(last, *self._reserved.get(region_id, (0, 0)), self._generations.get(region_id, 0))
            for region_id, last in self._last.items()
            if region_id not in self.broken
        }

    def starts(self) -> Mapping[int, int]:
        """What must be in store files, because the log begins after it: region and write number."""
        return self._starts or {}

    def _break(self, path: Path, offset: int, region_id: int, expected: str, found: str) -> None:
        self._last[region_id] = _BROKEN_CHAIN
        self.broken.setdefault(region_id, self._gap or Damage(path, offset, expected, found))

    def _mends(self, path: Path, offset: int, region_id: int, end: int) -> bool:
        """Whether a chain that should end at `end` is whole although it was not read so: what is missing is flushed.

        If not, the region is damaged.
        """
        known = self._last.get(region_id, 0)
        if known != _BROKEN_CHAIN and known < end <= self._flushed.get(region_id, 0):
            return True
        self._break(path, offset, region_id, f"region {region_id} to go on after write number {known}", f"after {end}")
        return False

    def _reservation(self, path: Path, offset: int, region_id: int, end: int, payload: bytes) -> None:
        try:
            numbers_until, stamps_until = decode_reservation(payload)
        except ValueError as error:
            raise CorruptionError(path, offset, "a reservation", str(error)) from None
        self._reserve(region_id, numbers_until, stamps_until)
        self._prove(path, offset, region_id, end)

    def _generation(self, path: Path, offset: int, region_id: int, end: int, payload: bytes) -> None:
        try:
            generation = decode_generation(payload)
        except ValueError as error:
            raise CorruptionError(path, offset, "a generation", str(error)) from None
        if not region_id:
            self.catalog_generation = max(generation, self.catalog_generation)
            return
        self._note_generation(region_id, generation)
        # As little as a change it shows that no reservation was lost.
        if self._last.setdefault(region_id, 0) == end or self._mends(path, offset, region_id, end):
            self._last[region_id] = end

    def _marker(self, path: Path, offset: int, payload: bytes, version: int) -> None:
        try:
            marker = decode_marker(payload, version)
        except ValueError as error:
            raise CorruptionError(path, offset, "a marker", str(error)) from None
        if self._starts is None and self._gap is None and not self._last:
            self._begin(path, offset, marker)
        self.catalog_generation = max(marker.catalog_generation, self.catalog_generation)
        for region_id, state in marker.regions.items():
            if state.last_logged == BROKEN:
                self._break(path, offset, region_id, "a whole chain", "a region that was damaged before")
                continue
            self._reserve(region_id, state.numbers_until, state.stamps_until)
            self._note_generation(region_id, state.manifest_generation)
            self._prove(path, offset, region_id, state.last_logged)
        if not marker.is_partial:
            self._forget(self._last.keys() - marker.regions.keys())
        elif self._doubt is not None and marker.since <= self._doubt:
            self._proven.update(self._last)
        elif self._doubt is not None:
            return  # It does not tell of the others, nor of those that are unknown.
        self._doubt = None
        self._hidden = (
            Damage(path, offset, "a complete marker", "one that knows of unknown lost records")
            if marker.is_incomplete
            else None
        )

    def _forget(self, region_ids: Iterable[int]) -> None:
        """A region that is not in a full marker was dropped, or never logged anything."""
        for region_id in list(region_ids):
            del self._last[region_id]
            self._reserved.pop(region_id, None)
            self._generations.pop(region_id, None)
            self.broken.pop(region_id, None)

    def _begin(self, path: Path, offset: int, marker: Marker) -> None:
        """The first marker of the log: what it names lies before the log, in store files if they know of it."""
        self._starts = {}
        for region_id, state in marker.regions.items():
            start = state.last_logged
            if start == BROKEN:
                continue
            self._starts[region_id] = self._last[region_id] = start
            flushed = self._flushed.get(region_id, start)
            if flushed < start:
                self._break(
                    path,
                    offset,
                    region_id,
                    f"region {region_id} flushed up to write number {start}, where the log begins",
                    f"flushed up to {flushed}",
                )

    def _reserve(self, region_id: int, numbers_until: int, stamps_until: int) -> None:
        numbers_before, _ = self._reserved.get(region_id, (0, 0))
        self._reserved[region_id] = (max(numbers_until, numbers_before), stamps_until)

    def _note_generation(self, region_id: int, generation: int) -> None:
        self._generations[region_id] = max(generation, self._generations.get(region_id, 0))

    def _prove(self, path: Path, offset: int, region_id: int, end: int) -> None:
        """A record says that the region's chain ends at `end` here."""
        known = self._last.setdefault(region_id, 0)
        if known == end or self._mends(path, offset, region_id, end):
            self._last[region_id] = end
            self._proven.add(region_id)
