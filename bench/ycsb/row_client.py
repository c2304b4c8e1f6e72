"""The interface that a system's client has for the workloads; a system is one module that implements it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol


class RowClient(Protocol):
    """One table, used by one thread. Each call returns after it is done and acknowledged."""

    def get(self, row: bytes) -> int:
        """Returns how many columns the row has; 0 if it is absent."""

    def put(self, row: bytes, values: Mapping[bytes, bytes]) -> None:
        """Sets these columns of a row."""

    def put_batch(self, rows: Iterable[tuple[bytes, Mapping[bytes, bytes]]]) -> None:
        """Sets columns of many rows, in one batch."""

    def increment(self, row: bytes, column: bytes) -> None:
        """Adds 1 to a counter."""

    def scan(self, start: bytes, count: int) -> int:
        """Reads at most `count` rows from a key on, and returns how many it found."""

    def full_scan(self) -> int:
        """Reads all rows into dicts, and returns how many there are."""

    def full_scan_arrow(self) -> int:
        """Does the same into an Arrow table. Raises NotImplementedError if the client has no such scan."""

    def close(self) -> None:
        """Closes the connection, unless other threads still use it."""
