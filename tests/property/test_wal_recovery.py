"""Random lives of a log against a model, each ended by a clean stop, a kill or a power failure.

Threads make the order of the log's calls differ a little when a seed is played again; the invariants hold for each.
"""

from __future__ import annotations

import os
import random
from functools import partial
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rowlock_regionserver.cells import Durability
from rowlock_regionserver.wal.marker import Marker, RegionState, decode_marker, decode_reservation
from rowlock_regionserver.wal.reader import find_runs, read_run
from rowlock_regionserver.wal.record import Position, encode_record, segment_seed

from tests.crash.simulated_files import Loss, SimulatedFiles, copy_folder
from tests.invariants import check
from tests.seeds import generator_of
from tests.unit.wal.log_case import Change, LogCase, small_config

CASES = range(12)
LIVES = 6

DURABILITIES = [Durability.ASYNC, Durability.OS, Durability.OS, Durability.FSYNC]


class Model:
    """The changes that must and that may be found: in log order, how many of them are synced, and the bounds."""

    def __init__(self) -> None:
        self.changes: list[Change] = []
        self.synced_count = 0
        self.flushed: dict[int, int] = {}
        self.numbers: dict[int, int] = {}
        self.reserved: dict[int, int] = {}  # durable bounds
        self.dropped: set[int] = set()

    def wanted(self, changes: list[Change]) -> list[Change]:
        """Returns the changes that are neither flushed nor dropped; the others may be missing."""
        return [
            change for change in changes if change[1] > self.flushed.get(change[0], 0) and change[0] not in self.dropped
        ]

    def check(self, found: LogCase) -> None:
        assert found.recovered.gaps == ()
        assert found.recovered.damaged == {}
        kept = self.wanted(found.delivered)
        expected = self.wanted(self.changes)
        assert kept == expected[: len(kept)]
        assert len(kept) >= len(self.wanted(self.changes[: self.synced_count]))
        for region_id, bound in self.reserved.items():
            if region_id not in self.dropped:
                assert found.recovered.regions[region_id].numbers_until >= bound

    def go_on_from(self, found: LogCase) -> None:
        """Removes the changes that the power failure lost."""
        kept = len(self.wanted(found.delivered))
        expected = self.wanted(self.changes)
        lost = set(expected[kept:])
        self.changes = [change for change in self.changes if change not in lost]
        self.synced_count = len(self.changes)
        self.numbers = dict(self.flushed)
        for region_id, state in found.recovered.regions.items():
            self.numbers[region_id] = max(state.last_logged, self.flushed.get(region_id, 0))


def live(case: LogCase, model: Model, chance: random.Random) -> tuple[set[Change], set[Change]]:
    """Makes random calls; returns the changes that requested a write, and those that requested a sync."""
    written: set[Change] = set()
    synced: set[Change] = set()
    for _ in range(chance.randint(0, 40)):
        region_id = chance.randint(1, 4)
        action = chance.random()
        if region_id in model.dropped:
            continue
        if action < 0.75:
            durability = chance.choice(DURABILITIES)
            change = case.append(region_id, chance.randbytes(chance.choice((0, 5, 60, 200, 900))), durability)
            if durability >= Durability.OS:
                written.add(change)
            if durability is Durability.FSYNC:
                synced.add(change)
        elif action < 0.85:
            bound = chance.randint(1, 10**6)
            case.reserve(region_id, bound, bound)
            case.log.sync()
            synced.update(case.appended)
            model.reserved[region_id] = max(bound, model.reserved.get(region_id, 0))
        elif action < 0.9:
            case.log.sync()
            synced.update(case.appended)
        elif action < 0.93:
            case.clock.advance(1000)
        elif action < 0.99:
            number = case.numbers.get(region_id, 0)
            model.flushed[region_id] = number
            case.log.flushed(region_id, number)
        elif region_id == 4:
            case.log.forget(region_id)
            model.dropped.add(region_id)
        check(case.log)
    return written | synced, synced


@pytest.mark.parametrize("life_number", CASES)
def test_random_lives_lose_nothing_that_was_synced_and_keep_the_order(tmp_path: Path, life_number: int) -> None:
    chance = generator_of(life_number)
    disk = SimulatedFiles(tmp_path / "disk")
    model = Model()
    config = small_config(log_segment_bytes=chance.choice((256, 1024, 4096)))
    for life in range(LIVES):
        case = LogCase(disk.root / "log", disk, config, numbers=dict(model.numbers)).open()
        model.check(case)
        model.go_on_from(case)
        for region_id, number in model.flushed.items():
            case.log.flushed(region_id, number)
        start = len(model.changes)
        written, synced = live(case, model, chance)
        ending = chance.choice(("close", *Loss))
        if ending != "close":
            case.wait(lambda case=case: len(case.completed) == len(case.appended))  # type: ignore[misc]
        if isinstance(ending, Loss):
            disk.power_failure(tmp_path / f"image-{life}", ending, chance.randrange(1 << 30))
        case.log.close()
        completed = case.completed
        assert completed == case.appended
        model.numbers = dict(case.numbers)
        model.changes += case.appended
        # Completions are in log order, so what is before a written or synced change was written or synced with it.
        kept = {"close": set(case.appended), Loss.NOTHING: written}.get(ending, synced)
        indexes = [index for index, change in enumerate(completed) if change in kept]
        model.synced_count = start + (indexes[-1] + 1 if indexes else 0)
        if isinstance(ending, Loss):
            disk = SimulatedFiles(tmp_path / f"disk-{life}")
            copy_folder(tmp_path / f"image-{life}" / "log", disk.root / "log")
            adopt(disk)


def adopt(disk: SimulatedFiles) -> None:
    """Marks what the power failure left as durable."""
    folder = disk.root / "log"
    for path in sorted(folder.iterdir()):
        descriptor = disk.open(path, os.O_RDWR)
        disk.fsync(descriptor)
        disk.close(descriptor)
    disk.fsync_folder(folder)
    disk.fsync_folder(disk.root)


numbers = st.integers(0, 2**64 - 1)
positions = st.builds(Position, st.integers(0, 2**32 - 1), st.integers(0, 2**32 - 1))
region_states = st.builds(RegionState, numbers, numbers, numbers, numbers)
markers = st.builds(
    Marker,
    st.dictionaries(st.integers(1, 2**64 - 1), region_states, max_size=20),
    st.booleans(),
    st.booleans(),
    st.booleans(),
    numbers,
    positions,
)


@given(markers)
def test_markers_are_read_as_they_were_written(marker: Marker) -> None:
    assert decode_marker(marker.encode(), 2) == marker


@given(st.binary(max_size=200))
def test_any_bytes_are_a_marker_or_a_value_error(payload: bytes) -> None:
    for decode in (partial(decode_marker, version=1), partial(decode_marker, version=2), decode_reservation):
        try:
            decode(payload)
        except ValueError:
            continue


@given(st.binary(max_size=600), st.integers(0, 64))
def test_any_bytes_hold_no_record(data: bytes, start: int) -> None:
    seed = segment_seed(bytes(16), 1)
    assert read_run(data, start, len(data), seed).stop == start
    assert find_runs(data, start, len(data), seed, 1) == []


@given(
    st.lists(
        st.one_of(
            st.binary(max_size=60).map(lambda junk: (False, junk)), st.binary(max_size=60).map(lambda p: (True, p))
        ),
        max_size=12,
    )
)
def test_every_record_between_junk_is_found(pieces: list[tuple[bool, bytes]]) -> None:
    seed = segment_seed(bytes(16), 1)
    data = bytearray()
    places = []
    for is_record, content in pieces:
        if is_record:
            places.append(len(data))
            data += encode_record(seed, len(data), 1, 2, 1, Position(1, 0), 3, content)
        else:
            data += content + bytes(-len(content) % 8)
    runs = find_runs(bytes(data), 0, len(data), seed, 1)
    found = [place for place in places if any(run.start <= place < run.stop for run in runs)]
    assert found == places
    assert all(any(run.start == place for place in places) for run in runs)
