"""What a thread is doing, for tests that must wait until it waits."""

from __future__ import annotations

import linecache
import sys
import threading
import time
from types import FrameType

# Between two looks.
_LOOK_S = 0.001


def wait_until_it_waits(thread: threading.Thread, seconds_max: float = 60.0) -> None:
    """Blocks until the thread waits for another one, or has ended."""
    ends_at = time.monotonic() + seconds_max
    while thread.is_alive() and not _waits(thread):
        assert time.monotonic() < ends_at, f"{thread.name} neither waits nor ends"
        threading.Event().wait(_LOOK_S)


def _waits(thread: threading.Thread) -> bool:
    """Whether its innermost frame is in the threading module, or is about to take a lock."""
    frame = sys._current_frames().get(thread.ident or 0)
    return frame is not None and (
        frame.f_code.co_filename == threading.__file__ or _line_of(frame).startswith("with self._lock")
    )


def line_of(thread: threading.Thread) -> str:
    """The line of code that the thread is at; empty if it has ended."""
    frame = sys._current_frames().get(thread.ident or 0)
    return "" if frame is None else _line_of(frame)


def _line_of(frame: FrameType) -> str:
    return linecache.getline(frame.f_code.co_filename, frame.f_lineno).strip()
