"""Standard streams of a command: there are three, and no text ends the command with a traceback."""

from __future__ import annotations

import os
import sys


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
            # JSON is UTF-8 in every locale, and names of files may be no text at all.
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")
