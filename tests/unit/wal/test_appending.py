"""Appended records complete in order, as durable as requested, many with one sync; a failure is final."""

from __future__ import annotations

import errno
import threading
from pathlib import Path

import pytest
from rowlock_regionserver.cells import Durability
from rowlock_regionserver.errors import RegionTooBusyError, StoppingError, UnknownOutcomeError
from rowlock_regionserver.wal.log import Log

from tests.crash.simulated_files import Call, Loss, SimulatedFiles
from tests.unit.wal.log_case import LogCase, read_all, read_alone, small_config
from tests.waiting import WAIT_S, wait_until


class Gate:
    """Holds the calls of one name until it is opened."""

    def __init__(self, disk: SimulatedFiles, name: str) -> None:
        self.reached = threading.Event()
        self.opened = threading.Event()
        self._name = name
        disk.before_call = self._pass

    def _pass(self, call: Call) -> None:
        if call.name == self._name:
            self.reached.set()
            assert self.opened.wait(WAIT_S)


def test_completions_of_all_durabilities_come_in_log_order(case: LogCase) -> None:
    durabilities = [Durability.SKIP, Durability.ASYNC, Durability.OS, Durability.FSYNC]
    for number in range(200):
        case.append(1 + number % 3, b"%d" % number, durabilities[number * 7 % 4])
    case.log.sync()
    assert case.completed == case.appended


def test_a_completion_without_a_record_comes_in_log_order(case: LogCase) -> None:
    order: list[str] = []
    with case.log.order:
        case.log.append(1, 1, 1, b"a", Durability.FSYNC, lambda: order.append("append"))
        case.log.pass_through(lambda: order.append("pass through"))
        case.log.append(1, 2, 1, b"b", Durability.OS, lambda: order.append("second append"))
    case.log.sync()
    assert order == ["append", "pass through", "second append"]


def test_fsync_completes_after_the_sync_and_os_before_it(case: LogCase, disk: SimulatedFiles) -> None:
    gate = Gate(disk, "fdatasync")
    written = case.append(1, b"written", Durability.OS)
    case.wait(lambda: written in case.completed)
    synced = case.append(1, b"synced", Durability.FSYNC)
    assert gate.reached.wait(WAIT_S)
    assert synced not in case.completed
    gate.opened.set()
    case.wait(lambda: synced in case.completed)


def test_async_completes_before_the_write(case: LogCase, disk: SimulatedFiles) -> None:
    gate = Gate(disk, "pwrite")
    change = case.append(1, b"soon", Durability.ASYNC)
    case.wait(lambda: change in case.completed)
    assert case.log.statistics().pending_bytes > 0
    gate.opened.set()
    case.log.sync()


def test_os_completes_after_the_write(case: LogCase, disk: SimulatedFiles) -> None:
    gate = Gate(disk, "pwrite")
    change = case.append(1, b"written", Durability.OS)
    assert gate.reached.wait(WAIT_S)
    assert case.completed == []
    gate.opened.set()
    case.wait(lambda: change in case.completed)


class RecordingDisk(SimulatedFiles):
    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.written: list[tuple[int, int]] = []  # offset and length

    def pwrite(self, descriptor: int, data: bytes | bytearray | memoryview, offset: int) -> int:
        self.written.append((offset, len(data)))
        return super().pwrite(descriptor, data, offset)


def test_a_short_batch_is_written_with_zeros_ahead_once_and_never_beyond_the_segment(tmp_path: Path) -> None:
    disk = RecordingDisk(tmp_path / "disk")
    case = LogCase(disk.root / "log", disk, small_config(log_segment_bytes=300_000)).open()
    written = disk.written
    written.clear()
    for number in range(5):
        case.append_synced(1, b"%d" % number)
    assert written[0][1] > 256 * 1024
    assert max(length for _, length in written[1:]) < 100
    for _ in range(27):
        case.append_synced(1, bytes(10_000))
    assert max(sum(place) for place in written) == 300_000
    assert read_all(case.folder)[1] == case.appended
    case.log.close()


def test_os_does_not_wait_for_a_sync(case: LogCase, disk: SimulatedFiles) -> None:
    syncs = disk.count("fdatasync")
    for number in range(5):
        case.append(1, b"%d" % number, Durability.OS)
    case.wait(lambda: len(case.completed) == 5)
    assert disk.count("fdatasync") == syncs
    assert case.log.statistics().sync_count == 0


def test_one_sync_carries_all_records_appended_during_the_last(case: LogCase, disk: SimulatedFiles) -> None:
    gate = Gate(disk, "fdatasync")
    case.append(1, b"first")
    assert gate.reached.wait(WAIT_S)
    syncs = disk.count("fdatasync")
    for number in range(6):
        case.append(2 + number, b"x")
    gate.opened.set()
    case.wait(lambda: len(case.completed) == 7)
    assert disk.count("fdatasync") == syncs + 1


def test_a_sync_without_anything_new_touches_no_disk(case: LogCase, disk: SimulatedFiles) -> None:
    case.append_synced(1, b"x")
    syncs = disk.count("fdatasync")
    case.log.sync()
    assert disk.count("fdatasync") == syncs


def test_sixty_four_threads_share_few_syncs(disk: SimulatedFiles) -> None:
    case = LogCase(disk.root / "log", disk, small_config(log_segment_bytes=1 << 20)).open()
    syncs = disk.count("fdatasync")
    gate = Gate(disk, "fdatasync")
    threads = [threading.Thread(target=case.append_synced, args=(region_id, b"x")) for region_id in range(1, 65)]
    for thread in threads:
        thread.start()
    wait_until(lambda: len(case.appended) == 64)
    gate.opened.set()
    for thread in threads:
        thread.join()
    assert disk.count("fdatasync") - syncs <= 3
    case.log.close()
    assert sorted(read_all(case.folder)[1]) == sorted(case.appended)


class ShortWritingDisk(SimulatedFiles):
    def pwrite(self, descriptor: int, data: bytes | bytearray | memoryview, offset: int) -> int:
        return super().pwrite(descriptor, memoryview(data)[:7], offset)


def test_a_short_write_is_continued(tmp_path: Path) -> None:
    disk = ShortWritingDisk(tmp_path / "disk")
    case = LogCase(disk.root / "log", disk).open()
    case.append_synced(1, b"p" * 100)
    assert read_all(case.folder)[1] == case.appended
    case.log.close()


@pytest.mark.parametrize("name", ["pwrite", "fdatasync"])
def test_a_failed_write_or_sync_is_final(case: LogCase, disk: SimulatedFiles, name: str) -> None:
    kept = case.append_synced(1, b"kept")
    disk.fail_next(name, errno.EIO)
    case.append(1, b"lost")
    case.wait(lambda: bool(case.failures))
    disk.before_call = lambda call: None
    with pytest.raises(StoppingError):
        case.append(1, b"never")
    with pytest.raises(StoppingError):
        case.log.check_space(1)
    with pytest.raises(StoppingError):
        case.log.sync()
    case.log.close()
    assert case.completed == [kept]
    assert [type(error) for error in case.failures] == [OSError]


def test_a_failed_sync_that_drops_its_pages_loses_nothing_that_was_completed(
    case: LogCase, disk: SimulatedFiles
) -> None:
    case.append_synced(1, b"kept")
    gate = Gate(disk, "pwrite")
    case.append(1, b"lost")
    assert gate.reached.wait(WAIT_S)
    disk.fail_at(1, errno.EIO)
    gate.opened.set()
    case.wait(lambda: bool(case.failures))
    case.log.close()
    after = LogCase(disk.root / "log", disk).open()
    assert after.delivered == case.completed
    after.log.close()


def test_a_thread_that_waits_for_a_sync_gets_the_failure_of_the_log(
    case: LogCase, disk: SimulatedFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = Gate(disk, "fdatasync")
    case.append(1, b"first")
    assert gate.reached.wait(WAIT_S)
    errors: list[BaseException] = []
    waits = threading.Event()

    def waits_for_space(log: Log) -> bool:
        waits.set()
        return False

    monkeypatch.setattr(Log, "waits_for_space", property(waits_for_space))

    def wait_for_sync() -> None:
        try:
            case.log.sync()
        except UnknownOutcomeError as error:
            errors.append(error)

    waiting = threading.Thread(target=wait_for_sync)
    waiting.start()
    assert waits.wait(WAIT_S)
    disk.fail_next("fdatasync", errno.EIO)
    case.append(1, b"second")
    gate.opened.set()
    waiting.join()
    assert len(errors) == 1
    assert len(case.failures) == 1


def test_a_completion_that_raises_ends_the_log(case: LogCase) -> None:
    def broken() -> None:
        raise ValueError("a bug in a completion")

    with case.log.order:
        case.log.append(1, 1, 1, b"x", Durability.FSYNC, broken)
    case.wait(lambda: bool(case.failures))
    assert isinstance(case.failures[0], ValueError)


def test_too_much_pending_is_refused_and_taken_again_when_it_is_written(disk: SimulatedFiles) -> None:
    case = LogCase(disk.root / "log", disk, small_config(log_pending_bytes_max=300)).open()
    case.log.check_space(5000)  # nothing is pending: one large write must be possible
    gate = Gate(disk, "pwrite")
    case.append(1, b"x" * 200)
    assert gate.reached.wait(WAIT_S)
    case.log.check_space(20)
    with pytest.raises(RegionTooBusyError) as refusal:
        case.log.check_space(100)
    assert refusal.value.retry_after_ms > 0
    gate.opened.set()
    case.log.sync()
    case.log.check_space(100)
    case.log.close()


def test_the_idle_marker_makes_the_last_record_provable(case: LogCase, disk: SimulatedFiles) -> None:
    case.append(1, b"only handed to the system", Durability.OS)
    case.wait(lambda: len(case.completed) == 1)
    offset = read_all(case.folder)[0].end_bytes
    case.clock.advance(1000)
    wait_until(lambda: read_alone(case.folder)[0].proven_bytes == offset, seconds=5)
    wait_until(lambda: case.log.statistics().pending_bytes == 0)
    # Once: when the clock moves on, there is no second one.
    end = case.log.statistics().appended_bytes
    case.clock.advance(1000)
    case.append_synced(1, b"next")
    recovered, delivered = read_all(disk.power_failure(disk.root.parent / "after", Loss.ALL) / "log")
    assert delivered == case.appended
    assert case.log.statistics().appended_bytes == end + 48
    assert recovered.gaps == ()


def test_closing_completes_all_records_and_leaves_a_segment_of_its_contents_size(case: LogCase) -> None:
    changes = [case.append(1, b"%d" % number, Durability.OS) for number in range(5)]
    case.log.close()
    case.log.close()
    assert case.completed == changes
    recovered, delivered = read_all(case.folder)
    assert delivered == changes
    assert list(recovered.unproven_changes()) == []
    assert recovered.torn is None
    assert (case.folder / "0000000001.wal").stat().st_size == recovered.end_bytes
    assert sorted(path.name for path in case.folder.iterdir()) == ["0000000001.wal", "durable"]
    with pytest.raises(StoppingError):
        case.append(1, b"late")
    with pytest.raises(StoppingError):
        case.log.check_space(1)
