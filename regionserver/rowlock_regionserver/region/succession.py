"""The succession of a region: its state and its waiting callers go to the regions that take over its rows."""

from __future__ import annotations

import contextlib
import weakref
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from rowlock_regionserver.commit.commit import Commit
from rowlock_regionserver.config import KIB, MIB
from rowlock_regionserver.region.flush import Flusher
from rowlock_regionserver.region.idempotency.manifest_answers import InheritedAnswers
from rowlock_regionserver.region.predecessor import Predecessor
from rowlock_regionserver.region.region_parts import RegionParts

if TYPE_CHECKING:
    from rowlock_regionserver.region.region import Region

# A region with more bytes in memory is flushed before others take over its rows. Fewer go to their manifests.
_HANDED_OVER_BYTES_MAX = 256 * KIB
# A region may make this many changes while those that take over its rows are prepared: their manifests have a bound of
# its last number.
NUMBERS_AHEAD_MAX = 1 << 20
# And their records may have this many bytes.
_NOTED_BYTES_MAX = 32 * MIB


class NotedChange(NamedTuple):
    """A change, as its log record has it; also one with a durability that is not logged."""

    write_number: int
    kind: int
    payload: bytes


class NotedChanges:
    """The changes of a region with numbers above `after`, and their log records, up to a bound of bytes."""

    def __init__(self, after: int, bytes_max: int = _NOTED_BYTES_MAX) -> None:
        self.after = after
        self._bytes_left = bytes_max
        # Writers append, one at a time; one thread takes. Both are atomic.
        self._changes: deque[NotedChange] = deque()
        self._are_complete = True

    def add(self, write_number: int, kind: int, payload: bytes) -> None:
        """Notes a change. The caller holds the log's order lock. Raises nothing: the change is made."""
        self._bytes_left -= len(payload)
        if self._bytes_left < 0:
            self._are_complete = False
        if self._are_complete:
            try:
                self._changes.append(NotedChange(write_number, kind, payload))
            except MemoryError:
                self._are_complete = False

    def taken(self) -> list[NotedChange] | None:
        """Takes the changes that are noted and not taken yet, in the order of their numbers; None: there are more."""
        changes = self._changes
        taken = [changes.popleft() for _ in range(len(changes))]
        return taken if self._are_complete else None


class Succession:
    """One region's succession; for the thread that replaces it, unless a method says otherwise."""

    def __init__(
        self, parts: RegionParts, flusher: Flusher, commit: Commit, check_writable: Callable[[], None]
    ) -> None:
        self._parts = parts
        self._flusher = flusher
        self._commit = commit
        self._check_writable = check_writable
        # Those that have its rows once it is replaced. Weak: a scan may hold this region for long, and not them.
        self._successors: Sequence[weakref.ref[Region]] = ()

    @contextlib.contextmanager
    def handed_over(self, deadline: float, numbers_ahead: int = 0) -> Iterator[Predecessor]:
        """Returns a context in which every write is in what it yields, and none begins.

        Inside `Region.without_flushes`. Writes wait; the region takes writes again after the block, unless the block
        calls `Region.end_replaced`. Blocks; flush before, so that there are few cells to copy. If there are more than
        256 KiB, they are flushed once more with the gate held, which stays even if the block raises. `numbers_ahead`:
        see Predecessor.of. Raises NotServingRegionError, DeadlineError, and the errors of `flush`.
        """
        parts = self._parts
        with self.held(deadline):
            if parts.stores.memstore_bytes > _HANDED_OVER_BYTES_MAX:
                self._flusher.flush_held()
            parts.mvcc.wait_until_published(parts.mvcc.last, parts.log.waits_for_space)
            answers = InheritedAnswers(parts.idempotency, through=parts.mvcc.last)
            yield Predecessor.of(parts, self._flusher.stamps_are_own, answers, numbers_ahead)

    @contextlib.contextmanager
    def noted_changes(self) -> Iterator[NotedChanges]:
        """Returns a context that notes all changes. It is entered inside `handed_over`, and outlives it."""
        noted = NotedChanges(self._parts.mvcc.last)
        self._commit.note_changes(noted.add)
        try:
            yield noted
        finally:
            self._commit.note_changes(None)

    @contextlib.contextmanager
    def held(self, deadline: float) -> Iterator[None]:
        """Returns a context in which no write begins. Inside `Region.without_flushes`; the block may end the region.

        Raises NotServingRegionError and DeadlineError.
        """
        self._check_writable()
        with self._parts.gate.exclusive(deadline):
            yield

    def pass_changes_on(self, successors: Sequence[Region]) -> None:
        """Lets these regions, which serve, make the row changes that wait at the gate, which the caller holds."""
        self._successors = [weakref.ref(region) for region in successors]

    def successor_with(self, rows: Sequence[bytes]) -> Region | None:
        """Returns the region that replaced this one and has all of these rows; None if there is none. Thread-safe."""
        successors = [region for reference in self._successors if (region := reference()) is not None]
        return next((region for region in successors if all(region.has(row) for row in rows)), None)
