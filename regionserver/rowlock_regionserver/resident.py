"""Resident memory: compares the memory of the process with the ledger, and returns freed memory to the system.

Each allocator keeps freed memory for its own later use: memory that cells of puts have freed is of no use to Arrow or
gRPC. So when the process has much more memory than the ledger counts, the allocators are made to release what they can.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from rowlock_regionserver.config import MIB
from rowlock_regionserver.ledger import Ledger
from rowlock_regionserver.process import give_back

_STATUS = Path("/proc/self/statm")
# The uncounted memory that is tolerated: a share of `memory`, with a minimum and a maximum.
_UNCOUNTED_SHARE, _UNCOUNTED_MIN, _UNCOUNTED_MAX = 16, 16 * MIB, 64 * MIB


def anonymous_bytes() -> int:
    """The resident memory of this process without file pages; 0 where the system does not report it."""
    try:
        _, resident, shared, *_ = _STATUS.read_bytes().split()
    except (OSError, ValueError):
        return 0
    return (int(resident) - int(shared)) * os.sysconf("SC_PAGE_SIZE")


class Resident:
    """Compares the process with its ledger. For one thread at a time."""

    def __init__(
        self,
        ledger: Ledger,
        measure: Callable[[], int] = anonymous_bytes,
        give_back: Callable[[], None] = give_back,
    ) -> None:
        self._ledger = ledger
        self._measure = measure
        self._give_back = give_back
        self._uncounted_max = max(_UNCOUNTED_MIN, min(_UNCOUNTED_MAX, ledger.bytes_max // _UNCOUNTED_SHARE))
        self._not_released = 0

    def look(self) -> None:
        """Releases memory if the uncounted part has grown. Takes 20 µs if not, else 10 to 60 ms."""
        if self._uncounted() - self._not_released > self._uncounted_max:
            self._give_back()
            self._not_released = max(0, self._uncounted())

    def _uncounted(self) -> int:
        return self._measure() - self._ledger.own_bytes - self._ledger.bytes_held
