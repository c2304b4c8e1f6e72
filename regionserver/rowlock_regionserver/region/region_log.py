"""The log as the files of one region use it: what they report, so that it may forget records, and what they ask.

While a start reads the log it can't be written. What the region reports until then is left out, and `begin` says it.
"""

from __future__ import annotations

import contextlib

from rowlock_regionserver.errors import StoppingError
from rowlock_regionserver.wal.log import Log
from rowlock_regionserver.wal.record import NOWHERE, Position


class RegionLog:
    """Thread-safe after `begin`."""

    def __init__(self, region_id: int) -> None:
        self._region_id = region_id
        self._log: Log | None = None

    def begin(self, log: Log, generation: int, flushed_write_number: int) -> None:
        """The log can be written. The region has a manifest of this generation and is flushed up to this number."""
        self._log = log
        log.flushed(self._region_id, flushed_write_number)
        with log.order:
            log.note_manifest(self._region_id, generation)

    def committed(self, generation: int) -> None:
        """The manifest of this generation is durable. If it gets lost, the next start misses it by the log's note."""
        if self._log is not None:
            with contextlib.suppress(StoppingError), self._log.order:  # The server is ending.
                self._log.note_manifest(self._region_id, generation)

    def flushed(self, write_number: int) -> None:
        """Everything up to this number is in live store files."""
        if self._log is not None:
            self._log.flushed(self._region_id, write_number)

    def waits_for_space(self) -> bool:
        """No write is published until there is disk space."""
        return self._log is not None and self._log.waits_for_space

    def durable(self) -> Position:
        """How far the log is durable."""
        return NOWHERE if self._log is None else self._log.durable
