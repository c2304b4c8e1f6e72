"""The numbers of a client's changes, which let a server apply a repeated change once.

A client draws an id of 16 random bytes and numbers its changes 1, 2, 3, ... A change that is sent again carries its
number again, and the server answers what it answered the first time. Each message also names the floor, the lowest
number still waited for: below it the server forgets.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager


class Sequences:
    """Hands out numbers and knows the floor. Thread-safe; one a client and process."""

    def __init__(self) -> None:
        self.client_id = os.urandom(16)
        self._lock = threading.Lock()
        # Guarded by self._lock:
        self._next = 1
        # First number of each block that is waited for, in the order taken, so the first key is the lowest.
        self._waited_for: dict[int, None] = {}

    def take(self, count: int = 1) -> int:
        """The first of `count` new numbers in a row; waited for until `release` is called with it."""
        with self._lock:
            first = self._next
            self._next = first + count
            self._waited_for[first] = None
        return first

    def release(self, first: int) -> None:
        """Nobody waits for this block any more: it was answered or given up."""
        with self._lock:
            del self._waited_for[first]

    @contextmanager
    def taken(self, count: int) -> Iterator[int]:
        """`take`, released at the end of the block."""
        first = self.take(count)
        try:
            yield first
        finally:
            self.release(first)

    def floor(self) -> int:
        """The lowest number waited for, or the next one. Cost: about the number of blocks waited for."""
        with self._lock:
            return next(iter(self._waited_for), self._next)
