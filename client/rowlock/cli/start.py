"""The start of the command `rowlock`, behind its entry point: handles interrupts before it imports large modules.

1. During imports no request is in flight, so an interrupt ends the process at once. As an exception it would print a
   traceback, or look like a broken module.
2. While the command runs, an interrupt is a KeyboardInterrupt, which `run` reports.
3. After the command an interrupt is ignored.

The process then ends at once: to take all modules apart would cost a tenth of a short command's time.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import os
import signal
import sys
import threading
from collections.abc import Iterator
from types import FrameType
from typing import NoReturn

INTERRUPTED = 130
_ENDING = (signal.SIGTERM, signal.SIGHUP)
_OBJECTS_BETWEEN_COLLECTIONS = 50_000


def main() -> NoReturn:
    """Runs the command line of the process, and ends it."""
    # The modules that a command imports leave no garbage, and collections would look at them again and again.
    gc.set_threshold(_OBJECTS_BETWEEN_COLLECTIONS)
    with interrupts_end_at_once():
        from rowlock.cli.main import main as run_command_line
    try:
        exit_code = run_command_line()
    except KeyboardInterrupt:
        _print_interrupted()
        exit_code = INTERRUPTED
    if _has_default_handler():
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    for stream in (sys.stdout, sys.stderr):
        # Each command has flushed them, and reported an error of that.
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    os._exit(exit_code)


def import_large(module: str) -> None:
    """Imports a module that a command needs, with no request in flight: an interrupt ends the process at once.

    pyarrow and what needs it take as long to import as all the rest of a short command.
    """
    with interrupts_end_at_once():
        importlib.import_module(module)


@contextlib.contextmanager
def interrupts_end_at_once() -> Iterator[None]:
    """Within the block an interrupt prints one line and ends the process with exit code 130.

    For code without requests in flight. Does nothing if the process handles or ignores SIGINT in another way.
    """
    if not _has_default_handler():
        yield
        return
    signal.signal(signal.SIGINT, _end_at_once)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@contextlib.contextmanager
def ended_by_signals() -> Iterator[None]:
    """Within the block SIGTERM and SIGHUP raise an exception, so that the block's finally clauses remove its files.

    After them the process ends by the signal, as it would have at once without the block. Does nothing about a signal
    that the process handles or ignores.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    handled = [number for number in _ENDING if signal.getsignal(number) is signal.SIG_DFL]

    def end(number: int, frame: FrameType | None) -> None:
        for each in handled:
            # A second one must not interrupt the finally clauses.
            signal.signal(each, signal.SIG_IGN)
        raise _EndedBySignal(number)

    for number in handled:
        signal.signal(number, end)
    try:
        yield
    except _EndedBySignal as ended:
        signal.signal(ended.number, signal.SIG_DFL)
        signal.raise_signal(ended.number)
        raise
    finally:
        for number in handled:
            signal.signal(number, signal.SIG_DFL)


class _EndedBySignal(BaseException):
    """The process is to end by this signal."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


def _has_default_handler() -> bool:
    """Returns whether an interrupt raises KeyboardInterrupt, and this thread may change that."""
    is_main = threading.current_thread() is threading.main_thread()
    return is_main and signal.getsignal(signal.SIGINT) is signal.default_int_handler


def _end_at_once(number: int, frame: FrameType | None) -> None:
    _print_interrupted()
    os._exit(INTERRUPTED)


def _print_interrupted() -> None:
    with contextlib.suppress(OSError):  # standard error may be closed
        os.write(2, b"interrupted\n")
