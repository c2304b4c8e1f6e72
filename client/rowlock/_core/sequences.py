"""Sequence numbers of a client's changes, by which a server applies a repeated change only once.

A client draws an id of 16 random bytes and numbers its changes 1, 2, 3, ... A repeated change carries the same number,
and the server returns its saved answer. Each message also carries the floor, the lowest number whose answer the client
still waits for. The server forgets the answers to lower numbers.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager


class Sequences:
    """Allocates sequence numbers and tracks the floor. Thread-safe; one per client and process."""

    def __init__(self) -> None:
        self.client_id = os.urandom(16)
        self._lock = threading.Lock()
        # Guarded by self._lock:
        self._next = 1
        # The first number of each block in use, in the order taken, so the first key is the lowest.
        self._waited_for: dict[int, None] = {}
        # Written under the lock and read without it: a floor that is out of date is lower, which is safe.
        self._floor = 1

    def take(self, count: int = 1) -> int:
        """Allocates `count` consecutive numbers and returns the first. They are in use until `release`."""
        with self._lock:
            first = self._next
            self._next = first + count
            self._waited_for[first] = None
        return first

    def release(self, first: int) -> None:
        """Ends the use of a block of numbers: it was answered or given up. O(blocks that were released before it)."""
        with self._lock:
            del self._waited_for[first]
            self._floor = next(iter(self._waited_for), self._next)

    @contextmanager
    def taken(self, count: int) -> Iterator[int]:
        """Takes numbers and releases them at the end of the `with` block."""
        first = self.take(count)
        try:
            yield first
        finally:
            self.release(first)

    def floor(self) -> int:
        """Returns the lowest number in use, or the next one if none is."""
        return self._floor
