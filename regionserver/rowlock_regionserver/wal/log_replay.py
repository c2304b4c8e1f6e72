"""The replay: delivers records in log order, and checks the chains of their regions.

Each change names its region's previous logged write number, so a lost record breaks a chain at the region's next one.
After damage, only a marker or a reservation that names the end of a region's chain as it was read proves the region
intact: a change alone does not show that no reservation was lost. A region that is not proven intact counts as damaged.

A partial marker proves more than the regions that it names. All records since its position `since` are of these. So
when the oldest unresolved damage begins at or after that position, no other region can have lost a record in it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from rowlock_regionserver.errors import CorruptionError
from rowlock_regionserver.wal.marker import (
    DAMAGED,
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

# As the end of a chain: no write number equals it, so each later record of the region takes the slow path.
_BROKEN_CHAIN = -1


@dataclass(frozen=True, slots=True)
class Damage:
    """Where the log lost records that were proven durable, and the evidence."""

    path: Path
    offset: int
    expected: str
    found: str

    def error(self) -> CorruptionError:
        return CorruptionError(self.path, self.offset, self.expected, self.found)


class LogReplay:
    """The state of all chains while the log is read from its oldest segment on. For one thread."""

    def __init__(self, apply: Apply, flushed: Mapping[int, int]) -> None:
        self._apply = apply
        self._flushed = flushed
        self._last: dict[int, int] = {}
        self._reserved: dict[int, tuple[int, int]] = {}
        self._generations: dict[int, int] = {}
        self._starts: dict[int, int] | None = None  # the chains' ends before the oldest segment
        self._proven: set[int] = set()  # regions proven intact since the last gap
        self._gap: Damage | None = None
        self._unresolved_from: Position | None = None  # where the oldest unresolved gap begins
        self._unknown_damage: Damage | None = None
        self.damaged: dict[int, Damage] = {}
        self.catalog_generation = 0
        self.record_count = 0

    def read(self, segment: SegmentBytes, start: int, limit: int, touched: dict[int, int]) -> tuple[int, Position]:
        """Delivers the valid records from `start` on, up to the first bad one or `limit`.

        Returns where it stopped, and the position that the last record calls proven durable, which is the greatest one
        because these never go back. Adds each region with its last write number to `touched`.
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
                if last_of(region_id, 0) == previous or self._gap_is_flushed(path, offset, region_id, previous):
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
        """Notes that proven records are lost from `start` on: no region is intact until that is proven again."""
        self._gap = self._unknown_damage = damage
        self._unresolved_from = self._unresolved_from or start
        self._proven = set()

    def finish(self) -> None:
        """Ends the replay: regions that were not proven intact since the last gap are damaged."""
        if self._gap is None:
            return
        for region_id in self._last:
            if region_id not in self._proven and region_id not in self.damaged:
                self.damaged[region_id] = self._gap

    def damage_of_unknown(self) -> Damage | None:
        """Why a region that the log does not know may have lost records; None if it can't have."""
        return self._unknown_damage

    def regions(self) -> dict[int, RegionState]:
        """The regions whose chains are intact."""
        return {
            region_id: RegionState(last, *self._reserved.get(region_id, (0, 0)), self._generations.get(region_id, 0))
            for region_id, last in self._last.items()
            if region_id not in self.damaged
        }

    def starts(self) -> Mapping[int, int]:
        """By region, the write number up to which store files must have everything: the log begins after it."""
        return self._starts or {}

    def _break(self, path: Path, offset: int, region_id: int, expected: str, found: str) -> None:
        self._last[region_id] = _BROKEN_CHAIN
        self.damaged.setdefault(region_id, self._gap or Damage(path, offset, expected, found))

    def _gap_is_flushed(self, path: Path, offset: int, region_id: int, end: int) -> bool:
        """Whether the records that are missing before `end`, where the chain should end, are all flushed.

        If not, the region is marked as damaged.
        """
        known = self._last.get(region_id, 0)
        if known != _BROKEN_CHAIN and known < end <= self._flushed.get(region_id, 0):
            return True
        self._break(
            path, offset, region_id, f"region {region_id} to continue after write number {known}", f"after {end}"
        )
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
        # Like a change, it does not show that no reservation was lost.
        if self._last.setdefault(region_id, 0) == end or self._gap_is_flushed(path, offset, region_id, end):
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
            if state.last_logged == DAMAGED:
                self._break(path, offset, region_id, "an intact chain", "a region that was damaged before")
                continue
            self._reserve(region_id, state.numbers_until, state.stamps_until)
            self._note_generation(region_id, state.manifest_generation)
            self._prove(path, offset, region_id, state.last_logged)
        if not marker.is_partial:
            self._forget(self._last.keys() - marker.regions.keys())
        elif self._unresolved_from is not None and marker.since <= self._unresolved_from:
            self._proven.update(self._last)
        elif self._unresolved_from is not None:
            return  # It proves nothing for other regions, nor for unknown ones.
        self._unresolved_from = None
        self._unknown_damage = (
            Damage(path, offset, "a complete marker", "one that knows of unknown lost records")
            if marker.is_incomplete
            else None
        )

    def _forget(self, region_ids: Iterable[int]) -> None:
        """Removes regions that are not in a full marker: they were dropped, or never logged a record."""
        for region_id in list(region_ids):
            del self._last[region_id]
            self._reserved.pop(region_id, None)
            self._generations.pop(region_id, None)
            self.damaged.pop(region_id, None)

    def _begin(self, path: Path, offset: int, marker: Marker) -> None:
        """Reads the first marker of the log: the chains that it names end before the log, in store files."""
        self._starts = {}
        for region_id, state in marker.regions.items():
            start = state.last_logged
            if start == DAMAGED:
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
        """Checks a record that names `end` as the end of the region's chain."""
        known = self._last.setdefault(region_id, 0)
        if known == end or self._gap_is_flushed(path, offset, region_id, end):
            self._last[region_id] = end
            self._proven.add(region_id)
