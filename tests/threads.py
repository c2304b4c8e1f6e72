"""What a thread is doing, for tests that must wait until it waits."""

from __future__ import annotations

import linecache
import sys
import threading
import time
from collections.abc import Callable
from types import FrameType

from tests.waiting import WAIT_S

# Between two looks.
_LOOK_S = 0.001
# Functions of the threading module that wait. A thread that is starting is in others.
_WAITING = ("wait", "acquire", "__enter__", "join", "_wait_for_tstate_lock")


def wait_until_it_waits(thread: threading.Thread, seconds_max: float = WAIT_S) -> None:
    """Blocks until the thread waits for another one, or has ended."""
    wait_until_it_ends_or(thread, lambda: _waits(thread), seconds_max)


def wait_until_it_ends_or(thread: threading.Thread, holds: Callable[[], bool], seconds_max: float = WAIT_S) -> None:
    """Blocks until the condition holds, or the thread has ended."""
    ends_at = time.monotonic() + seconds_max
    while thread.is_alive() and not holds():
        assert time.monotonic() < ends_at, f"{thread.name} does not end, and is at {line_of(thread)!r}"
        threading.Event().wait(_LOOK_S)


def _waits(thread: threading.Thread) -> bool:
    """Whether its innermost frame waits in the threading module, or is about to take a lock."""
    frame = sys._current_frames().get(thread.ident or 0)
    if frame is None:
        return False
    code = frame.f_code
    is_waiting = code.co_filename == threading.__file__ and code.co_name in _WAITING
    return is_waiting or _line_of(frame).startswith("with self._lock")


def line_of(thread: threading.Thread) -> str:
    """The line of code that the thread is at; empty if it has ended."""
    frame = sys._current_frames().get(thread.ident or 0)
    return "" if frame is None else _line_of(frame)


def is_at(thread: threading.Thread, passage: str) -> bool:
    """Whether the thread is at a line of code with this passage, or in a call that such a line made."""
    frame = sys._current_frames().get(thread.ident or 0)
    while frame is not None:
        if passage in _line_of(frame):
            return True
        frame = frame.f_back
    return False


def _line_of(frame: FrameType) -> str:
    return linecache.getline(frame.f_code.co_filename, frame.f_lineno).strip()
