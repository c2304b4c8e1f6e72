"""One region's view of the log: it reports flushes and manifests, so that the log may remove records.

During a start the log is read and can't be written. Reports from that time are dropped, and `begin` makes up for them.
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
        """Connects the log, which can now be written. Reports the region's generation and flushed write number."""
        self._log = log
        log.flushed(self._region_id, flushed_write_number)
        with log.order:
            log.note_manifest(self._region_id, generation)

    def committed(self, generation: int) -> None:
        """Reports a durable manifest. The log notes its generation, so that the next start detects its loss."""
        if self._log is not None:
            with contextlib.suppress(StoppingError), self._log.order:  # The server is ending.
                self._log.note_manifest(self._region_id, generation)

    def flushed(self, write_number: int) -> None:
        """Reports that every write up to this number is in live store files."""
        if self._log is not None:
            self._log.flushed(self._region_id, write_number)

    def waits_for_space(self) -> bool:
        """Whether the log waits for disk space, so that no write is published."""
        return self._log is not None and self._log.waits_for_space

    def durable(self) -> Position:
        """Returns the position up to which the log is durable."""
        return NOWHERE if self._log is None else self._log.durable
