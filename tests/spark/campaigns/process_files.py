"""Observes processes through files: their standard error, and their peak memory."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def stderr_to(path: Path) -> Iterator[None]:
    """Redirects standard error to the file, also for processes that start within the block."""
    sys.stderr.flush()
    before = os.dup(2)
    with open(path, "ab") as file:
        os.dup2(file.fileno(), 2)
    try:
        yield
    finally:
        sys.stderr.flush()
        os.dup2(before, 2)
        os.close(before)


def peak_resident_bytes(pid: int) -> int:
    """Returns the peak resident memory of a running process."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:")) * 1024
