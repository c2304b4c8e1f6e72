"""A torn tail is cut: exactly the complete records before it are found, also by the next restart and the one after."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from pathlib import Path

import pytest
from rowlock_regionserver.cells import Durability
from rowlock_regionserver.wal import durable
from rowlock_regionserver.wal.recovered import Recovered
from rowlock_regionserver.wal.segment import segment_path

from tests.crash.simulated_files import Loss, SimulatedFiles, UnsyncedFiles, copy_folder
from tests.drawn_cases import drawn
from tests.unit.wal.log_case import Change, LogCase, read_all, small_config

RECORDS = 8


def garbage(count: int) -> bytes:
    return random.Random(count).randbytes(count)


def killed_image(disk: SimulatedFiles, durability: Durability, target: Path) -> tuple[Path, list[Change], list[int]]:
    """The folder of a log with RECORDS records whose machine lost its power, the records, and where each of them ends.

    All segments had reached the disk by then, but the file `durable` had not: so nothing proves the end.
    """
    case = LogCase(disk.root / "log", disk, small_config(log_segment_bytes=2048)).open()
    stops = []
    for number in range(RECORDS):
        change = case.append(1 + number % 2, b"payload %d" % number * (number % 4), durability)
        case.wait(lambda change=change: change in case.completed)  # type: ignore[misc]
        stops.append(read_all(case.folder)[0].end_bytes)
    image = disk.power_failure(target, Loss.NOTHING) / "log"
    note = disk.power_failure(target.with_name("synced"), Loss.ALL) / "log" / durable.NAME
    note.replace(image / durable.NAME)
    case.log.close()
    return image, case.appended, stops


def reopened_twice(folder: Path) -> tuple[list[Change], list[Change], Recovered]:
    """What the first and the second restart deliver, a kill between them, and the first one's result."""
    first = LogCase(folder, UnsyncedFiles(), small_config()).open()
    again = copy_folder(folder, folder.parent / f"{folder.name}-again")
    first.log.close()
    second = LogCase(again, UnsyncedFiles(), small_config()).open()
    second.log.close()
    assert (second.recovered.gaps, second.recovered.damaged) == ((), {})
    return first.delivered, second.delivered, first.recovered


@pytest.mark.parametrize("durability", [Durability.OS, Durability.FSYNC])
@pytest.mark.parametrize("tail", [bytes, garbage], ids=["zeros", "garbage"])
def test_a_log_torn_at_every_byte_of_its_last_three_records_has_exactly_the_whole_ones(
    disk: SimulatedFiles, tmp_path: Path, durability: Durability, tail: Callable[[int], bytes]
) -> None:
    image, changes, stops = killed_image(disk, durability, tmp_path / "image")
    data = segment_path(image, 1).read_bytes()
    cuts = range(stops[-4], stops[-1])
    for cut in drawn(cuts, len(cuts) // 4, "cuts of the last three records"):
        folder = copy_folder(image, tmp_path / f"cut-{cut}")
        tailed = data[:cut] + tail(len(data) - cut)
        segment_path(folder, 1).write_bytes(tailed)
        # A cut inside a record's last zeros that is followed by zeros changes nothing.
        whole = [change for change, stop in zip(changes, stops, strict=True) if tailed[:stop] == data[:stop]]
        first, second, recovered = reopened_twice(folder)
        assert first == second == whole, f"cut at {cut}"
        assert recovered.gaps == ()
        assert recovered.damaged == {}


def test_valid_records_behind_a_bad_one_that_prove_nothing_are_cut_with_the_tail(
    disk: SimulatedFiles, tmp_path: Path
) -> None:
    image, changes, stops = killed_image(disk, Durability.OS, tmp_path / "image")
    data = bytearray(segment_path(image, 1).read_bytes())
    data[stops[3] + 20] ^= 1
    segment_path(image, 1).write_bytes(data)
    first, second, recovered = reopened_twice(image)
    assert first == second == changes[:4]
    assert recovered.torn == (1, stops[3])
    assert recovered.damaged == {}


def test_the_cut_is_done_before_a_new_segment_exists(disk: SimulatedFiles, tmp_path: Path) -> None:
    image, _, stops = killed_image(disk, Durability.OS, tmp_path / "image")
    with segment_path(image, 1).open("r+b") as file:
        file.seek(stops[5])
        file.write(b"\xff" * 100)
    work = SimulatedFiles(tmp_path / "work")
    folder = copy_folder(image, work.root / "log")
    LogCase(folder, work).open().log.close()
    names = [(call.name, call.path.name) for call in work.calls]
    cut = names.index(("truncate", "0000000001.wal"))
    assert names[cut + 1] == ("fsync", "0000000001.wal")
    assert cut < names.index(("create", "spare.wal")) < names.index(("rename", "0000000002.wal"))
    assert os.stat(segment_path(folder, 1)).st_size == stops[5]


def test_valid_records_that_are_not_proven_are_copied_and_synced(disk: SimulatedFiles, tmp_path: Path) -> None:
    image, changes, _ = killed_image(disk, Durability.OS, tmp_path / "image")
    work = SimulatedFiles(tmp_path / "work")
    folder = copy_folder(image, work.root / "log")
    case = LogCase(folder, work, numbers={1: 4, 2: 4}).open()
    assert case.delivered == changes
    assert len(list(case.recovered.unproven_changes())) == RECORDS
    # The first segment's file was never synced on this disk: only the copies of its records are left.
    os.truncate(segment_path(folder, 1), case.recovered.proven_bytes)
    after = copy_folder(folder, tmp_path / "after")
    recovered, delivered = read_all(after)
    assert delivered == changes
    assert recovered.gaps == ()
    more = [case.append_synced(1, b"more"), case.append_synced(2, b"more")]
    case.log.close()
    recovered, delivered = read_all(folder)
    assert delivered == changes + more
    assert recovered.damaged == {}


def test_an_empty_folder_and_a_missing_one_are_a_new_log(tmp_path: Path) -> None:
    case = LogCase(tmp_path / "log", UnsyncedFiles()).open()
    assert case.recovered.last_segment == 0
    assert case.delivered == []
    log_id = case.log.log_id
    case.log.close()
    again = LogCase(tmp_path / "log", UnsyncedFiles()).open()
    assert again.log.log_id == log_id
    again.log.close()
    other = LogCase(tmp_path / "other", UnsyncedFiles()).open()
    assert other.log.log_id != log_id
    other.log.close()


def test_a_log_of_many_restarts_without_writes_stays_intact(tmp_path: Path) -> None:
    case = LogCase(tmp_path / "log", UnsyncedFiles()).open()
    case.reserve(1, 10, 10)
    case.append_synced(1, b"x")
    case.log.close()
    for _ in range(5):
        again = LogCase(tmp_path / "log", UnsyncedFiles()).open()
        assert again.delivered == case.appended
        assert again.recovered.damaged == {}
        assert again.recovered.regions[1].numbers_until == 10
        again.log.close()
