"""The preallocated segment: the next one, allocated and synced ahead of time by a thread.

So a roll seldom waits for an allocation. While the segment can't be made, for lack of disk space or of a descriptor,
`is_full` makes CHECK refuse writes. A write that passed CHECK before uses the rest of the current segment. CHECK never
waits, not even for the first attempt: writes that fill the segment before that attempt has ended wait for the next
segment, and complete when it is there. The thread tries again every RETRY_SECONDS, so writes resume without an
operator.
"""

from __future__ import annotations

import errno
import logging
import threading
from collections.abc import Callable
from pathlib import Path

from rowlock_regionserver.errors import TooManyOpenFilesError
from rowlock_regionserver.files import Files
from rowlock_regionserver.system_errors import NO_SPACE
from rowlock_regionserver.wal.segment import PREALLOCATED_NAME, make_preallocated

logger = logging.getLogger(__name__)

RETRY_SECONDS = 1.0


class NoSpaceToStopError(OSError):
    """The server stops, and there is no disk space for appended records. Nothing was damaged."""


class PreallocatedSegment:
    """At most one preallocated file. `take` and `extend` are for the log thread; the rest is thread-safe."""

    def __init__(
        self,
        folder: Path,
        files: Files,
        segment_bytes: int,
        disk_free_bytes_min: int,
        on_failure: Callable[[BaseException], None],
    ) -> None:
        self._folder = folder
        self._files = files
        self._segment_bytes = segment_bytes
        self._disk_free_bytes_min = disk_free_bytes_min
        self._on_failure = on_failure
        # Each is written by one thread, and read without a lock.
        self._lacks_space = False
        self._extension_lacks_space = False
        self._writer_waits = False
        self._lock = threading.Lock()
        # Guarded by self._lock:
        self._changed = threading.Condition(self._lock)
        self._is_wanted = False
        self._descriptor: int | None = None
        self._is_stopping = False
        self._is_closing = False
        self._failure: BaseException | None = None
        self.thread = threading.Thread(target=self._run, name="log-preallocate", daemon=True)

    @property
    def is_full(self) -> bool:
        """There is no disk space, or no descriptor, for what the log needs next."""
        return self._lacks_space or self._extension_lacks_space

    @property
    def blocks_writer(self) -> bool:
        """The writer waits for disk space: until there is some, no appended record completes."""
        return self._extension_lacks_space or (self._writer_waits and self._lacks_space)

    def want(self) -> None:
        """Requests a preallocated segment; does not wait for it."""
        if self._is_wanted:
            return
        with self._lock:
            self._is_wanted = True
            self._changed.notify_all()

    def take(self) -> tuple[int, int]:
        """Returns the descriptor and the size of the preallocated segment. The caller closes the descriptor.

        Blocks until there is one, also for disk space. Raises the error with which making it failed, and
        NoSpaceToStopError when there is no space after `stop_waiting`.
        """
        self.want()
        with self._lock:
            while self._descriptor is None:
                self._check()
                self._writer_waits = True
                self._changed.wait()
            self._writer_waits = False
            descriptor, self._descriptor = self._descriptor, None
            self._is_wanted = False
            return descriptor, self._segment_bytes

    def extend(self, descriptor: int, offset: int, byte_count: int) -> None:
        """Allocates more of a segment, for a record larger than one. Blocks and raises like `take`."""
        while True:
            try:
                self._files.allocate(descriptor, offset, byte_count)
            except OSError as error:
                if error.errno not in NO_SPACE:
                    raise
            else:
                self._extension_lacks_space = False
                return
            self._extension_lacks_space = True
            with self._lock:
                self._check()
                self._changed.wait(RETRY_SECONDS)

    def stop_waiting(self) -> None:
        """From now on the writer gets NoSpaceToStopError instead of waiting for space."""
        with self._lock:
            self._is_stopping = True
            self._changed.notify_all()

    def close(self) -> None:
        """Ends the thread and removes the preallocated segment. Blocks until both are done."""
        with self._lock:
            self._is_closing = True
            self._changed.notify_all()
        self.thread.join()
        if self._descriptor is not None:
            self._files.close(self._descriptor)
            self._descriptor = None
            self._files.remove_if_there(self._folder / PREALLOCATED_NAME)

    def _check(self) -> None:
        if self._failure is not None:
            raise self._failure
        if self._is_stopping and self.is_full:
            raise NoSpaceToStopError(
                errno.ENOSPC, "no disk space for the log while the server is stopping", str(self._folder)
            )

    def _run(self) -> None:
        try:
            while self._wait_until_wanted():
                descriptor = self._make()
                self._log_change(lacks_space=descriptor is None)
                with self._lock:
                    self._descriptor = descriptor
                    self._lacks_space = descriptor is None
                    self._changed.notify_all()
                    if descriptor is None and not self._is_closing:
                        self._changed.wait(RETRY_SECONDS)
        except BaseException as error:
            with self._lock:
                self._failure = error
                self._changed.notify_all()
            self._on_failure(error)

    def _log_change(self, *, lacks_space: bool) -> None:
        """Logs that space for a segment is missing, or is there again: once each, however often it is tried."""
        if lacks_space and not self._lacks_space:
            logger.warning("%s lacks disk space or descriptors for the next log segment", self._folder)
        elif self._lacks_space and not lacks_space:
            logger.warning("%s has space for the next log segment again", self._folder)

    def _wait_until_wanted(self) -> bool:
        with self._lock:
            while not self._is_closing and (not self._is_wanted or self._descriptor is not None):
                self._changed.wait()
            return not self._is_closing

    def _make(self) -> int | None:
        """Returns None without disk space or descriptor. Leaves `disk_free_bytes_min` for flushes."""
        if self._files.free_bytes(self._folder) < self._segment_bytes + self._disk_free_bytes_min:
            return None
        try:
            return make_preallocated(self._files, self._folder, self._segment_bytes)
        except TooManyOpenFilesError:
            return None
        except OSError as error:
            if error.errno not in NO_SPACE:
                raise
            return None
