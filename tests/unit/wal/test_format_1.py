"""Logs of format 1, as the version before wrote them: read, continued, and judged by their own rules."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from rowlock_regionserver.wal.marker import DAMAGED, RegionState, decode_marker, encode_reservation
from rowlock_regionserver.wal.record import MARKER, RESERVATION, Position, encode_record, segment_seed
from rowlock_regionserver.wal.segment import SegmentHeader, decode_segment_header, segment_path

from tests.crash.simulated_files import UnsyncedFiles
from tests.unit.wal.log_case import Change, LogCase, read_all, segment_names, small_config

LOG_ID = bytes(range(16))
SEGMENT = 32 * 1024
PAGE = 4096


def marker_1(regions: dict[int, RegionState]) -> bytes:
    entries = [
        struct.pack("<QQQQ", region_id, state.last_logged, state.numbers_until, state.stamps_until)
        for region_id, state in sorted(regions.items())
    ]
    return struct.pack("<II", 0, len(entries)) + b"".join(entries)


class Log1:
    """Writes a log of format 1 whose every record is synced before the next one is appended."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()
        self.regions: dict[int, RegionState] = {}
        self.changes: list[Change] = []
        self.stops: list[int] = []
        self._number = 0
        self._data = bytearray()
        self.begin()

    def begin(self) -> None:
        """Begins the next segment."""
        predecessor, final_bytes = self._number, len(self._data)
        self._write()
        self._number += 1
        header = SegmentHeader(self._number, LOG_ID, predecessor, final_bytes, version=1)
        self._data = bytearray(header.encode())
        self._add(0, 0, 0, MARKER, marker_1(self.regions))

    def reserve(self, region_id: int, bound: int) -> None:
        last = self.regions.get(region_id, RegionState()).last_logged
        self.regions[region_id] = RegionState(last, bound, bound)
        self._add(region_id, 0, last, RESERVATION, encode_reservation(bound, bound))

    def append(self, region_id: int, payload: bytes) -> None:
        state = self.regions[region_id]
        number = state.last_logged + 1
        self._add(region_id, number, state.last_logged, 1, payload)
        self.regions[region_id] = RegionState(number, state.numbers_until, state.stamps_until)
        self.changes.append((region_id, number, 1, payload))
        self.stops.append(len(self._data))

    def mark(self) -> None:
        """Writes the marker of an idle log."""
        self._add(0, 0, 0, MARKER, marker_1(self.regions))

    def end(self, *, is_closed: bool = False) -> Path:
        """Ends the log: as a kill does, in a preallocated file, or in an orderly way."""
        if is_closed:
            self.mark()
        self._write(len(self._data) if is_closed else SEGMENT)
        return self.folder

    def _add(self, region_id: int, number: int, previous: int, kind: int, payload: bytes) -> None:
        offset = len(self._data)
        durable = Position(self._number, offset)
        seed = segment_seed(LOG_ID, self._number)
        self._data += encode_record(seed, offset, region_id, number, previous, durable, kind, payload)

    def _write(self, size: int = SEGMENT) -> None:
        if self._data:
            segment_path(self.folder, self._number).write_bytes(self._data.ljust(size, b"\0"))


@pytest.fixture
def log(tmp_path: Path) -> Log1:
    log = Log1(tmp_path / "log")
    for region_id in (1, 2, 3):
        log.reserve(region_id, 1000 * region_id)
    for number in range(60):
        log.append(1 + number % 3, b"first segment %d" % number * 10)
    log.begin()
    for number in range(80):
        log.append(1 + number % 2, b"second segment %d" % number * 8)
    return log


@pytest.mark.parametrize("is_closed", [False, True], ids=["killed", "stopped"])
def test_a_whole_log_is_found_and_continued(log: Log1, is_closed: bool) -> None:
    folder = log.end(is_closed=is_closed)
    recovered, delivered = read_all(folder)
    assert delivered == log.changes
    assert (recovered.gaps, recovered.damaged, recovered.torn) == ((), {}, None)
    assert recovered.regions == log.regions
    numbers = {region_id: state.last_logged for region_id, state in log.regions.items()}
    case = LogCase(folder, UnsyncedFiles(), small_config(log_segment_bytes=SEGMENT), numbers=numbers).open()
    assert case.delivered == log.changes
    case.append_synced(3, b"more")
    case.log.close()
    versions = [decode_segment_header(folder, (folder / name).read_bytes()).version for name in segment_names(folder)]
    assert versions == [1, 1, 2]
    assert read_all(folder)[1] == log.changes + case.appended


def test_a_bad_place_that_its_records_prove_is_damage(log: Log1) -> None:
    folder = log.end()
    path = segment_path(folder, 2)
    data = bytearray(path.read_bytes())
    data[log.stops[70] - 20] ^= 1
    path.write_bytes(data)
    recovered, _ = read_all(folder)
    assert [gap.path for gap in recovered.gaps] == [path]
    assert recovered.damage_of(1) is not None


def test_a_marker_of_all_regions_proves_those_that_lost_nothing(log: Log1) -> None:
    log.mark()
    log.append(2, b"after the marker")
    folder = log.end()
    path = segment_path(folder, 2)
    data = bytearray(path.read_bytes())
    data[log.stops[70] - 20] ^= 1  # a change of region 1
    path.write_bytes(data)
    recovered, _ = read_all(folder)
    assert [recovered.damage_of(region_id) is None for region_id in (1, 2, 3)] == [False, True, True]


def test_a_page_cut_out_of_its_last_segment_shows_by_the_displaced_records(log: Log1) -> None:
    folder = log.end()
    path = segment_path(folder, 2)
    data = path.read_bytes()
    for cut in (data[:PAGE] + data[2 * PAGE :], data[:PAGE] + data[2 * PAGE :] + bytes(PAGE)):
        path.write_bytes(cut)
        recovered, _ = read_all(folder)
        assert [gap.path for gap in recovered.gaps] == [path]


def test_a_torn_tail_is_cut_and_nothing_proves_its_end(log: Log1) -> None:
    folder = log.end()
    path = segment_path(folder, 2)
    data = path.read_bytes()
    path.write_bytes(data[: log.stops[-2] + 30])
    recovered, delivered = read_all(folder)
    assert recovered.gaps == ()
    assert delivered == log.changes[:-1]
    case = LogCase(folder, UnsyncedFiles(), small_config()).open()
    case.log.close()
    assert path.stat().st_size == log.stops[-2]
    assert read_all(folder)[1] == log.changes[:-1]


def test_a_marker_of_format_1_has_no_flags_of_format_2() -> None:
    payload = marker_1({3: RegionState(1, 2, 3), 4: RegionState(DAMAGED)})
    assert decode_marker(payload, 1).regions == {3: RegionState(1, 2, 3), 4: RegionState(DAMAGED)}
    with pytest.raises(ValueError, match="marker"):
        decode_marker(b"\x02" + payload[1:], 1)
