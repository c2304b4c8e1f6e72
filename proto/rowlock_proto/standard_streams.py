"""Standard streams of a command: all three are open, and take any text; what they refuse can be dropped."""

from __future__ import annotations

import os
import sys
from typing import TextIO

# The exit code after a broken pipe on standard output.
BROKEN_PIPE = 141


def prepare_streams() -> None:
    """Opens /dev/null for each stream that the parent process closed, and makes the outputs accept any text.

    To be called before anything else is opened: the system gives the lowest free descriptor, so 0 to 2 would be those
    of sockets or files of data, and what is said on standard error would be written into them.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode))  # noqa: SIM115  # open as long as the process lives
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            # JSON is UTF-8 in every locale, and a file name may have bytes that are not UTF-8.
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")


def drop_unwritten(stream: TextIO) -> None:
    """Redirects the stream to /dev/null, so that buffered and later output is dropped.

    Python flushes the standard streams at exit and would report the same error again.
    """
    try:
        descriptor = stream.fileno()
    except OSError:
        return
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, descriptor)
    os.close(null)
