"""Markers of an idle log name the regions with new records, and prove as much as full ones."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from rowlock_regionserver.wal.marker import Marker, RegionState, decode_marker
from rowlock_regionserver.wal.reader import unpack_records
from rowlock_regionserver.wal.record import MARKER
from rowlock_regionserver.wal.recovered import Recovered
from rowlock_regionserver.wal.segment import SEGMENT_HEADER_BYTES, segment_path

from tests.crash.simulated_files import Loss, SimulatedFiles, UnsyncedFiles
from tests.seeds import drawn_seed
from tests.unit.wal.log_case import Change, LogCase, read_all, segment_names, small_config
from tests.waiting import wait_until

MANY = 2000


def idle(case: LogCase) -> None:
    """Makes the log idle, and waits until its marker is durable, if there is a new one and space for it."""
    case.clock.advance(1000)
    pending = case.log._pending
    wait_until(lambda: pending._marker_end == pending.end() == case.log.durable)


def markers(folder: Path) -> Iterator[Marker]:
    recovered, _ = read_all(folder)
    for name in segment_names(folder):
        data = (folder / name).read_bytes()
        stop = recovered.end_bytes if name == segment_names(folder)[-1] else len(data)
        for record in unpack_records(data[SEGMENT_HEADER_BYTES:stop]):
            if record.kind == MARKER:
                yield decode_marker(record.payload, 2)


@pytest.fixture
def case(disk: SimulatedFiles) -> Iterator[LogCase]:
    case = LogCase(disk.root / "log", disk, small_config(log_segment_bytes=1 << 20)).open()
    yield case
    case.log.close()


def test_a_put_with_many_tables_adds_no_more_to_the_log_than_with_one(case: LogCase) -> None:
    for region_id in range(1, MANY + 1):
        case.reserve(region_id, 1, 1)
    case.log.sync()
    idle(case)
    before = case.log.statistics().appended_bytes
    for _ in range(5):
        case.append_synced(7, b"x" * 100)
        idle(case)
    assert case.log.statistics().appended_bytes - before < 5 * 500
    case.log.close()
    assert read_all(case.folder)[0].regions.keys() == set(range(1, MANY + 1))


def test_a_partial_marker_names_the_regions_with_records_since_the_one_before(case: LogCase) -> None:
    head_end = case.log.durable
    for region_id in range(1, 60):
        case.reserve(region_id, 10, 20)
    case.log.sync()
    idle(case)  # The first one: everything is new, so it is full.
    first_end = case.log.durable
    case.append_synced(5, b"x")
    second_start = case.log.durable
    idle(case)
    with case.log.order:
        case.log.note_manifest(9, 4)
        case.log.note_catalog(3)
    case.log.sync()
    idle(case)
    head, full, second, third = markers(case.folder)
    assert (head.regions, head.is_partial) == ({}, False)
    assert len(full.regions) == 59
    assert not full.is_partial
    assert head_end < first_end
    assert second == Marker({5: RegionState(1, 10, 20)}, is_partial=True, since=first_end)
    assert third == Marker({9: RegionState(0, 10, 20, 4)}, is_partial=True, catalog_generation=3, since=second_start)


def test_a_log_that_has_grown_names_all_again(case: LogCase) -> None:
    for region_id in range(1, 60):
        case.reserve(region_id, 10, 20)
    case.log.sync()
    idle(case)
    for _ in range(3):
        case.append_synced(1, b"x" * 20_000)
        idle(case)
    assert [marker.is_partial for marker in markers(case.folder)] == [False, False, True, False, True]


def test_after_a_recovery_the_first_partial_marker_names_the_regions_of_copied_records(tmp_path: Path) -> None:
    disk = SimulatedFiles(tmp_path / "disk")
    case = LogCase(disk.root / "log", disk, small_config(log_segment_bytes=1 << 20)).open()
    for region_id in range(1, 60):
        case.reserve(region_id, 10, 20)
    case.append_synced(7, b"not proven by what follows it")
    (disk.root / "log" / "durable").write_bytes(b"")
    image = disk.power_failure(tmp_path / "image", Loss.NOTHING) / "log"
    case.log.close()
    again = LogCase(image, UnsyncedFiles(), small_config(log_segment_bytes=1 << 20), numbers={7: 1}).open()
    assert [record.region_id for record in again.recovered.unproven_changes()] == [7]
    again.append_synced(8, b"x")
    idle(again)
    *_, last = markers(image)
    assert last.is_partial
    assert last.regions.keys() == {7, 8}
    again.log.close()


class Busy:
    """A log with many regions, and the true state of each: changes, bounds, generation."""

    def __init__(self, folder: Path, chance: random.Random) -> None:
        self.disk = SimulatedFiles(folder / "disk")
        # A small share, so that logs of this size have full markers too.
        self.case = LogCase(self.disk.root / "log", self.disk, small_config(log_segment_bytes=16384)).open()
        self.bounds: dict[int, int] = {}
        self.generations: dict[int, int] = {}
        self.catalog_generation = 0
        self.dropped: set[int] = set()
        for _ in range(150):
            self._step(chance)
        self.folder = self.disk.power_failure(folder / "image", Loss.NOTHING) / "log"
        self.case.log.close()

    def _step(self, chance: random.Random) -> None:
        case, log = self.case, self.case.log
        region_id = chance.randint(1, 25)
        action = chance.random()
        if region_id in self.dropped:
            return
        if region_id not in self.bounds or action < 0.2:
            self.bounds[region_id] = self.bounds.get(region_id, 0) + chance.randint(1, 1000)
            case.reserve(region_id, self.bounds[region_id], self.bounds[region_id])
        elif action < 0.65:
            case.append(region_id, chance.randbytes(chance.choice((0, 30, 200))))
        elif action < 0.85:
            self.generations[region_id] = self.generations.get(region_id, 0) + 1
            with log.order:
                log.note_manifest(region_id, self.generations[region_id])
        elif action < 0.88:
            self.catalog_generation += 1
            with log.order:
                log.note_catalog(self.catalog_generation)
        elif action < 0.89:
            log.forget(region_id)
            self.dropped.add(region_id)
        else:
            log.sync()
            idle(case)
        log.sync()

    def check(self, recovered: Recovered, delivered: list[Change], place: str) -> int:
        """Checks that every region that would be served is complete. Returns their number."""
        whole = 0
        for region_id in self.bounds.keys() - self.dropped:
            of_region = [change for change in self.case.appended if change[0] == region_id]
            found = [change for change in delivered if change[0] == region_id]
            assert found == of_region[: len(found)], place
            if recovered.damage_of(region_id) is None:
                whole += 1
                assert found == of_region, f"{place}: region {region_id}"
                state = recovered.regions[region_id]
                assert state.numbers_until == state.stamps_until == self.bounds[region_id], f"{place}: {region_id}"
                if not recovered.gaps:
                    assert state.manifest_generation == self.generations.get(region_id, 0), f"{place}: {region_id}"
        if not recovered.gaps:
            assert recovered.catalog_generation == self.catalog_generation, place
        return whole


@pytest.mark.parametrize("life", range(8))
def test_no_region_is_served_with_lost_records(tmp_path: Path, life: int) -> None:
    seed = drawn_seed()
    chance = random.Random(f"{seed} {life}")
    busy = Busy(tmp_path, chance)
    recovered, delivered = read_all(busy.folder)
    assert busy.check(recovered, delivered, "undamaged") == len(busy.bounds.keys() - busy.dropped)
    served = existing = 0
    for _ in range(150):
        segment = chance.randint(1, recovered.last_segment)
        path = segment_path(busy.folder, segment)
        data = path.read_bytes()
        stop = recovered.end_bytes if segment == recovered.last_segment else len(data)
        spoiled = bytearray(data)
        places = []
        for _ in range(chance.choice((1, 1, 2))):
            start = chance.randrange(SEGMENT_HEADER_BYTES, stop)
            length = min(chance.choice((1, 40, 150, 600)), stop - start)
            spoiled[start : start + length] = chance.choice((bytes(length), chance.randbytes(length)))
            places.append((start, length))
        path.write_bytes(spoiled)
        found, changes = read_all(busy.folder)
        served += busy.check(found, changes, f"seed {seed}, life {life}: segment {segment}, {places}")
        existing += len(busy.bounds.keys() - busy.dropped)
        path.write_bytes(data)
    assert served > existing // 10, "hardly anything was proven whole"
