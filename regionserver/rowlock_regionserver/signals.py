"""Signals that stop the server, taken whatever its threads are at.

Python runs a signal's handler in the main thread, between two of its steps. A main thread that waits for a lock is
woken for that only if the signal comes to itself and while it waits already: one that comes a moment before, or to
another thread, waits with it, for ever. So the system's side writes each signal's number into a socket, as
`signal.set_wakeup_fd` offers, and a thread that does nothing else reads it.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import threading
import time
from types import FrameType
from typing import Protocol

STOPPING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
# A signal that follows sooner is the same one: `timeout` signals the process and then its group.
SAME_SIGNAL_SECONDS = 0.5


class Stoppable(Protocol):
    """The server, as a signal sees it."""

    def ask_to_stop(self) -> None:
        """Returns at once; also before it has started."""


class Signals:
    """Turns signals into an orderly stop, and a later one into the end. Made by the main thread, once a process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        # Guarded by self._lock:
        self._stop_asked_at: float | None = None
        self._server: Stoppable | None = None
        self._numbers, self._written = socket.socketpair()
        self._written.setblocking(False)
        signal.set_wakeup_fd(self._written.fileno(), warn_on_full_buffer=False)
        for number in STOPPING:
            if signal.getsignal(number) is not signal.SIG_IGN:  # nohup ignores SIGHUP, and means it.
                signal.signal(number, _leave_to_the_thread)
        threading.Thread(target=self._take_all, name="signals", daemon=True).start()

    def attach(self, server: Stoppable) -> None:
        """From now on it is this server that is stopped."""
        with self._lock:
            self._server = server
            if self._stop_asked_at is not None:
                server.ask_to_stop()

    def _take_all(self) -> None:
        while numbers := self._numbers.recv(64):
            for number in numbers:
                if number in STOPPING:
                    self._take(number)

    def _take(self, number: int) -> None:
        now = time.monotonic()
        with self._lock:
            if self._stop_asked_at is None:
                self._stop_asked_at = now
                if self._server is not None:
                    self._server.ask_to_stop()
            elif now - self._stop_asked_at > SAME_SIGNAL_SECONDS:
                _end_at_once(signal.Signals(number).name)


def _end_at_once(name: str) -> None:
    """Ends the process, and says that it is for the signal of this name."""
    with contextlib.suppress(OSError):
        os.write(2, f"rowlock-server: {name} again: ending at once; the next start recovers from the log\n".encode())
    os._exit(1)


def _leave_to_the_thread(number: int, frame: FrameType | None) -> None:
    """Its number is in the socket. A handler must be there, else the system would end the process."""
