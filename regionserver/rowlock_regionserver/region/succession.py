"""How a region is replaced: what it hands over to the regions that take over its rows, and what still comes to it."""

from __future__ import annotations

import contextlib
import weakref
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from rowlock_regionserver.commit.commit import Commit
from rowlock_regionserver.config import KIB
from rowlock_regionserver.region.flush import Flusher
from rowlock_regionserver.region.idempotency.manifest_answers import InheritedAnswers
from rowlock_regionserver.region.predecessor import Predecessor
from rowlock_regionserver.region.region_parts import RegionParts

if TYPE_CHECKING:
    from rowlock_regionserver.region.region import Region

# A region with more bytes in memory is flushed before others take over its rows. Fewer go to their manifests.
_HANDED_OVER_BYTES_MAX = 256 * KIB
# A region may make so many changes while those that take over its rows are prepared: their manifests have a bound of
# its last number.
NUMBERS_AHEAD = 1 << 20


class NotedChange(NamedTuple):
    """A change, as its log record has it; also one that was not logged."""

    write_number: int
    kind: int
    payload: bytes


class NotedChanges:
    """The changes of a region since `begun_at`, its newest number then. Filled by writers, taken by one thread."""

    def __init__(self, begun_at: int) -> None:
        self.begun_at = begun_at
        self._changes: deque[NotedChange] = deque()

    def add(self, write_number: int, kind: int, payload: bytes) -> None:
        """Notes a change. The caller holds the log's order lock."""
        self._changes.append(NotedChange(write_number, kind, payload))

    def taken(self) -> list[NotedChange]:
        """Takes the changes that are noted and not taken yet, in the order of their numbers."""
        changes = self._changes
        return [changes.popleft() for _ in range(len(changes))]


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

        Inside `Region.without_flushes`. Writes wait; the region takes writes again after the block, unless that ends it
        by `Region.end_replaced`. Blocks; flush before, so that there are few cells to copy. If there are more than 256
        KiB, they are flushed once more with the gate held, which stays even if the block raises. `numbers_ahead`: see
        Predecessor.of. Raises NotServingRegionError, DeadlineError, and the errors of `flush`.
        """
        parts = self._parts
        with self.held(deadline):
            if parts.stores.memstore_bytes > _HANDED_OVER_BYTES_MAX:
                self._flusher.flush_held()
            self.wait_until_published()
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

    def wait_until_published(self) -> None:
        """Waits until every write is published. Inside `held` only. Raises DiskFullError and UnknownOutcomeError."""
        parts = self._parts
        parts.mvcc.wait_until_published(parts.mvcc.last, parts.log.waits_for_space)

    def pass_changes_on(self, successors: Sequence[Region]) -> None:
        """Lets these regions, which serve, make the row changes that wait at the gate, which the caller holds."""
        self._successors = [weakref.ref(region) for region in successors]

    def successor_with(self, rows: Sequence[bytes]) -> Region | None:
        """Returns the region that replaced this one and has all of these rows; None if there is none. Thread-safe."""
        successors = [region for reference in self._successors if (region := reference()) is not None]
        return next((region for region in successors if all(region.has(row) for row in rows)), None)
