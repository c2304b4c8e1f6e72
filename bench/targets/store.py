"""The interface of a row store for the workloads on rows; comparisons with other systems have their own."""

from __future__ import annotations

from typing import Protocol


class RowStore(Protocol):
    """One table with one family. Each call returns after it is done and acknowledged. Thread-safe."""

    def get(self, row: bytes) -> int:
        """Returns the total bytes of the row's values; 0 when it is absent."""

    def put(self, row: bytes, value: bytes) -> None:
        """Sets the one column that the workloads write."""

    def increment(self, row: bytes) -> int:
        """Adds 1 to the row's counter; returns the new value."""
