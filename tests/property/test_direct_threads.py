"""64 threads on one direct connection, with deadlines, interruptions, deaths and lost connections at random.

Every call ends, every increment that was answered counts once, and one whose outcome is not known at most once.
"""

from __future__ import annotations

import ctypes
import gc
import random
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import pytest
import rowlock
from rowlock._transport.direct import DirectConnection

from tests.seeds import drawn_seed
from tests.unit.client.fake_errors import Mishap
from tests.unit.client.fake_server import FakeServer

# An interruption may come while a thread runs the finalizer of some other object, which then can only print it, or
# between the making of a socket and its owner's hold on it.
pytestmark = pytest.mark.filterwarnings("ignore:Exception ignored in:pytest.PytestUnraisableExceptionWarning")

THREADS = 64
ENDS_S_MAX = 120.0
# How much longer than its timeout a call may take, on a busy machine.
LATE_S_MAX = 10.0


@dataclass
class Counts:
    """What the threads saw. Appending is atomic."""

    numbers: list[int] = field(default_factory=list)
    unknown: list[BaseException] = field(default_factory=list)
    certain: list[BaseException] = field(default_factory=list)
    late_s: list[float] = field(default_factory=list)


class Caller:
    """A thread that increments one row until it has done so often enough."""

    def __init__(self, table: rowlock.Table[bytes], seed: str, count: int, counts: Counts) -> None:
        self._table = table
        self._draw = random.Random(seed)
        self._left = count
        self._counts = counts
        self._is_within_call = False
        self.thread = threading.Thread(target=self._run, daemon=True)

    def _run(self) -> None:
        while self._left > 0:
            try:
                self._call()
            except BaseException as error:
                # It came after the answer, or before the call.
                self._counts.unknown.append(error)

    def _call(self) -> None:
        self._left -= 1
        timeout = self._draw.choice((0.01, 0.05, 0.3, 5.0, 5.0, 5.0))
        began = time.monotonic()
        try:
            self._counts.numbers.append(self._table.with_options(timeout=timeout).increment(b"row", "f:n"))
        except rowlock.UnknownOutcomeError as error:
            self._counts.unknown.append(error)
        except rowlock.RowlockError as error:
            self._counts.certain.append(error)
        finally:
            self._counts.late_s.append(time.monotonic() - began - timeout)

    def interrupt(self, kind: type[BaseException]) -> None:
        """Raises the exception in the thread, wherever it is."""
        if self.thread.ident is not None and self.thread.is_alive():
            ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(self.thread.ident), ctypes.py_object(kind))


def run(server: FakeServer, chaos: Callable[[list[Caller], random.Random], None], count: int) -> Counts:
    """Runs the threads, and `chaos` again and again beside them, and judges what they saw."""
    counts, seed = Counts(), drawn_seed()
    draw = random.Random(seed)
    with rowlock.connect(server.address, timeout=60) as db:
        table = db.table("t")
        table.row(b"row")
        callers = [Caller(table, f"{seed} {number}", count, counts) for number in range(THREADS)]
        for caller in callers:
            caller.thread.start()
        ends_at = time.monotonic() + ENDS_S_MAX
        while any(caller.thread.is_alive() for caller in callers):
            assert time.monotonic() < ends_at, "a call does not end"
            chaos(callers, draw)
            threading.Event().wait(draw.uniform(0.0, 0.01))
        with server.lock:
            server.script.clear()
        final = table.with_options(timeout=60).counter(b"row", "f:n")
        (statistics,) = db.statistics().connections
    assert len(set(counts.numbers)) == len(counts.numbers), "an increment was answered twice"
    assert max(counts.numbers, default=0) <= final
    assert len(counts.numbers) <= final <= len(counts.numbers) + len(counts.unknown)
    assert statistics.direct_requests > 0
    assert max(counts.late_s) < LATE_S_MAX
    return counts


@pytest.fixture(autouse=True)
def _collected(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A socket that an interruption took from its owner is collected here, and not while a later test runs.

    pytest's own hook would fail the test if an interruption came while it notes another one.
    """
    monkeypatch.setattr(sys, "unraisablehook", lambda unraisable: None)
    yield
    gc.collect()


@pytest.fixture
def server() -> FakeServer:
    return FakeServer(is_direct=True)


def test_calls_end_and_count_once_whatever_their_deadlines(server: FakeServer) -> None:
    counts = run(server, lambda callers, draw: None, count=40)
    server.stop()
    assert len(counts.numbers) + len(counts.unknown) + len(counts.certain) == 40 * THREADS
    assert len(counts.numbers) > 20 * THREADS / 2


def test_interrupted_threads_leave_nothing_to_the_others(server: FakeServer) -> None:
    def chaos(callers: list[Caller], draw: random.Random) -> None:
        for caller in draw.sample(callers, 4):
            caller.interrupt(draw.choice((KeyboardInterrupt, SystemExit)))

    counts = run(server, chaos, count=150)
    server.stop()
    assert len(counts.numbers) > THREADS
    assert any(isinstance(error, KeyboardInterrupt | SystemExit) for error in counts.unknown)


def test_lost_connections_and_answers_are_made_up_for(server: FakeServer) -> None:
    def chaos(callers: list[Caller], draw: random.Random) -> None:
        if draw.random() < 0.1:
            callers[draw.randrange(THREADS)].interrupt(KeyboardInterrupt)
        with server.lock:
            if len(server.script) < 5:
                mishap = draw.choice((Mishap.ANSWER_IS_LOST, Mishap.REQUEST_IS_LOST))
                server.script.extend([Mishap.NONE] * draw.randrange(60) + [mishap])
        if draw.random() < 0.02 and server.direct is not None:
            server.direct.cut()

    counts = run(server, chaos, count=60)
    server.stop()
    assert len(counts.numbers) > THREADS
    assert server.repeated_count > 0


def test_threads_make_up_for_no_other_as_long_as_none_is_interrupted(
    server: FakeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a look only each minute, a part that is not handed on would end this test late."""
    monkeypatch.setattr("rowlock._transport.direct._LOOK_S", 60.0)
    made: list[DirectConnection] = []
    make = DirectConnection.__init__

    def noted(connection: DirectConnection, *arguments: object) -> None:
        make(connection, *arguments)  # type: ignore[arg-type]
        made.append(connection)

    monkeypatch.setattr(DirectConnection, "__init__", noted)
    began = time.monotonic()
    run(server, lambda callers, draw: None, count=100)
    server.stop()
    assert time.monotonic() - began < 60
    assert [connection.statistics().repaired_count for connection in made] == [0]
