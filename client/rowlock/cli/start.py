"""The entry point of the command `rowlock`: takes interrupts before anything heavy is imported.

1. While modules are imported nothing is under way: an interrupt ends the process at once. Raised there as an
   exception it would be a traceback, or be mistaken for a module that is broken.
2. While the command runs, an interrupt is a KeyboardInterrupt, which `run` tells.
3. Once it is done an interrupt comes too late to mean anything, and is ignored.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Iterator
from types import FrameType

INTERRUPTED = 130


def main() -> int:
    """Runs the command line of the process; returns the exit code."""
    with interrupts_end_at_once():
        from rowlock.cli.main import main as run_command_line
    try:
        exit_code = run_command_line()
    except KeyboardInterrupt:
        _say_interrupted()
        exit_code = INTERRUPTED
    if _are_ours():
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    return exit_code


@contextlib.contextmanager
def interrupts_end_at_once() -> Iterator[None]:
    """Within the block an interrupt ends the process, in one line and with the exit code of interrupts.

    Only for where nothing is under way. Does nothing if somebody else takes interrupts, or ignores them.
    """
    if not _are_ours():
        yield
        return
    signal.signal(signal.SIGINT, _end_at_once)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _are_ours() -> bool:
    """Whether an interrupt would be a KeyboardInterrupt, and this thread may change that."""
    is_main = threading.current_thread() is threading.main_thread()
    return is_main and signal.getsignal(signal.SIGINT) is signal.default_int_handler


def _end_at_once(number: int, frame: FrameType | None) -> None:
    _say_interrupted()
    os._exit(INTERRUPTED)


def _say_interrupted() -> None:
    with contextlib.suppress(OSError):  # Nobody may be there to read it.
        os.write(2, b"interrupted\n")
