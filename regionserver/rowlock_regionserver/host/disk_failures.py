"""Failures of the disk that no operation may outlive: the waiting callers are failed, and the process ends."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from rowlock_regionserver.errors import DiskFullError, StoppingError, UnknownOutcomeError
from rowlock_regionserver.region.region import Region
from rowlock_regionserver.system_errors import NO_SPACE
from rowlock_regionserver.wal.preallocated import NoSpaceToStopError

OnFatal = Callable[[BaseException], None]


class DiskFailures:
    """The failures of one server. Thread-safe."""

    def __init__(self, folder: Path, regions: Callable[[], Sequence[Region]], on_fatal: OnFatal) -> None:
        """`regions`: those that are served. `on_fatal` is called once, and ends the process."""
        self._folder = folder
        self._regions = regions
        self._on_fatal = on_fatal
        self._lock = threading.Lock()
        # Guarded by self._lock for writing; read without it.
        self._has_failed = False
        # Written once, by the log thread, without the lock; read without it.
        self._given_up: UnknownOutcomeError | None = None

    def end(self, error: BaseException) -> None:
        """Handles a failed sync, which is final: fails all waiting callers, and ends the process.

        A server that is stopping, and whose log lacks only disk space, stops in order instead.
        """
        if isinstance(error, NoSpaceToStopError):
            self._given_up = UnknownOutcomeError(
                f"{error}; the change is not durable, and may or may not be found after a restart"
            )
            for region in self._regions():
                region.fail_waiting(self._given_up)
            return
        with self._lock:
            if self._has_failed:
                return
            self._has_failed = True
        failure = UnknownOutcomeError(
            f"the server could not make its writes durable and is ending ({error}); "
            "the change may or may not have happened"
        )
        for region in self._regions():
            region.fail(failure)
        self._on_fatal(error)

    @contextlib.contextmanager
    def are_final(self) -> Iterator[None]:
        """Raises DiskFullError, with nothing changed, for a full disk; any other failure of a disk ends the server.

        Raises StoppingError after such a failure: no operation begins until the process has ended.
        """
        if self._has_failed:
            raise StoppingError("the server could not make its writes durable and is ending; nothing was changed")
        try:
            yield
        except (UnknownOutcomeError, OSError) as error:
            if isinstance(error, OSError) and error.errno in NO_SPACE:
                raise DiskFullError(f"no space in {self._folder}; nothing was changed, free some disk space") from error
            if self._given_up is not None and isinstance(error, UnknownOutcomeError):
                raise  # The server stops, and the log lacked only disk space.
            self.end(error)
            raise
