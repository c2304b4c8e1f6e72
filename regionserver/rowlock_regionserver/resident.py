"""What the process holds in memory beyond what the ledger counts, and giving it back when that has become much.

Allocators keep what is freed for the next who asks, and each keeps it for itself: what cells of puts have left is of no
use to Arrow, nor to gRPC. So the system is asked how much there is, and when far more is there than is counted, the
allocators are told to give back what they can.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from rowlock_regionserver.config import MIB
from rowlock_regionserver.ledger import Ledger
from rowlock_regionserver.process import give_back

_STATUS = Path("/proc/self/statm")
# So much more than the ledger counts may be there before allocators are asked: of `memory`, and at least and at most.
_UNCOUNTED_SHARE, _UNCOUNTED_LEAST, _UNCOUNTED_MAX = 16, 16 * MIB, 64 * MIB


def anonymous_bytes() -> int:
    """What this process holds in memory and no file has; 0 where the system does not tell."""
    try:
        _, resident, shared, *_ = _STATUS.read_bytes().split()
    except (OSError, ValueError):
        return 0
    return (int(resident) - int(shared)) * os.sysconf("SC_PAGE_SIZE")


class Resident:
    """Compares the process with its ledger. Used by one thread at a time."""

    def __init__(
        self,
        ledger: Ledger,
        measure: Callable[[], int] = anonymous_bytes,
        give_back: Callable[[], None] = give_back,
    ) -> None:
        self._ledger = ledger
        self._measure = measure
        self._give_back = give_back
        self._uncounted_max = max(_UNCOUNTED_LEAST, min(_UNCOUNTED_MAX, ledger.bytes_max // _UNCOUNTED_SHARE))
        self._could_not_give_back = 0

    def look(self) -> None:
        """Gives back when there is more than before that nobody counts. 20 µs; else 10 to 60 ms."""
        if self._uncounted() - self._could_not_give_back > self._uncounted_max:
            self._give_back()
            self._could_not_give_back = max(0, self._uncounted())

    def _uncounted(self) -> int:
        return self._measure() - self._ledger.own_bytes - self._ledger.bytes_held
