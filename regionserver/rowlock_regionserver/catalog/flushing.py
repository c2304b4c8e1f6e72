"""The flush thread: flushes regions before memory, segments or the log reach their bounds."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Sequence

from rowlock_regionserver.config import Config
from rowlock_regionserver.errors import (
    DiskFullError,
    NotServingRegionError,
    StoppingError,
    TooManyOpenFilesError,
    UnknownOutcomeError,
)
from rowlock_regionserver.region.memory import MemoryGauge
from rowlock_regionserver.region.region import Region
from rowlock_regionserver.wal.log import Log

# How often it looks without being woken: the log grows also where memory does not, under hot counters.
LOOK_AGAIN_S = 1.0


class FlushThread:
    """Wakes when memory has grown, and now and then; flushes what is over its bound, largest first.

    `flush` makes a failed sync end the server. Without disk space the segments stay, and it tries again. `on_failure`
    is told when the thread ends by anything else: nobody would flush any more, until writes are refused for good.
    """

    def __init__(
        self,
        regions: Callable[[], Sequence[Region]],
        flush: Callable[[Region], object],
        memory: MemoryGauge,
        log: Log,
        config: Config,
        on_failure: Callable[[BaseException], None],
    ) -> None:
        self._regions = regions
        self._flush = flush
        self._memory = memory
        self._log = log
        self._config = config
        self._on_failure = on_failure
        self._wake = threading.Event()
        self._is_stopping = False
        self.thread = threading.Thread(target=self._run, name="flush", daemon=True)

    def wake(self) -> None:
        """Something grew: look again. Never blocks."""
        self._wake.set()

    def stop(self) -> None:
        """Ends the thread after the flush it is in. Blocks."""
        self._is_stopping = True
        self._wake.set()
        self.thread.join()

    def _run(self) -> None:
        try:
            while not self._is_stopping:
                self._flush_what_is_due()
                self._wake.wait(LOOK_AGAIN_S)
                self._wake.clear()
        except (UnknownOutcomeError, StoppingError, OSError):
            pass  # The server is ending, and has said why.
        except BaseException as error:
            self._on_failure(error)

    def _flush_what_is_due(self) -> None:
        for region in self._due():
            # The disk is full, or no descriptor is left: it looks again. Or the region was dropped meanwhile.
            with contextlib.suppress(DiskFullError, TooManyOpenFilesError, NotServingRegionError):
                self._flush(region)

    def _due(self) -> list[Region]:
        """Regions over a bound of their own, those that pin the log, and under pressure the largest."""
        regions = sorted(self._regions(), key=lambda region: region.memstore_bytes, reverse=True)
        pinning = set(self._log.regions_that_pin())
        due = [
            region
            for region in regions
            if region.memstore_bytes >= self._config.memstore_flush_bytes
            or region.segment_count >= self._config.immutable_segments_max
            or region.region_id in pinning
        ]
        if not due and self._memory.is_under_pressure:
            due = regions[:1]
        return due
