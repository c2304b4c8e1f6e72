"""Damage is named, with its position, and no wrong or incomplete data is served."""

from __future__ import annotations

import random
import threading
from dataclasses import dataclass
from pathlib import Path

import pytest
from rowlock_regionserver.cells import Durability
from rowlock_regionserver.errors import CorruptionError, DataFolderError
from rowlock_regionserver.wal.record import checksum_of, record_size
from rowlock_regionserver.wal.recovered import Recovered
from rowlock_regionserver.wal.recovery import read_log, recover
from rowlock_regionserver.wal.segment import SEGMENT_HEADER_BYTES, SegmentHeader, segment_number, segment_path

from tests.crash.simulated_files import Loss, SimulatedFiles, UnsyncedFiles, copy_folder
from tests.seeds import drawn_seed
from tests.unit.wal.log_case import Change, LogCase, deliver_to, read_all, read_alone, small_config
from tests.waiting import WAIT_S, wait_until


@dataclass
class Built:
    """A log on the disk, all that was appended to it, and where each change begins and ends: segment, start, stop."""

    folder: Path
    changes: list[Change]
    places: list[tuple[int, int, int]]

    def flip(self, segment: int, offset: int, bit: int = 0) -> None:
        path = segment_path(self.folder, segment)
        data = bytearray(path.read_bytes())
        data[offset] ^= 1 << bit
        path.write_bytes(data)

    def damage(self, index: int) -> tuple[int, int]:
        """Flips a bit in the payload of this change. Returns the start of its record: segment and offset."""
        segment, start, _ = self.places[index]
        self.flip(segment, start + 45)
        return segment, start

    def of(self, region_id: int) -> list[Change]:
        return [change for change in self.changes if change[0] == region_id]


def build(tmp_path: Path, regions: list[int], *, close: bool = True, log_segment_bytes: int = 4096) -> Built:
    """One synced change for each named region, in this order; closed, or killed."""
    disk = SimulatedFiles(tmp_path / "disk")
    case = LogCase(disk.root / "log", disk, small_config(log_segment_bytes=log_segment_bytes)).open()
    for region_id in sorted(set(regions)):
        case.reserve(region_id, 1000 * region_id, 2000 * region_id)
    places = []
    for number, region_id in enumerate(regions):
        change = case.append_synced(region_id, b"payload %d" % number)
        segment = case.log.statistics().segment
        stop = read_all(case.folder)[0].end_bytes
        places.append((segment, stop - record_size(len(change[3])), stop))
    if close:
        case.log.close()
        folder = case.folder
    else:
        folder = disk.power_failure(tmp_path / "image", Loss.NOTHING) / "log"
        case.log.close()
    return Built(folder, case.appended, places)


def delivered_of(delivered: list[Change], region_id: int) -> list[Change]:
    return [change for change in delivered if change[0] == region_id]


def test_a_proven_bad_record_breaks_the_chain_of_its_region_and_the_others_are_whole(tmp_path: Path) -> None:
    built = build(tmp_path, [1, 2, 3, 1, 2, 3, 1, 2, 3])
    segment, start = built.damage(4)  # region 2's second
    recovered, delivered = read_all(built.folder)
    damage = recovered.damage_of(2)
    assert damage is not None
    assert (damage.path, damage.offset) == (segment_path(built.folder, segment), start)
    assert isinstance(damage.error(), CorruptionError)
    assert len(recovered.gaps) == 1
    assert delivered_of(delivered, 2) == built.of(2)[:1]
    for region_id in (1, 3):
        assert recovered.damage_of(region_id) is None
        assert delivered_of(delivered, region_id) == built.of(region_id)
    # The marker after the damage shows that no other region lost anything.
    assert recovered.damage_of(99) is None


def test_a_damaged_region_stays_damaged_after_a_restart(tmp_path: Path) -> None:
    built = build(tmp_path, [1, 2, 1, 2, 1, 2])
    built.damage(2)
    for _ in range(3):
        case = LogCase(built.folder, UnsyncedFiles(), small_config(), numbers={2: len(built.of(2))}).open()
        assert case.recovered.damage_of(1) is not None
        assert case.recovered.damage_of(2) is None
        assert case.log.known_regions()[2].numbers_until == 2000
        built.changes.append(case.append_synced(2, b"more"))
        case.log.close()
    assert delivered_of(read_all(built.folder)[1], 2) == built.of(2)


class NothingRemoved(UnsyncedFiles):
    """Blocks the removal of segments until it is released: else one is removed while its folder is copied."""

    def __init__(self) -> None:
        self.may_trim = threading.Event()

    def rename(self, source: Path, target: Path) -> None:
        if target.suffix == ".damaged":
            assert self.may_trim.wait(WAIT_S)
        super().rename(source, target)

    def remove(self, path: Path) -> None:
        if segment_number(path.name) is not None:
            assert self.may_trim.wait(WAIT_S)
        super().remove(path)


def test_damage_is_not_forgotten_when_the_server_is_killed_right_after_its_recovery(tmp_path: Path) -> None:
    built = build(tmp_path, [1, 2, 1, 2], close=False)
    built.damage(0)  # region 1's first: its second shows the break, nothing proves region 2 or any other
    for life in range(3):
        files = NothingRemoved()
        case = LogCase(built.folder, files, small_config()).open()
        killed = copy_folder(built.folder, tmp_path / f"killed-{life}")
        files.may_trim.set()
        case.log.close()
        for region_id in (1, 2, 99):
            assert case.recovered.damage_of(region_id) is not None, f"life {life}, region {region_id}"
        built = Built(killed, built.changes, built.places)


def test_without_a_later_marker_no_region_is_proven_whole(tmp_path: Path) -> None:
    built = build(tmp_path, [1, 2, 3, 1, 2, 3, 2], close=False)
    built.damage(3)  # region 1's second; nothing of region 1 follows, and no marker
    recovered, _ = read_all(built.folder)
    assert [recovered.damage_of(region_id) is None for region_id in (1, 2, 3)] == [False, False, False]
    assert recovered.damage_of(99) is not None, "a region may have lost its only record"


def test_a_later_reservation_proves_its_region_whole(tmp_path: Path) -> None:
    disk = SimulatedFiles(tmp_path / "disk")
    case = LogCase(disk.root / "log", disk, small_config(log_segment_bytes=4096)).open()
    case.append_synced(1, b"x")
    case.append_synced(2, b"x")
    start = read_all(case.folder)[0].end_bytes
    case.append_synced(3, b"lost")
    case.append_synced(1, b"y")
    case.reserve(1, 500, 500)
    case.append_synced(3, b"z")
    folder = disk.power_failure(tmp_path / "image", Loss.NOTHING) / "log"
    case.log.close()
    Built(folder, [], []).flip(1, start + 41)
    recovered, delivered = read_all(folder)
    assert recovered.damage_of(1) is None
    assert recovered.damage_of(2) is not None
    assert recovered.damage_of(3) is not None
    assert delivered_of(delivered, 1) == [(1, 1, 1, b"x"), (1, 2, 1, b"y")]
    assert delivered_of(delivered, 3) == []


def test_doubt_about_unknown_regions_outlives_restarts_and_new_regions_are_not_doubted(tmp_path: Path) -> None:
    built = build(tmp_path, [1, 2, 1, 2], close=False)
    built.damage(2)
    case = LogCase(built.folder, UnsyncedFiles(), small_config()).open()
    assert case.recovered.damage_of(99) is not None
    case.reserve(50, 10, 10)
    case.append_synced(50, b"new")
    case.log.close()
    recovered, delivered = read_all(built.folder)
    assert recovered.damage_of(99) is not None
    assert recovered.damage_of(50) is None
    assert delivered_of(delivered, 50) == case.appended


def test_lost_records_that_are_flushed_break_no_chain(tmp_path: Path) -> None:
    built = build(tmp_path, [1, 2, 1, 2, 1, 2])
    built.damage(2)  # region 1, write number 2
    delivered: list[Change] = []
    recovered = read_log(built.folder, UnsyncedFiles(), deliver_to(delivered), flushed={1: 2})
    assert recovered.damage_of(1) is None
    assert [change for change in delivered if change[1] > 2 or change[0] == 2] == [
        change for change in built.changes if change[1] > 2 or change[0] == 2
    ]
    assert read_log(built.folder, UnsyncedFiles(), deliver_to([]), flushed={1: 1}).damage_of(1) is not None


def test_a_bad_record_in_a_segment_with_a_successor_is_always_damage(tmp_path: Path) -> None:
    built = build(tmp_path, [1] * 12 + [2] * 12, log_segment_bytes=512)
    last_of_first = max(index for index, place in enumerate(built.places) if place[0] == 1)
    built.damage(last_of_first)
    recovered, delivered = read_all(built.folder)
    assert recovered.damage_of(1) is not None
    assert recovered.damage_of(2) is None
    assert delivered_of(delivered, 2) == built.of(2)


def test_a_segment_that_is_shorter_than_its_final_length_is_damage(tmp_path: Path) -> None:
    built = build(tmp_path, [1] * 12 + [2] * 12, log_segment_bytes=512)
    path = segment_path(built.folder, 1)
    path.write_bytes(path.read_bytes()[:300])
    recovered, delivered = read_all(built.folder)
    assert recovered.damage_of(1) is not None
    assert recovered.damage_of(2) is None
    assert delivered_of(delivered, 2) == built.of(2)


def test_a_segment_with_nothing_but_its_header_has_lost_its_first_marker(tmp_path: Path) -> None:
    built = build(tmp_path, [1, 2])
    path = segment_path(built.folder, 1)
    path.write_bytes(path.read_bytes()[:64])
    recovered, delivered = read_all(built.folder)
    assert delivered == []
    assert recovered.damage_of(1) is not None
    case = LogCase(built.folder, UnsyncedFiles()).open()
    case.log.close()
    assert read_all(built.folder)[0].damage_of(1) is not None


def test_a_missing_segment_in_the_middle_is_named(tmp_path: Path) -> None:
    built = build(tmp_path, [1] * 30, log_segment_bytes=512)
    segment_path(built.folder, 2).unlink()
    with pytest.raises(CorruptionError) as damage:
        recover(built.folder, UnsyncedFiles(), deliver_to([]))
    assert damage.value.path == segment_path(built.folder, 2)


def test_missing_oldest_segments_show_by_the_flushed_write_numbers(tmp_path: Path) -> None:
    built = build(tmp_path, [1] * 30, log_segment_bytes=512)
    segment_path(built.folder, 1).unlink()
    (start,) = read_all(built.folder)[0].starts.values()
    assert read_log(built.folder, UnsyncedFiles(), deliver_to([]), flushed={1: start}).damage_of(1) is None
    assert read_log(built.folder, UnsyncedFiles(), deliver_to([]), flushed={1: start - 1}).damage_of(1) is not None


def test_a_missing_log_is_not_a_new_one(tmp_path: Path) -> None:
    built = build(tmp_path, [1])
    log_id = read_all(built.folder)[0].log_id
    recover(built.folder, UnsyncedFiles(), deliver_to([]), expected_log_id=log_id)
    with pytest.raises(CorruptionError):
        recover(built.folder, UnsyncedFiles(), deliver_to([]), expected_log_id=bytes(16))
    with pytest.raises(CorruptionError, match="missing"):
        recover(tmp_path / "elsewhere", UnsyncedFiles(), deliver_to([]), expected_log_id=log_id)


def test_a_segment_of_another_log_is_named(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    built = build(tmp_path / "a", [1] * 30, log_segment_bytes=512)
    other = build(tmp_path / "b", [1] * 30, log_segment_bytes=512)
    segment_path(built.folder, 2).write_bytes(segment_path(other.folder, 2).read_bytes())
    with pytest.raises(CorruptionError, match="log id"):
        recover(built.folder, UnsyncedFiles(), deliver_to([]))


@pytest.mark.parametrize(
    ("header", "place"),
    [
        (SegmentHeader(3, bytes(16), 1, 500), "segment 2"),
        (SegmentHeader(2, bytes(16), 0, 500), "predecessor 1"),
    ],
)
def test_a_segment_in_the_wrong_place_is_named(tmp_path: Path, header: SegmentHeader, place: str) -> None:
    built = build(tmp_path, [1] * 30, log_segment_bytes=512)
    path = segment_path(built.folder, 2)
    log_id = read_all(built.folder)[0].log_id
    wrong = SegmentHeader(header.number, log_id, header.predecessor, header.predecessor_bytes)
    path.write_bytes(wrong.encode() + path.read_bytes()[64:])
    with pytest.raises(CorruptionError, match=place):
        recover(built.folder, UnsyncedFiles(), deliver_to([]))


def test_a_segment_of_another_format_version_is_refused_and_nothing_is_changed(tmp_path: Path) -> None:
    built = build(tmp_path, [1] * 4)
    path = segment_path(built.folder, 1)
    data = bytearray(path.read_bytes())
    data[8] = 9
    data[60:64] = checksum_of(bytes(data[:60])).to_bytes(4, "little")
    path.write_bytes(data)
    with pytest.raises(DataFolderError, match="format 9"):
        recover(built.folder, UnsyncedFiles(), deliver_to([]))
    assert path.read_bytes() == data


def test_a_segment_with_damage_is_set_aside_instead_of_removed(tmp_path: Path) -> None:
    built = build(tmp_path, [1, 2, 1, 2])
    built.damage(2)
    case = LogCase(built.folder, UnsyncedFiles()).open()
    case.log.flushed(2, 2)
    wait_until(lambda: not segment_path(built.folder, 1).exists())
    assert (built.folder / "0000000001.damaged").exists()
    assert case.log.regions_that_pin() == []
    case.log.close()
    recovered, _ = read_all(built.folder)
    assert recovered.damage_of(1) is not None
    assert recovered.damage_of(2) is None


def test_dropping_a_damaged_region_ends_its_damage(tmp_path: Path) -> None:
    built = build(tmp_path, [1, 2, 1, 2])
    built.damage(2)
    case = LogCase(built.folder, UnsyncedFiles()).open()
    assert case.recovered.damage_of(1) is not None
    case.log.forget(1)
    case.log.close()
    assert read_all(built.folder)[0].damage_of(1) is None


def check_flipped(built: Built, recovered: Recovered, delivered: list[Change], lost_from: int) -> None:
    """Checks that nothing wrong was delivered, and that served regions have all changes before `lost_from`."""
    for region_id in (1, 2, 3):
        of_region = delivered_of(delivered, region_id)
        whole = built.of(region_id)
        assert of_region == whole[: len(of_region)]
        if recovered.damage_of(region_id) is None:
            assert len(of_region) >= len(delivered_of(built.changes[:lost_from], region_id))
            assert recovered.regions[region_id].numbers_until == 1000 * region_id
            assert recovered.regions[region_id].stamps_until == 2000 * region_id


@pytest.mark.parametrize(("close", "count"), [(True, 1000), (False, 400)], ids=["closed", "killed"])
def test_a_flipped_bit_anywhere_is_named_or_lies_in_the_unproven_tail(tmp_path: Path, close: bool, count: int) -> None:
    built = build(tmp_path, [1, 2, 3] * 7, close=close, log_segment_bytes=768)
    pristine, _ = read_all(built.folder)
    assert pristine.last_segment >= 3
    # A closed log must lose nothing. In a killed one the last change was synced, but nothing proves it.
    lost_from = len(built.changes) - (0 if close else 1)
    seed = drawn_seed()
    chance = random.Random(seed)
    named = 0
    for _ in range(count):
        segment = chance.randint(1, pristine.last_segment)
        data = segment_path(built.folder, segment).read_bytes()
        stop = pristine.end_bytes if segment == pristine.last_segment else len(data)
        offset, bit = chance.randrange(stop), chance.randrange(8)
        built.flip(segment, offset, bit)
        if offset < SEGMENT_HEADER_BYTES:
            with pytest.raises(CorruptionError) as damage:
                read_all(built.folder)
            assert damage.value.path == segment_path(built.folder, segment)
            named += 1
        else:
            recovered, delivered = read_all(built.folder)
            check_flipped(built, recovered, delivered, lost_from)
            named += bool(recovered.gaps)
            place = f"seed {seed}: segment {segment}, byte {offset}, bit {bit}"
            if not recovered.gaps:
                assert recovered.torn is not None or len(delivered) == len(built.changes), place
        built.flip(segment, offset, bit)
    assert named > count // 2


def test_a_flipped_bit_and_two_restarts_give_the_same_answers(tmp_path: Path) -> None:
    built = build(tmp_path, [1, 2, 3] * 7, close=False, log_segment_bytes=768)
    last = read_all(built.folder)[0]
    seed = drawn_seed()
    chance = random.Random(seed)
    for number in range(60):
        segment = chance.randint(1, last.last_segment)
        stop = last.end_bytes if segment == last.last_segment else 700
        folder = copy_folder(built.folder, tmp_path / f"flipped-{number}")
        Built(folder, built.changes, built.places).flip(segment, chance.randrange(64, stop), chance.randrange(8))
        first = LogCase(folder, UnsyncedFiles(), small_config()).open()
        first.log.close()
        second = LogCase(folder, UnsyncedFiles(), small_config()).open()
        second.log.close()
        for region_id in (1, 2, 3, 99):
            was, now = first.recovered.damage_of(region_id), second.recovered.damage_of(region_id)
            assert (was is None) == (now is None), f"seed {seed}, number {number}, region {region_id}"
            if was is None:
                assert delivered_of(first.delivered, region_id) == delivered_of(second.delivered, region_id)


def test_a_value_that_holds_the_bytes_of_the_log_is_only_a_value(tmp_path: Path) -> None:
    disk = SimulatedFiles(tmp_path / "disk")
    case = LogCase(disk.root / "log", disk, small_config(log_segment_bytes=1 << 16)).open()
    for _ in range(5):
        case.append(1, segment_path(case.folder, 1).read_bytes()[: read_all(case.folder)[0].end_bytes], Durability.OS)
        case.log.sync()
    folder = disk.power_failure(tmp_path / "image", Loss.NOTHING) / "log"
    case.log.close()
    start = read_all(folder)[0].end_bytes - 100
    Built(folder, [], []).flip(1, start)  # in the last value, which nothing in the log proves
    recovered, delivered = read_alone(folder)
    assert delivered == case.appended[:-1]
    assert recovered.gaps == ()
    assert len(read_all(folder)[0].gaps) == 1, "the file beside the log proves it"
