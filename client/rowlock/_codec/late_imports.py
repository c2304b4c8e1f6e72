"""Imports at the first use, of modules that are slow to import, without interruptions.

A KeyboardInterrupt in the middle of an import makes it fail in all threads that wait for it, and a package with native
modules, as pyarrow, can't be imported again then.
"""

from __future__ import annotations

import signal
import threading
from types import FrameType, TracebackType


class Uninterrupted:
    """A context whose block is not interrupted by SIGINT: its handler is called at the block's end."""

    __slots__ = ("_came", "_handler")

    def __init__(self) -> None:
        self._handler: signal._HANDLER = None
        self._came = False

    def __enter__(self) -> None:
        # Python calls handlers in the main thread only, and only there they can be set.
        if threading.current_thread() is threading.main_thread():
            handler = signal.getsignal(signal.SIGINT)
            if callable(handler):
                self._handler = handler
                signal.signal(signal.SIGINT, self._note)

    def _note(self, number: int, frame: FrameType | None) -> None:
        self._came = True

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        handler = self._handler
        if callable(handler):
            signal.signal(signal.SIGINT, handler)
            if self._came:
                handler(signal.SIGINT, None)
