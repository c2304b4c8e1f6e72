"""Where the rows of regions are that were split or merged: for changes of clients that do not know it yet.

A put, delete, check or increment that names a replaced region is made by the region that has all of its rows now. So
its client need not look the new regions up, which would take longer than the split lets it wait. Batches that travel as
columns, calls of procedures and all reads are refused, and the client looks the region up again.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence

# A client that still knows an older one looks its regions up.
_REMEMBERED_MAX = 1000


class ReplacedRegions:
    """The newest replaced regions of one server run. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        # Guarded by self._lock for writing; replaced by one assignment. By id, the oldest first.
        self._successors: Mapping[int, Sequence[int]] = {}

    def add(self, old: Sequence[int], new: Sequence[int]) -> None:
        """Notes that these regions have taken over the rows of the old ones."""
        with self._lock:
            known = {region_id: _exchanged(ids, old, new) for region_id, ids in self._successors.items()}
            known.update(dict.fromkeys(old, tuple(new)))
            self._successors = dict(list(known.items())[-_REMEMBERED_MAX:])

    def successors(self, region_id: int) -> Sequence[int]:
        """Returns the regions that have the rows of a replaced region now, or had them until they were dropped."""
        return self._successors.get(region_id, ())


def _exchanged(ids: Sequence[int], old: Sequence[int], new: Sequence[int]) -> Sequence[int]:
    """Returns the ids with the new ones in the place of the old ones."""
    if not any(region_id in old for region_id in ids):
        return ids
    return (*[region_id for region_id in ids if region_id not in old], *new)
