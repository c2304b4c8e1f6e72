"""Lets threads take turns, and any of them stop the others between their turns."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator


class Turnstile:
    """Any number of turns at once, or one thread alone. Who wants to be alone is preferred."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        # Guarded by self._changed:
        self._turns = 0
        self._alone = 0  # threads that are alone, or wait for it
        self._is_taken = False  # one of them is alone

    @contextlib.contextmanager
    def turn(self) -> Iterator[None]:
        with self._changed:
            self._changed.wait_for(lambda: not self._alone)
            self._turns += 1
        try:
            yield
        finally:
            with self._changed:
                self._turns -= 1
                self._changed.notify_all()

    @contextlib.contextmanager
    def alone(self) -> Iterator[None]:
        """Not within a turn. Two threads are alone one after the other."""
        with self._changed:
            self._alone += 1
            self._changed.wait_for(lambda: not self._turns and not self._is_taken)
            self._is_taken = True
        try:
            yield
        finally:
            with self._changed:
                self._alone -= 1
                self._is_taken = False
                self._changed.notify_all()
