"""On a full disk CHECK refuses writes, nothing is lost, and writes resume without an operator."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest
from rowlock_regionserver.cells import Durability
from rowlock_regionserver.errors import DiskFullError

from tests.crash.simulated_files import Call, Loss, SimulatedFiles
from tests.unit.wal.log_case import LogCase, read_all, small_config
from tests.waiting import wait_until


@pytest.fixture(autouse=True)
def _retry_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rowlock_regionserver.wal.preallocated.RETRY_SECONDS", 0.01)


class TightDisk(SimulatedFiles):
    """It has space for files of so many bytes, and as much as it says."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.file_bytes_max = self.free = 1_000_000

    def allocate(self, descriptor: int, offset: int, length: int) -> None:
        if length > self.file_bytes_max:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        super().allocate(descriptor, offset, length)

    def free_bytes(self, path: Path) -> int:
        return self.free


def fill(disk: SimulatedFiles) -> None:
    """Makes every allocation fail."""

    def refuse(call: Call) -> None:
        if call.name == "allocate":
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(call.path))

    disk.before_call = refuse


def empty(disk: SimulatedFiles) -> None:
    disk.before_call = lambda call: None


def test_writes_are_refused_when_the_next_segment_can_not_be_made_and_resume_when_it_can(
    case: LogCase, disk: SimulatedFiles
) -> None:
    case.log.check_space(100)
    fill(disk)
    case.append_synced(1, b"x" * 600)  # more than half of the segment
    wait_until(lambda: case.log.statistics().is_full)
    with pytest.raises(DiskFullError) as refusal:
        case.log.check_space(1)
    assert refusal.value.can_retry
    assert refusal.value.retry_after_ms > 0
    # A write that passed CHECK before still gets its space.
    case.append_synced(1, b"x" * 100)
    empty(disk)
    wait_until(lambda: not case.log.statistics().is_full)
    case.log.check_space(1)
    case.append_synced(1, b"x" * 900)
    case.log.close()
    assert read_all(case.folder)[1] == case.appended


def test_a_failed_allocation_leaves_no_file_that_takes_space(
    case: LogCase, disk: SimulatedFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rowlock_regionserver.wal.preallocated.RETRY_SECONDS", 1000.0)
    fill(disk)
    case.append_synced(1, b"x" * 600)
    wait_until(lambda: case.log.statistics().is_full)
    assert sorted(os.listdir(case.folder)) == ["0000000001.wal", "durable"]
    empty(disk)


def test_space_that_flushes_need_is_left_alone(tmp_path: Path) -> None:
    disk = TightDisk(tmp_path / "disk")
    disk.free = 11_000
    case = LogCase(disk.root / "log", disk, small_config(disk_free_bytes_min=10_000)).open()
    case.append_synced(1, b"x" * 600)
    wait_until(lambda: case.log.statistics().is_full)
    assert not (case.folder / "spare.wal").exists()
    disk.free = 12_000
    wait_until(lambda: not case.log.statistics().is_full)
    case.log.close()


def test_records_appended_before_the_refusal_wait_for_space_and_complete(case: LogCase, disk: SimulatedFiles) -> None:
    fill(disk)
    case.append_synced(1, b"x" * 600)
    late = [case.append(1, b"y" * 600), case.append(1, b"z" * 5000)]
    wait_until(lambda: case.log.statistics().is_full)
    assert not set(late) & set(case.completed)
    empty(disk)
    case.wait(lambda: late[1] in case.completed)
    case.log.close()
    assert read_all(case.folder)[1] == case.appended == case.completed


@pytest.mark.parametrize("durability", [Durability.ASYNC, Durability.OS, Durability.FSYNC])
def test_a_record_larger_than_a_segment_waits_for_space(
    case: LogCase, disk: SimulatedFiles, durability: Durability
) -> None:
    fill(disk)
    change = case.append(1, b"z" * 5000, durability)
    wait_until(lambda: case.log.statistics().is_full)
    with pytest.raises(DiskFullError):
        case.log.check_space(1)
    assert case.completed == []
    empty(disk)
    case.wait(lambda: change in case.completed)
    wait_until(lambda: not case.log.statistics().is_full)


def test_closing_on_a_full_disk_ends_and_leaves_unwritten_changes_unacknowledged(
    case: LogCase, disk: SimulatedFiles
) -> None:
    fill(disk)
    kept = case.append_synced(1, b"x" * 600)
    case.append(1, b"y" * 600)
    wait_until(lambda: case.log.statistics().is_full)
    case.log.close()
    assert case.completed == [kept]
    assert isinstance(case.failures[0], OSError)
    assert read_all(case.folder)[1] == [kept]


def test_a_server_starts_on_a_full_disk_refuses_writes_and_resumes_when_there_is_space(tmp_path: Path) -> None:
    disk = TightDisk(tmp_path / "disk")
    case = LogCase(disk.root / "log", disk).open()
    for number in range(10):
        case.append(1, b"%d" % number, Durability.OS)
    case.log.sync()
    image = disk.power_failure(disk.root / "image", Loss.ALL) / "log"
    case.log.close()
    disk.file_bytes_max = 100_000
    large = small_config(log_segment_bytes=200_000)
    again = LogCase(image, disk, large, numbers={1: 10}).open()
    assert again.delivered == case.appended
    wait_until(lambda: again.log.statistics().is_full)
    with pytest.raises(DiskFullError):
        again.log.check_space(1)
    again.reserve(1, 100, 100)  # a start needs this much
    again.log.sync()
    disk.file_bytes_max = 1_000_000
    wait_until(lambda: not again.log.statistics().is_full)
    again.append_synced(1, b"next")
    again.log.close()
    assert read_all(image)[1] == case.appended + again.appended


def test_a_server_does_not_start_when_even_the_end_of_the_log_has_no_space(case: LogCase, disk: SimulatedFiles) -> None:
    case.append_synced(1, b"x")
    case.log.close()
    fill(disk)
    with pytest.raises(DiskFullError, match="start again"):
        LogCase(case.folder, disk).open()
    empty(disk)
    again = LogCase(case.folder, disk).open()
    assert again.delivered == case.appended
    again.log.close()
