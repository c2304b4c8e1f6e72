"""A row store as the workloads on rows see it: what rowlock offers, and what a peer must offer to be compared.

A peer (HBase through happybase, say) is one more module here with a context manager that gives a RowStore.
"""

from __future__ import annotations

from typing import Protocol


class RowStore(Protocol):
    """One table with one family. Each call returns when it is done and acknowledged; safe to use from threads."""

    def get(self, row: bytes) -> int:
        """The bytes of the row's values; 0 when it is absent."""

    def put(self, row: bytes, value: bytes) -> None:
        """Sets the one column that the workloads write."""

    def increment(self, row: bytes) -> int:
        """Adds 1 to the row's counter; the new value."""
