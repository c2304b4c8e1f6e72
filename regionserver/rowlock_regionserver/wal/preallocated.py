"""The spare: the next segment, preallocated and synced ahead of time by a thread of its own.

So a roll seldom waits for an allocation. While the spare can't be made, for lack of space or of a descriptor, `is_full`
makes CHECK refuse writes. A write that passed CHECK before uses the rest of the current segment. CHECK waits for
nothing, not even for the first try: writes that fill the segment before that try is over wait for the spare, and
complete when it is there. The thread tries again every RETRY_SECONDS, so writes resume by themselves.
"""

from __future__ import annotations

import errno
import threading
from collections.abc import Callable
from pathlib import Path

from rowlock_regionserver.errors import TooManyOpenFilesError
from rowlock_regionserver.files import NO_SPACE, Files
from rowlock_regionserver.wal.segment import PREALLOCATED_NAME, make_preallocated

RETRY_SECONDS = 1.0


class NoSpaceToStopError(OSError):
    """What was appended finds no space, and the server stops: nobody waits for space any more. Nothing was damaged."""


class PreallocatedSegment:
    """At most one preallocated file. `take` and `extend` are the writer's; the rest may be called by any thread."""

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
        self._is_waited_for = False
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
        """There is no space for what the log needs next, or no descriptor."""
        return self._lacks_space or self._extension_lacks_space

    @property
    def holds_writer(self) -> bool:
        """The writer waits for space: until there is some, nothing that was appended is completed."""
        return self._extension_lacks_space or (self._is_waited_for and self._lacks_space)

    def want(self) -> None:
        """Asks for a spare; does not wait for it."""
        if self._is_wanted:
            return
        with self._lock:
            self._is_wanted = True
            self._changed.notify_all()

    def take(self) -> tuple[int, int]:
        """The spare's descriptor and size, and the duty to close it. Waits until there is one, also for disk space.

        Raises what making it failed with, and NoSpaceToStopError when there is no space after `stop_waiting`.
        """
        self.want()
        with self._lock:
            while self._descriptor is None:
                self._check()
                self._is_waited_for = True
                self._changed.wait()
            self._is_waited_for = False
            descriptor, self._descriptor = self._descriptor, None
            self._is_wanted = False
            return descriptor, self._segment_bytes

    def extend(self, descriptor: int, offset: int, byte_count: int) -> None:
        """Allocates more of a segment, for a record larger than one. Waits for disk space; raises as `take` does."""
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
        """From now on the writer is told that there is no space, instead of being held until there is."""
        with self._lock:
            self._is_stopping = True
            self._changed.notify_all()

    def close(self) -> None:
        """Ends the thread and removes the spare. Blocks until both are done."""
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
                errno.ENOSPC, "no space for the log, and the server is stopping", str(self._folder)
            )

    def _run(self) -> None:
        try:
            while self._wait_until_wanted():
                descriptor = self._make()
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

    def _wait_until_wanted(self) -> bool:
        with self._lock:
            while not self._is_closing and (not self._is_wanted or self._descriptor is not None):
                self._changed.wait()
            return not self._is_closing

    def _make(self) -> int | None:
        """None: no space, or no descriptor. The space that flushes need is left alone."""
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
