"""Syncs a file in a thread while it is being written, so that no large sync is left at its end (files.SYNCED_BYTES)."""

from __future__ import annotations

import threading

from rowlock_regionserver.files import Files


class BackgroundSync:
    """The syncs of one open file, one at a time. Used by one thread, which calls `wait` before it closes the file."""

    def __init__(self, files: Files, descriptor: int) -> None:
        self._files = files
        self._descriptor = descriptor
        self._thread: threading.Thread | None = None
        self._error: BaseException | None = None

    def start(self) -> None:
        """Starts a sync of all that was written, unless one is running. Raises the error of an earlier one.

        Never waits for the disk: its caller may hold a permit that others need.
        """
        if self._thread is not None and self._thread.is_alive():
            return
        if self._error is not None:
            raise self._error
        thread = threading.Thread(target=self._sync, name="store-file-sync", daemon=True)
        try:
            thread.start()
        except RuntimeError:
            return  # The system has no thread for it, or the process ends: the sync at the file's end takes all.
        self._thread = thread

    def wait(self) -> None:
        """Waits for the running sync. Raises its error, or that of an earlier one: then the file is of no use."""
        if self._thread is not None:
            self._thread.join()
        if self._error is not None:
            raise self._error

    def _sync(self) -> None:
        try:
            self._files.fdatasync(self._descriptor)
        except BaseException as error:  # raised by the writing thread
            self._error = error
