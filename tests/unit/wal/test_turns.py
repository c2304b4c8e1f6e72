"""A caller that is alone writes and syncs the log by itself; what it must not, the writer's thread does."""

from __future__ import annotations

import errno
import threading
from collections.abc import Callable, Iterator

import pytest
from rowlock_regionserver.cells import Durability
from rowlock_regionserver.errors import StoppingError

from tests.crash.simulated_files import Call, SimulatedFiles
from tests.unit.wal.log_case import WAIT_SECONDS, LogCase, read_all, small_config, wait_until
from tests.unit.wal.test_appending import Gate

_HOUR_US = 3_600_000_000
# A thread that nobody woke is given up after this: a broken build is caught by it.
_WOKEN_SECONDS = 10.0


@pytest.fixture
def case(disk: SimulatedFiles) -> Iterator[LogCase]:
    """A log whose disk counts as quick, whatever it is."""
    case = LogCase(disk.root / "log", disk, small_config(log_quick_sync_us=_HOUR_US)).open()
    yield case
    disk.before_call = lambda call: None
    case.log.close()


def test_what_is_appended_in_a_turn_is_synced_and_completed_in_it_by_the_caller(
    case: LogCase, disk: SimulatedFiles
) -> None:
    threads: dict[str, threading.Thread] = {}

    def before(call: Call) -> None:
        threads[call.name] = threading.current_thread()
        if call.name == "fdatasync":
            assert case.completed == []

    disk.before_call = before
    assert case.log.take_turn()
    change = case.append(1, b"alone")
    assert case.completed == []
    case.log.end_turn()
    assert case.completed == [change]
    assert threads == {"pwrite": threading.main_thread(), "fdatasync": threading.main_thread()}
    assert read_all(case.folder)[1] == [change]


@pytest.mark.parametrize("durability", list(Durability))
def test_a_turn_completes_whatever_durability_is_asked(case: LogCase, durability: Durability) -> None:
    assert case.log.take_turn()
    if durability is Durability.SKIP:
        told: list[str] = []
        with case.log.order:
            case.log.pass_through(lambda: told.append("told"))
        case.log.end_turn()
        assert told == ["told"]
    else:
        change = case.append(1, b"x", durability)
        case.log.end_turn()
        assert case.completed == [change]


def test_what_others_append_meanwhile_is_written_too(case: LogCase) -> None:
    assert case.log.take_turn()
    mine = case.append(1, b"mine")
    other = threading.Thread(target=case.append, args=(2, b"other's"))
    other.start()
    other.join()
    case.log.end_turn()
    assert case.completed == case.appended
    assert case.appended[0] == mine
    assert len(case.appended) == 2


def test_what_others_append_after_a_turn_without_a_write_is_written_by_the_thread(case: LogCase) -> None:
    assert case.log.take_turn()
    case.log.end_turn()
    change = case.append(1, b"x")
    case.wait(lambda: change in case.completed)


def test_nobody_has_a_turn_while_the_thread_writes(case: LogCase, disk: SimulatedFiles) -> None:
    gate = Gate(disk, "fdatasync")
    change = case.append(1, b"x")
    assert gate.reached.wait(WAIT_SECONDS)
    assert not case.log.take_turn()
    gate.opened.set()
    case.wait(lambda: change in case.completed)
    wait_until(case.log.take_turn)
    case.log.end_turn()


def test_the_thread_does_not_write_while_somebody_has_the_turn(case: LogCase) -> None:
    waiting = case.append_synced(1, b"before")
    assert waiting in case.completed
    wait_until(case.log.take_turn)
    written = case.log.statistics().batch_count
    case.append(1, b"x")
    case.append(2, b"y")
    assert case.log.statistics().batch_count == written
    case.log.end_turn()
    assert case.log.statistics().batch_count == written + 1
    assert case.completed == case.appended


@pytest.mark.parametrize(
    "payloads", [[b"x" * 900, b"y" * 900], [b"longer than a segment" * 100]], ids=["a roll", "more than a segment"]
)
def test_what_needs_another_segment_is_left_to_the_thread(case: LogCase, payloads: list[bytes]) -> None:
    case.append_synced(1, b"the segment is begun")
    wait_until(case.log.take_turn)
    for payload in payloads:
        case.append(1, payload)
    case.log.end_turn()
    wait_until(lambda: case.completed == case.appended or bool(case.failures), _WOKEN_SECONDS)
    assert case.failures == []
    case.log.close()
    assert read_all(case.folder)[1] == case.appended


def test_much_is_left_to_the_thread(disk: SimulatedFiles) -> None:
    # The thread looks at nothing by itself: it must be woken.
    config = small_config(log_quick_sync_us=_HOUR_US, log_segment_bytes=1 << 20, log_idle_marker_ms=3_600_000)
    case = LogCase(disk.root / "log", disk, config).open()
    gate = Gate(disk, "pwrite")
    assert case.log.take_turn()
    change = case.append(1, bytes(100_000))
    case.log.end_turn()  # would not return if it wrote
    assert gate.reached.wait(_WOKEN_SECONDS)
    gate.opened.set()
    case.wait(lambda: change in case.completed)
    case.log.close()


def test_a_disk_that_is_slow_is_left_to_the_thread(disk: SimulatedFiles) -> None:
    case = LogCase(disk.root / "log", disk, small_config(log_quick_sync_us=0)).open()
    assert not case.log.take_turn()
    case.log.close()


def test_a_disk_counts_as_slow_until_it_is_known_and_as_quick_after_some_quick_syncs(disk: SimulatedFiles) -> None:
    case = LogCase(disk.root / "log", disk, small_config(log_quick_sync_us=900_000)).open()
    assert not case.log.take_turn()
    case.append_synced(1, b"one sync of a disk that takes less")
    wait_until(case.log.take_turn)
    case.log.end_turn()
    case.log.close()


def test_a_failed_sync_in_a_turn_is_final(case: LogCase, disk: SimulatedFiles) -> None:
    disk.fail_next("fdatasync", errno.EIO)
    assert case.log.take_turn()
    case.append(1, b"lost")
    case.log.end_turn()
    assert isinstance(case.failures[0], OSError)
    assert case.completed == []
    with pytest.raises(StoppingError):
        case.append(1, b"after it")
    assert case.completed == []
    case.log.close()
    assert len(case.failures) == 1


@pytest.mark.parametrize("is_closing", [False, True], ids=["a record", "the end of the log"])
def test_after_a_failed_sync_in_a_turn_the_thread_syncs_nothing_for_which_it_was_woken(
    case: LogCase, disk: SimulatedFiles, monkeypatch: pytest.MonkeyPatch, is_closing: bool
) -> None:
    pending = case.log._writer._pending
    calls: list[str] = []
    woken = threading.Event()

    def wait(idle_ms: int, wait: Callable[[int], bool | None] = pending.wait) -> bool | None:
        is_pending = wait(idle_ms)
        woken.set()
        return is_pending

    def fail_once(call: Call) -> None:
        calls.append(call.name)
        if call.name == "fdatasync" and calls.count("fdatasync") == 1:
            if is_closing:
                with case.log.order:
                    pending.close()
            else:
                case.append(2, b"told as durable")
            # The thread has looked at what is pending now, and waits for the turn.
            assert woken.wait(_WOKEN_SECONDS)
            raise OSError(errno.EIO, "the disk lost these pages")

    monkeypatch.setattr(pending, "wait", wait)
    first = case.append_synced(1, b"first")
    wait_until(case.log.take_turn)
    woken.clear()
    case.append(1, b"lost")
    disk.before_call = fail_once
    case.log.end_turn()
    case.log.close()
    assert case.completed == [first]
    assert calls.count("fdatasync") == 1
    assert len(case.failures) == 1


class _LoneCallerAtEachEnd:
    """The writer's turn, with a caller that finds it free at the very moment when the writer's thread lets go of it."""

    def __init__(self, turn: threading.Lock, caller: Callable[[], None]) -> None:
        self._turn = turn
        self._caller = caller
        self.acquire = turn.acquire
        self.release = turn.release

    def __enter__(self) -> None:
        self._turn.acquire()

    def __exit__(self, *_: object) -> None:
        self._turn.release()
        self._caller()


@pytest.mark.parametrize("is_idle", [False, True], ids=["records", "the marker of an idle log"])
def test_after_a_failed_sync_of_the_thread_nobody_syncs_in_a_turn(
    case: LogCase, disk: SimulatedFiles, monkeypatch: pytest.MonkeyPatch, is_idle: bool
) -> None:
    calls: list[str] = []
    found_closed: list[StoppingError] = []

    def caller() -> None:
        if "failed" in calls and not found_closed and case.log.take_turn():
            try:
                case.append(2, b"told as durable")
            except StoppingError as error:
                found_closed.append(error)
            finally:
                case.log.end_turn()

    def fail_once(call: Call) -> None:
        calls.append(call.name)
        if call.name == "fdatasync" and "failed" not in calls:
            calls.append("failed")
            raise OSError(errno.EIO, "the disk lost these pages")

    first = case.append_synced(1, b"first") if is_idle else None
    wait_until(case.log.take_turn)
    case.log.end_turn()
    monkeypatch.setattr(case.log._writer, "_turn", _LoneCallerAtEachEnd(case.log._writer._turn, caller))
    disk.before_call = fail_once
    if is_idle:
        case.clock.advance(1000)
    else:
        case.append(1, b"lost")
    case.wait(lambda: bool(case.failures))
    assert isinstance(case.failures[0], OSError)
    case.log.close()
    assert case.completed == ([first] if is_idle else [])
    assert "fdatasync" not in calls[calls.index("failed") :]
    assert found_closed


def test_a_write_in_a_turn_puts_off_the_idle_marker_which_comes_all_the_same(case: LogCase) -> None:
    first = case.append_synced(1, b"first")
    offset = read_all(case.folder)[0].end_bytes
    case.clock.advance(1000)
    wait_until(lambda: read_all(case.folder)[0].proven_bytes == offset)
    wait_until(case.log.take_turn)
    second = case.append(1, b"second")
    case.log.end_turn()
    assert case.completed == [first, second]
    offset = read_all(case.folder)[0].end_bytes
    assert read_all(case.folder)[0].proven_bytes < offset
    case.clock.advance(1000)
    wait_until(lambda: read_all(case.folder)[0].proven_bytes == offset)


def test_a_closed_log_gives_no_turn(case: LogCase) -> None:
    case.log.close()
    assert not case.log.take_turn()
