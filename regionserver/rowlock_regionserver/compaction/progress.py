"""The progress of one compaction, its result, and the request to stop it."""

from __future__ import annotations

import threading
from dataclasses import dataclass


class CompactionCancelledError(Exception):
    """The compaction was stopped before its end; the store has its old files. The message says who stopped it."""


@dataclass(frozen=True, slots=True)
class CompactionResult:
    """What a compaction read and wrote. Files that it kept or dropped unread are not counted as bytes or cells.

    Of a clipped file `bytes_in` estimates the rows that count, and `cells_in` has all cells: the others stay behind.
    """

    file_count_in: int
    file_count_out: int
    bytes_in: int
    bytes_out: int
    cells_in: int
    cells_out: int


class Progress:
    """How far one compaction is. Written by its worker, read and cancelled by any thread."""

    def __init__(self) -> None:
        self.cancelled = threading.Event()
        self._reason = ""
        # Bytes of the input files, on the disk; estimated from the cells while it runs.
        self.bytes_total = 0
        self.bytes_read = 0
        self.bytes_written = 0

    @property
    def is_cancelled(self) -> bool:
        return self.cancelled.is_set()

    def cancel(self, reason: str) -> None:
        """Requests that the compaction stops: within one window, unless it has committed already."""
        if not self.is_cancelled:
            self._reason = reason
            self.cancelled.set()

    def check(self) -> None:
        """Raises CompactionCancelledError after `cancel`."""
        if self.is_cancelled:
            raise CompactionCancelledError(self._reason)
