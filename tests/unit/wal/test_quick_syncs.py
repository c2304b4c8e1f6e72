"""For callers that block for a quick sync: whether syncs are quick."""

from __future__ import annotations

from tests.crash.simulated_files import SimulatedFiles
from tests.unit.wal.log_case import LogCase, small_config
from tests.waiting import wait_until


def test_a_disk_counts_as_slow_until_it_is_measured_and_as_quick_after_some_quick_syncs(disk: SimulatedFiles) -> None:
    case = LogCase(disk.root / "log", disk, small_config(log_quick_sync_us=900_000)).open()
    assert not case.log.is_quick
    case.append_synced(1, b"one sync of a disk that takes less")
    wait_until(lambda: case.log.is_quick)
    case.log.close()


def test_no_disk_is_quick_when_the_limit_is_zero(disk: SimulatedFiles) -> None:
    case = LogCase(disk.root / "log", disk, small_config(log_quick_sync_us=0)).open()
    case.append_synced(1, b"x")
    assert not case.log.is_quick
    case.log.close()
