"""Splits regions that have grown past the limit of their table, `split.region_bytes`: one after the other, in a thread.

A region is checked after its flushes and compactions, and all are from time to time. One that has files with rows of
other regions is not split: a compaction rewrites these first, and only then its size is known.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence

from rowlock_regionserver.catalog.properties import split_region_bytes
from rowlock_regionserver.clock import Clock
from rowlock_regionserver.errors import NotServingRegionError, RegionServerError, StoppingError, UnknownOutcomeError
from rowlock_regionserver.region.region import Region

logger = logging.getLogger(__name__)


class AutomaticSplits:
    """Thread-safe."""

    def __init__(
        self,
        regions: Mapping[int, Region],
        split: Callable[[Region], object],
        pause_s: float,
        clock: Clock,
        on_failure: Callable[[BaseException], None],
    ) -> None:
        """`regions`: those that are served, at any moment. `split` splits one where its data is halved.

        `pause_s`: how long a region is left alone after a split that failed. `on_failure` is called when the thread
        ends by an error of its own.
        """
        self._regions = regions
        self._split = split
        self._pause_s = pause_s
        self._clock = clock
        self._on_failure = on_failure
        self._changed = threading.Condition()
        # Guarded by self._changed:
        self._woken: set[int] = set()
        self._is_stopping = False
        # Used by the thread only:
        self._paused_until: dict[int, float] = {}
        self.thread = threading.Thread(target=self._run, name="automatic-splits", daemon=True)

    def wake(self, region_id: int) -> None:
        """Asks the thread to check the region; to be called after a flush or a compaction. Never blocks for long."""
        with self._changed:
            self._woken.add(region_id)
            self._changed.notify_all()

    def stop(self) -> None:
        """Ends the thread. Blocks until a split under way is done."""
        with self._changed:
            self._is_stopping = True
            self._changed.notify_all()
        if self.thread.ident is not None:
            self.thread.join()

    def _run(self) -> None:
        try:
            while (woken := self._next()) is not None:
                self._paused_until = {
                    each: until for each, until in self._paused_until.items() if each in self._regions
                }
                for region_id in woken:
                    self._check(region_id)
        except (UnknownOutcomeError, StoppingError, OSError):
            pass  # The server is ending, and has reported why.
        except BaseException as error:
            self._on_failure(error)

    def _next(self) -> Sequence[int] | None:
        """Blocks until regions are to be checked, all after a while; returns None when the server stops."""
        with self._changed:
            self._changed.wait_for(lambda: self._woken or self._is_stopping, self._pause_s)
            woken = sorted(self._woken) or list(self._regions)
            self._woken.clear()
            return None if self._is_stopping else woken

    def _check(self, region_id: int) -> None:
        region = self._regions.get(region_id)
        now = self._clock.monotonic()
        if region is None or now < self._paused_until.get(region_id, now):
            return
        try:
            if is_too_large(region):
                self._split(region)
        except NotServingRegionError:
            pass  # It was split, merged or dropped meanwhile.
        except (UnknownOutcomeError, StoppingError):
            raise
        except RegionServerError as error:
            logger.warning("region %d of table %r can't be split now: %s", region_id, region.table_name, error)
            self._paused_until[region_id] = now + self._pause_s


def is_too_large(region: Region) -> bool:
    """Returns whether the region is to be split by its table's limit."""
    limit = split_region_bytes(region.table)
    sizes = region.statistics()
    return 0 < limit < sizes.store_file_bytes and not sizes.has_clipped_files
