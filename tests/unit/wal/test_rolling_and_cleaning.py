"""Segments: how the next one begins, which one is removed, and what later segments repeat of it."""

from __future__ import annotations

from functools import partial

import pytest
from rowlock_regionserver.cells import Durability
from rowlock_regionserver.wal import pending
from rowlock_regionserver.wal.log import Log
from rowlock_regionserver.wal.log_cleaner import LogCleaner, Sealed
from rowlock_regionserver.wal.marker import RegionState
from rowlock_regionserver.wal.segment import KIND_MAX_OF_FORMAT_2, decode_segment_header, segment_path

from tests.crash.simulated_files import Loss, SimulatedFiles, UnsyncedFiles
from tests.unit.wal.log_case import LogCase, read_all, segment_names, small_config
from tests.waiting import wait_until
from tests.watched import Watched


def test_a_full_segment_is_followed_by_the_next(case: LogCase) -> None:
    for number in range(60):
        case.append(1 + number % 3, b"x" * 40, Durability.OS)
    case.log.sync()
    count = case.log.statistics().segment
    assert count >= 4
    assert len(segment_names(case.folder)) == count == case.log.statistics().segment_count
    for number in range(2, count + 1):
        header = decode_segment_header(
            segment_path(case.folder, number), segment_path(case.folder, number).read_bytes()
        )
        assert header.predecessor == number - 1
        assert header.log_id == case.log.log_id
        assert header.predecessor_bytes <= 1024
    assert read_all(case.folder)[1] == case.appended


@pytest.mark.parametrize("step", ["segment_seed", "encode_head", "Batch"])
@pytest.mark.parametrize("kind", [1, KIND_MAX_OF_FORMAT_2 + 1])
def test_a_lack_of_memory_when_a_segment_begins_refuses_one_record(
    case: LogCase, monkeypatch: pytest.MonkeyPatch, step: str, kind: int
) -> None:
    """The segment was begun in part: the next start found no segment 2, and refused to serve anything."""

    def no_memory(*_: object) -> None:
        raise MemoryError

    case.append_synced(1, b"x" * (900 if kind == 1 else 1))
    with monkeypatch.context() as patched:
        patched.setattr(pending, step, no_memory)
        with pytest.raises(MemoryError):
            case.append(1, b"x" * 200, kind=kind)
    for number in range(20):
        case.append_synced(1 + number % 3, b"x" * 200)
    case.append(1, b"x", kind=kind)
    case.log.close()
    assert read_all(case.folder)[1] == case.appended == case.completed


def test_a_note_that_finds_no_memory_is_added_when_it_is_made_again(
    case: LogCase, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The log took it for added, so a restart allocated the same numbers again."""

    def no_memory(*_: object) -> None:
        raise MemoryError

    log = case.log
    for note in (partial(log.reserve, 1, 10, 20), partial(log.note_manifest, 1, 3), partial(log.note_catalog, 4)):
        with case.log.order:
            with monkeypatch.context() as patched:
                patched.setattr(pending, "encode_record", no_memory)
                with pytest.raises(MemoryError):
                    note()
            note()
    case.log.sync()
    recovered, _ = read_all(case.folder)
    assert recovered.regions == {1: RegionState(0, 10, 20, 3)}
    assert recovered.catalog_generation == 4


def test_the_old_segment_and_the_new_name_are_durable_before_a_record_of_the_new_one_completes(
    case: LogCase, disk: SimulatedFiles
) -> None:
    number = 0
    while case.log.statistics().segment == 1:
        number += 1
        case.append(1, b"x" * 40, Durability.OS)
    last = case.appended[-1]
    case.wait(lambda: last in case.completed)
    recovered, delivered = read_all(disk.power_failure(disk.root.parent / "after", Loss.ALL) / "log")
    # The first record of the new segment was not synced; all before it were, although no caller waited for it.
    assert recovered.last_segment == 2
    assert delivered == case.appended[:-1]


def test_a_record_larger_than_a_segment_gets_a_segment_of_its_own(case: LogCase) -> None:
    for size in [10, 5000, 10, 3000, 3000, 10]:
        case.append_synced(1, b"x" * size)
    case.log.close()
    assert read_all(case.folder)[1] == case.appended
    sizes = [(case.folder / name).stat().st_size for name in segment_names(case.folder)]
    assert max(sizes) > 5000


def test_a_segment_is_removed_when_every_region_in_it_is_flushed_oldest_first(case: LogCase) -> None:
    first = case.append_synced(1, b"x" * 500)
    second = case.append_synced(2, b"x" * 700)  # segment 2
    third = case.append_synced(1, b"x" * 700)  # segment 3
    case.append_synced(3, b"x" * 700)  # segment 4
    assert segment_names(case.folder)[-1] == "0000000004.wal"
    case.log.flushed(2, second[1])
    case.log.flushed(1, first[1])
    wait_until(lambda: segment_names(case.folder) == ["0000000003.wal", "0000000004.wal"])
    case.log.flushed(1, third[1])
    case.log.flushed(3, 1)
    wait_until(lambda: segment_names(case.folder) == ["0000000004.wal"])
    case.log.close()
    assert case.log.statistics().removed_segment_count == 3
    recovered, delivered = read_all(case.folder)
    assert delivered == case.appended[-1:]
    assert recovered.starts == {1: 2, 2: 1}
    assert recovered.regions == {1: RegionState(2), 2: RegionState(1), 3: RegionState(1)}


def test_each_removal_is_durable_before_the_next_so_there_is_never_a_hole(case: LogCase, disk: SimulatedFiles) -> None:
    for _ in range(4):
        case.append_synced(1, b"x" * 700)
    start = len(disk.calls)
    case.log.flushed(1, 4)
    wait_until(lambda: case.log.statistics().segment_count == 1)
    calls = [(call.name, call.path.name) for call in disk.calls[start:] if call.path.name != "spare.wal"]
    sync = ("fsync_folder", "log")
    removals = [call for call in calls if call == sync or call[0] == "remove"]
    assert removals[:6] == [
        ("remove", "0000000001.wal"),
        sync,
        ("remove", "0000000002.wal"),
        sync,
        ("remove", "0000000003.wal"),
        sync,
    ]


def test_copied_changes_pin_their_new_segment(case: LogCase, disk: SimulatedFiles) -> None:
    change = case.append(1, b"x" * 500, Durability.OS)
    case.wait(lambda: change in case.completed)
    image = disk.power_failure(disk.root.parent / "image", Loss.NOTHING) / "log"
    again = LogCase(image, UnsyncedFiles(), numbers={1: 1}).open()
    assert [record.write_number for record in again.recovered.unproven_changes()] == [1]
    again.append_synced(2, b"x" * 700)  # segment 3
    again.log.flushed(2, 1)
    again.log.close()
    assert segment_names(image) == ["0000000001.wal", "0000000002.wal", "0000000003.wal"]


def test_a_younger_segment_waits_for_an_older_one(case: LogCase) -> None:
    case.append_synced(1, b"x" * 500)
    case.append_synced(2, b"x" * 700)
    case.append_synced(3, b"x" * 700)
    case.log.flushed(2, 1)
    for _ in range(3):
        case.append_synced(3, b"x" * 700)
    case.log.close()
    assert segment_names(case.folder) == [f"000000000{number}.wal" for number in (1, 2, 3, 4, 5, 6)]


def test_the_cleaner_removes_no_younger_segment_while_an_older_one_is_pinned(disk: SimulatedFiles) -> None:
    failures: list[BaseException] = []
    for number in (1, 2):
        segment_path(disk.root, number).touch()
    cleaner = LogCleaner(disk.root, disk, [Sealed(1, {1: 1}), Sealed(2, {2: 1})], [], failures.append)
    condition = cleaner._changed = Watched(cleaner._lock)
    cleaner.flushed(2, 1)
    cleaner.thread.start()
    wait_until(lambda: condition.waiting_count == 1)
    assert segment_names(disk.root) == ["0000000001.wal", "0000000002.wal"]
    cleaner.flushed(1, 1)
    wait_until(lambda: cleaner.removed_count == 2)
    cleaner.close()
    assert segment_names(disk.root) == []
    assert failures == []


def test_each_segment_is_pinned_by_its_own_regions(disk: SimulatedFiles) -> None:
    for number in (1, 2):
        segment_path(disk.root, number).touch()
    cleaner = LogCleaner(disk.root, disk, [Sealed(1, {1: 1, 2: 1}), Sealed(2, {1: 2, 3: 1})], [], lambda error: None)
    condition = cleaner._changed = Watched(cleaner._lock)
    cleaner.thread.start()
    for region_id, write_number in ((3, 1), (2, 1), (1, 1)):
        assert segment_names(disk.root) == ["0000000001.wal", "0000000002.wal"]
        cleaner.flushed(region_id, write_number)
    wait_until(lambda: cleaner.removed_count == 1 and condition.waiting_count == 1)
    assert segment_names(disk.root) == ["0000000002.wal"]
    cleaner.flushed(1, 2)
    wait_until(lambda: cleaner.removed_count == 2)
    cleaner.close()


def test_a_dropped_region_pins_nothing_and_is_not_named_again(case: LogCase) -> None:
    case.reserve(1, 100, 200)
    case.append_synced(1, b"x" * 500)
    case.log.forget(1)
    case.append_synced(2, b"x" * 700)
    wait_until(lambda: segment_names(case.folder) == ["0000000002.wal"])
    wait_until(lambda: not case.log._cleaner._forgotten)  # What is remembered does not grow with each drop.
    case.log.close()
    assert read_all(case.folder)[0].regions == {2: RegionState(1)}


def test_a_reservation_outlives_the_segment_that_it_was_made_in(case: LogCase) -> None:
    case.reserve(1, 1000, 5000)
    case.append_synced(2, b"x" * 500)
    case.append_synced(2, b"x" * 700)
    case.log.flushed(2, 2)
    wait_until(lambda: segment_names(case.folder) == ["0000000002.wal"])
    case.reserve(1, 900, 6000)  # a bound never goes back
    case.log.close()
    assert read_all(case.folder)[0].regions[1] == RegionState(0, 1000, 6000)
    again = LogCase(case.folder, case.files).open()
    assert again.log.known_regions()[1] == RegionState(0, 1000, 6000)
    again.log.close()


def test_records_after_a_reservation_complete_when_it_is_durable(case: LogCase, disk: SimulatedFiles) -> None:
    case.reserve(1, 1 << 20, 77)
    change = case.append(1, b"x", Durability.ASYNC)
    case.wait(lambda: change in case.completed)
    recovered, _ = read_all(disk.power_failure(disk.root.parent / "after", Loss.ALL) / "log")
    assert recovered.regions[1].numbers_until == 1 << 20
    assert recovered.regions[1].stamps_until == 77


def test_the_regions_that_pin_are_named_when_there_are_too_many_segments(disk: SimulatedFiles) -> None:
    case = LogCase(disk.root / "log", disk, small_config(log_segment_count_max=2)).open()
    case.append_synced(4, b"x" * 200)
    case.append_synced(2, b"x" * 200)
    case.append_synced(1, b"x" * 700)
    assert case.log.regions_that_pin() == []
    case.append_synced(1, b"x" * 700)
    assert case.log.regions_that_pin() == [2, 4]
    case.log.flushed(4, 1)
    assert case.log.regions_that_pin() == [2]
    case.log.forget(2)
    assert case.log.regions_that_pin() == []
    wait_until(lambda: case.log.statistics().segment_count == 2)
    assert case.log.regions_that_pin() == []
    case.log.close()


def test_flushed_segments_are_removed_after_a_restart(case: LogCase) -> None:
    for _ in range(3):
        case.append_synced(1, b"x" * 700)
    case.log.close()
    again = LogCase(case.folder, case.files, numbers={1: 3}).open()
    assert segment_names(case.folder) == [f"000000000{number}.wal" for number in (1, 2, 3, 4)]
    again.log.flushed(1, 2)
    wait_until(lambda: segment_names(case.folder) == ["0000000003.wal", "0000000004.wal"])
    again.log.flushed(1, 3)
    wait_until(lambda: segment_names(case.folder) == ["0000000004.wal"])
    again.append_synced(1, b"next")
    again.log.close()
    assert read_all(case.folder)[1] == again.appended


def test_a_removal_that_fails_ends_the_log(case: LogCase, disk: SimulatedFiles) -> None:
    case.append_synced(1, b"x" * 700)
    case.append_synced(2, b"x" * 700)
    disk.fail_next("remove", 5)
    case.log.flushed(1, 1)
    case.wait(lambda: bool(case.failures))


def test_write_numbers_that_go_back_fail_an_assertion(case: LogCase) -> None:
    case.append_synced(1, b"x")
    log: Log = case.log
    with pytest.raises(AssertionError, match="write number 1 after 1"), log.order:
        log.append(1, 1, 1, b"x", Durability.OS, lambda: None)
    with pytest.raises(AssertionError, match="kind 255"), log.order:
        log.append(1, 2, 255, b"x", Durability.OS, lambda: None)
