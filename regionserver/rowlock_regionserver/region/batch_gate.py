"""The gate, for batches of many rows: they wait until a split of the region has ended.

Changes that are made while new regions are prepared are copied to these (copied_changes.py). Those of single rows are
copied faster than they are made. A batch may be so large that writes would wait for its copy at the end of the split.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

from rowlock_regionserver.clock import Clock
from rowlock_regionserver.commit.commit import Commit
from rowlock_regionserver.commit.gate import Gate
from rowlock_regionserver.errors import DeadlineError


class BatchGate:
    """Thread-safe."""

    def __init__(self, gate: Gate, commit: Commit, clock: Clock) -> None:
        self._gate = gate
        self._commit = commit
        self._clock = clock

    def shared(self, deadline: float) -> contextlib.AbstractContextManager[None]:
        """Returns a context that holds the gate shared. Raises DeadlineError and NotServingRegionError."""
        return self._outside_splits(self._gate.shared, deadline)

    def exclusive(self, deadline: float) -> contextlib.AbstractContextManager[None]:
        """Returns a context that holds the gate exclusively. Raises DeadlineError and NotServingRegionError."""
        return self._outside_splits(self._gate.exclusive, deadline)

    @contextlib.contextmanager
    def _outside_splits(
        self, held: Callable[[float], contextlib.AbstractContextManager[None]], deadline: float
    ) -> Iterator[None]:
        while True:
            with held(deadline):
                if not self._commit.are_changes_noted:
                    yield
                    return
            if not self._commit.wait_while_noted(deadline - self._clock.monotonic()):
                raise DeadlineError(
                    "the deadline passed while a batch waited for the end of a split; nothing was changed, retry"
                )
