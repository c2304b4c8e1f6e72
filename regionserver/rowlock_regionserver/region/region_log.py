"""One region's view of the log: it reports flushes and manifests, so that the log may remove records.

During a start the log is read and can't be written. Reports from that time are dropped, and `begin` makes up for them.

A log record does not say under which limits of versions and time to live it was made: the manifest says where in the
log they changed. So a region takes no write between an alter and the manifest that has its limits (`owes_limits`).
"""

from __future__ import annotations

import contextlib

from rowlock_regionserver.errors import DiskFullError, StoppingError
from rowlock_regionserver.wal.log import Log
from rowlock_regionserver.wal.record import NOWHERE, Position

# The owed manifest is tried again as often.
_CHECK_AGAIN_AFTER_FULL_MS = 1000


class RegionLog:
    """Thread-safe after `begin`."""

    def __init__(self, region_id: int) -> None:
        self._region_id = region_id
        self._log: Log | None = None
        # Limits are in effect that no manifest has, for lack of space. Set with the gate held exclusively.
        self.owes_limits = False

    def begin(self, log: Log, generation: int, flushed_write_number: int) -> None:
        """Connects the log, which can now be written. Reports the region's generation and flushed write number."""
        self._log = log
        log.flushed(self._region_id, flushed_write_number)
        with log.order:
            log.note_manifest(self._region_id, generation)

    def committed(self, generation: int) -> None:
        """Reports a durable manifest. The log notes its generation, so that the next start detects its loss."""
        self.owes_limits = False
        if self._log is not None:
            with contextlib.suppress(StoppingError), self._log.order:  # The server is ending.
                self._log.note_manifest(self._region_id, generation)

    def flushed(self, write_number: int) -> None:
        """Reports that every write up to this number is in live store files."""
        if self._log is not None:
            self._log.flushed(self._region_id, write_number)

    def check_space(self, byte_count: int) -> None:
        """Checks that there is space for a write of about this size; never blocks.

        Raises DiskFullError as long as the region owes limits to its manifest, and the errors of Log.check_space.
        """
        assert self._log is not None, "a write before the region serves"
        if self.owes_limits:
            raise DiskFullError(
                f"no disk space for the manifest of region {self._region_id}, whose table was altered; nothing was "
                "changed, free some disk space and retry",
                retry_after_ms=_CHECK_AGAIN_AFTER_FULL_MS,
            )
        self._log.check_space(byte_count)

    def waits_for_space(self) -> bool:
        """Whether the log waits for disk space, so that no write is published."""
        return self._log is not None and self._log.waits_for_space

    def durable(self) -> Position:
        """Returns the position up to which the log is durable."""
        return NOWHERE if self._log is None else self._log.durable
