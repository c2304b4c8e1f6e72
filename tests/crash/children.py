"""Children forked from a warm interpreter: each costs milliseconds, and may die in any way without harm.

The campaigns' own process always has one Python thread, so that a fork is safe. Servers run only in children.
"""

from __future__ import annotations

import faulthandler
import os
import pickle
import selectors
import signal
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

from tests.ending import end_at_once

Job = TypeVar("Job")
Result = TypeVar("Result")

_Send = Callable[[object], None]

# A child that takes longer for one job hangs: it prints the stacks of its threads, and ends.
JOB_S_MAX = 300.0


class ChildFailedError(Exception):
    """A child raised, or was killed by a signal; the message says which."""


def in_child(function: Callable[[], Result], seconds_max: float | None = JOB_S_MAX) -> Result:
    """Runs the function in a child, which ends without cleaning up, as by SIGKILL; returns its result.

    seconds_max: how long it may take. None: there is no limit.
    ChildFailedError with its traceback when it raised, or with the signal that it died of.
    """

    def work(send: _Send) -> None:
        if seconds_max is not None:
            faulthandler.dump_traceback_later(seconds_max, exit=True)
        send(function())

    # Of a process whose watchdog runs, a child could set none: it would wait for the thread, which fork does not copy.
    faulthandler.cancel_dump_traceback_later()
    pid, pipe = _fork(work)
    frames = _Frames()
    with os.fdopen(pipe, "rb") as file:
        frames.data += file.read()
    _, status = os.waitpid(pid, 0)
    if os.WIFSIGNALED(status):
        raise ChildFailedError(f"died of {signal.Signals(os.WTERMSIG(status)).name}")
    for result in frames.take():
        done: Result = result
        return done
    raise ChildFailedError("ended without a word; if it hung, it printed the stacks of its threads")


def spread(function: Callable[[Job], Result], jobs: Sequence[Job]) -> Iterator[tuple[Job, Result]]:
    """Yields each job with its result, as they finish, from one child for each processor.

    ChildFailedError when a job raised; no child works on then.
    """
    count = min(len(jobs), len(os.sched_getaffinity(0)))

    def work(place: int, send: _Send) -> None:
        for number in range(place, len(jobs), count):
            faulthandler.dump_traceback_later(JOB_S_MAX, exit=True)
            send((number, function(jobs[number])))

    pids: list[int] = []
    try:
        with selectors.DefaultSelector() as selector:
            for place in range(count):
                pid, pipe = _fork(lambda send, place=place: work(place, send))  # type: ignore[misc]  # a bound default
                pids.append(pid)
                selector.register(pipe, selectors.EVENT_READ, _Frames())
            while selector.get_map():
                for key, _ in selector.select():
                    chunk = os.read(key.fd, 1 << 20)
                    key.data.data += chunk
                    for number, result in key.data.take():
                        yield jobs[number], result
                    if not chunk:
                        selector.unregister(key.fd)
                        os.close(key.fd)
    except BaseException:
        # The others would continue in the background, in a folder that is removed.
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
        raise
    for pid in pids:
        _, status = os.waitpid(pid, 0)
        if os.WIFSIGNALED(status):
            raise ChildFailedError(f"a worker died of {signal.Signals(os.WTERMSIG(status)).name}")
        if status:
            raise ChildFailedError("a worker hung; it printed the stacks of its threads")


class _Frames:
    """Decodes pickled values, each after its length in 8 bytes."""

    def __init__(self) -> None:
        self.data = bytearray()

    def take(self) -> Iterator[Any]:  # Any: whatever the child sent
        """Yields the complete values; raises one that is a ChildFailedError."""
        while len(self.data) >= 8:
            stop = 8 + int.from_bytes(self.data[:8], "little")
            if len(self.data) < stop:
                return
            value = pickle.loads(bytes(self.data[8:stop]))
            del self.data[:stop]
            if isinstance(value, ChildFailedError):
                raise value
            yield value


def _fork(work: Callable[[_Send], None]) -> tuple[int, int]:
    """Forks a child that does the work and ends; returns its process id, and the pipe for what it sends."""
    reader, writer = os.pipe()
    sys.stdout.flush()
    sys.stderr.flush()
    pid = os.fork()
    if pid:
        os.close(writer)
        return pid, reader

    def send(value: object) -> None:
        data = pickle.dumps(value)
        view = memoryview(len(data).to_bytes(8, "little") + data)
        while view:
            view = view[os.write(writer, view) :]

    try:
        os.close(reader)
        try:
            work(send)
        except BaseException:
            send(ChildFailedError(traceback.format_exc()))
    finally:
        end_at_once(0)
