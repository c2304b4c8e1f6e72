"""Signals that stop the server, whatever its threads do.

Python runs a signal's handler in the main thread, between two bytecodes. A main thread that waits for a lock is woken
for that only if the signal is delivered to this thread while it waits: a signal a moment before, or to another thread,
is not handled until the wait ends, perhaps never. So `signal.set_wakeup_fd` writes each signal's number into a socket,
and a thread of its own reads it.
"""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import socket
import threading
import time
from types import FrameType
from typing import Protocol

logger = logging.getLogger(__name__)

STOPPING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
# A second signal within this time is the same one: `timeout` signals the process and then its group.
SAME_SIGNAL_SECONDS = 0.5


class Stoppable(Protocol):
    """The server, as a signal sees it."""

    def ask_to_stop(self) -> None:
        """Requests a stop, and returns at once. May be called before the server has started."""


class Signals:
    """The first signal begins an orderly stop, a later one ends the process. Made by the main thread, once."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        # Guarded by self._lock:
        self._stop_asked_at: float | None = None
        self._server: Stoppable | None = None
        self._numbers, self._written = socket.socketpair()
        self._written.setblocking(False)
        signal.set_wakeup_fd(self._written.fileno(), warn_on_full_buffer=False)
        for number in STOPPING:
            if signal.getsignal(number) is not signal.SIG_IGN:  # nohup ignores SIGHUP on purpose.
                signal.signal(number, _ignore)
        threading.Thread(target=self._read_all, name="signals", daemon=True).start()

    def attach(self, server: Stoppable) -> None:
        """Makes this the server to stop; stops it if a signal was received before."""
        with self._lock:
            self._server = server
            if self._stop_asked_at is not None:
                server.ask_to_stop()

    def _read_all(self) -> None:
        while numbers := self._numbers.recv(64):
            for number in numbers:
                if number in STOPPING:
                    self._handle(number)

    def _handle(self, number: int) -> None:
        now = time.monotonic()
        with self._lock:
            if self._stop_asked_at is None:
                self._stop_asked_at = now
                logger.info("%s: stopping", signal.Signals(number).name)
                if self._server is not None:
                    self._server.ask_to_stop()
            elif now - self._stop_asked_at > SAME_SIGNAL_SECONDS:
                _end_at_once(signal.Signals(number).name)


def _end_at_once(name: str) -> None:
    """Ends the process with a message that names the signal."""
    with contextlib.suppress(OSError):
        message = f"rowlock-server: {name} again: ending at once; the next start recovers from the log\n"
        os.write(2, message.encode())
    os._exit(1)


def _ignore(number: int, frame: FrameType | None) -> None:
    """Does nothing: the number is in the socket. Without a handler the system would end the process."""
