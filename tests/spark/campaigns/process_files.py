"""What is seen of processes through files: what is said on standard error, and how much memory one held."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def errors_kept(path: Path) -> Iterator[None]:
    """Standard error, also of processes that are started meanwhile, goes to the file."""
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


def most_held_bytes(pid: int) -> int:
    """The peak of the resident memory of a process that runs."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:")) * 1024
