"""Blocks that Ctrl-C does not end in the middle.

An import: a KeyboardInterrupt in it makes it fail in all threads that wait for it, and a package with native modules,
as pyarrow, can't be imported again then. A call by grpc: its Python code takes locks in a way that a KeyboardInterrupt
can leave held. Then grpc's own thread waits for them, and no call of the channel ends.
"""

from __future__ import annotations

import _thread
import contextlib
import signal
import threading
from collections.abc import Callable
from types import FrameType, TracebackType


class Uninterrupted:
    """A context whose block is not interrupted by SIGINT: its handler is called at the block's end."""

    __slots__ = ("_came", "_end_early", "_handler")

    def __init__(self, end_early: Callable[[], object] | None = None) -> None:
        """end_early: makes a waiting block end; a thread of its own calls it when SIGINT comes.

        With it, only Python's own handler is put off: a program's handler may want the wait to go on.
        """
        self._end_early = end_early
        self._handler: signal._HANDLER = None
        self._came = False

    def __enter__(self) -> None:
        # Python calls handlers in the main thread only, and only there they can be set.
        if threading.current_thread() is threading.main_thread():
            handler = signal.getsignal(signal.SIGINT)
            if handler is signal.default_int_handler or (callable(handler) and self._end_early is None):
                self._handler = handler
                signal.signal(signal.SIGINT, self._note)

    def _note(self, number: int, frame: FrameType | None) -> None:
        self._came = True
        if self._end_early is not None:
            # If no thread can be started, the wait continues until the next SIGINT or its own time limit.
            with contextlib.suppress(RuntimeError):
                _thread.start_new_thread(self._end_early, ())

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        handler = self._handler
        if callable(handler):
            signal.signal(signal.SIGINT, handler)
            if self._came:
                handler(signal.SIGINT, None)
