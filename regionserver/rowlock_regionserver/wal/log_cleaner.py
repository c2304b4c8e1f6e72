"""The log cleaner: decides which segments may be removed, and removes them in a thread, oldest first.

A segment may be removed when every region with changes in it has flushed past its last change there. Reservations pin
no segment: each segment repeats them in its first marker. Dropped regions pin none. A region that recovery found
damaged can't be flushed, so it pins none either, but a segment that may be needed for its repair is renamed to
`.damaged` instead of being removed.

The folder is synced after each removal: a power failure never leaves a hole between segments.
"""

from __future__ import annotations

import itertools
import threading
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from rowlock_regionserver.files import Files
from rowlock_regionserver.wal.segment import damaged_path, segment_path


@dataclass(frozen=True, slots=True)
class Sealed:
    """A segment that is complete: each region with changes in it, and its last write number there."""

    number: int
    regions: Mapping[int, int]
    has_damage: bool = False


class LogCleaner:
    """The segments before the one that is written. Thread-safe; `thread` removes the files."""

    def __init__(
        self,
        folder: Path,
        files: Files,
        sealed: Iterable[Sealed],
        damaged_regions: Iterable[int],
        on_failure: Callable[[BaseException], None],
    ) -> None:
        self._folder = folder
        self._files = files
        self._on_failure = on_failure
        self._lock = threading.Lock()
        # Guarded by self._lock:
        self._changed = threading.Condition(self._lock)
        self._sealed = deque(sealed)
        self._flushed: dict[int, int] = {}
        self._forgotten: dict[int, int] = {}  # by region, the last segment that may have changes of it
        self._damaged = set(damaged_regions)
        # The oldest segment's number, and those of its regions that may pin it.
        self._oldest = 0
        self._candidates: list[int] = []
        self._is_closing = False
        self.removed_count = 0
        self.thread = threading.Thread(target=self._run, name="log-cleaner", daemon=True)

    def add(self, sealed: Sealed) -> None:
        """Adds a sealed segment whose successor is durable."""
        with self._lock:
            self._sealed.append(sealed)
            self._wake_if_removable()

    def flushed(self, region_id: int, write_number: int) -> None:
        """Notes that the region's writes up to this number are in store files."""
        with self._lock:
            self._flushed[region_id] = max(write_number, self._flushed.get(region_id, 0))
            self._wake_if_removable()

    def forget(self, region_id: int, segment: int) -> None:
        """Notes that the region is gone: it pins no segment. Those after this one have no changes of it."""
        with self._lock:
            self._forgotten[region_id] = segment
            self._flushed.pop(region_id, None)
            self._damaged.discard(region_id)
            self._wake_if_removable()

    def give_up(self, region_id: int) -> None:
        """Notes that the region can't be flushed: it pins no segment, and segments with changes of it are kept."""
        with self._lock:
            self._damaged.add(region_id)
            self._wake_if_removable()

    def segment_count(self) -> int:
        """The number of sealed segments that are not removed yet."""
        with self._lock:
            return len(self._sealed)

    def pinning_regions(self) -> list[int]:
        """The regions that pin the oldest sealed segment, ascending."""
        with self._lock:
            return sorted(self._pinning(self._sealed[0])) if self._sealed else []

    def close(self) -> None:
        """Ends the thread, and waits for it. Removable segments that remain are removed after the next start."""
        with self._lock:
            self._is_closing = True
            self._changed.notify_all()
        self.thread.join()

    def _check(self) -> None:
        """Asserts the invariant that sealed segments have consecutive numbers."""
        with self._lock:
            for older, newer in itertools.pairwise(self._sealed):
                assert newer.number == older.number + 1, f"segment {newer.number} after {older.number}"

    def _pins(self, region_id: int, sealed: Sealed) -> bool:
        """Whether the region pins the segment. Once it does not, it never will again."""
        return (
            self._flushed.get(region_id, 0) < sealed.regions[region_id]
            and region_id not in self._forgotten
            and region_id not in self._damaged
        )

    def _pinning(self, sealed: Sealed) -> list[int]:
        return [region_id for region_id in sealed.regions if self._pins(region_id, sealed)]

    def _removable(self) -> Sealed | None:
        """Returns the oldest segment if no region pins it, else None. O(1), amortized over the regions."""
        if not self._sealed:
            return None
        sealed = self._sealed[0]
        if self._oldest != sealed.number:
            self._oldest, self._candidates = sealed.number, list(sealed.regions)
        while self._candidates and not self._pins(self._candidates[-1], sealed):
            self._candidates.pop()
        return None if self._candidates else sealed

    def _wake_if_removable(self) -> None:
        """Notifies the thread only if it has something to do: with many regions, most flushes free no segment."""
        if self._removable() is not None:
            self._changed.notify_all()

    def _run(self) -> None:
        try:
            while (sealed := self._wait_for_removable()) is not None:
                self._remove(sealed)
        except BaseException as error:
            self._on_failure(error)

    def _wait_for_removable(self) -> Sealed | None:
        with self._lock:
            while not self._is_closing:
                sealed = self._removable()
                if sealed is not None:
                    return sealed
                self._changed.wait()
            return None

    def _remove(self, sealed: Sealed) -> None:
        path = segment_path(self._folder, sealed.number)
        with self._lock:
            is_evidence = sealed.has_damage or not self._damaged.isdisjoint(sealed.regions)
        if is_evidence:
            self._files.rename(path, damaged_path(self._folder, sealed.number))
        else:
            self._files.remove_unread(path)
        self._files.fsync_folder(self._folder)
        with self._lock:
            self._sealed.popleft()
            self._forgotten = {region_id: last for region_id, last in self._forgotten.items() if last > sealed.number}
            self.removed_count += 1
            self._changed.notify_all()
