"""The command `rowlock-server` on a disk that takes longer for each sync.

python -m bench.targets.slow_disk MILLISECONDS [the words of rowlock-server]
"""

from __future__ import annotations

import sys
import time

from rowlock_regionserver.__main__ import main
from rowlock_regionserver.files import Files


def slow_down(delay_seconds: float) -> None:
    """Every sync of this process takes so much longer from now on."""
    fdatasync, fsync = Files.fdatasync, Files.fsync

    def slow_fdatasync(self: Files, descriptor: int) -> None:
        time.sleep(delay_seconds)
        fdatasync(self, descriptor)

    def slow_fsync(self: Files, descriptor: int) -> None:
        time.sleep(delay_seconds)
        fsync(self, descriptor)

    Files.fdatasync, Files.fsync = slow_fdatasync, slow_fsync  # type: ignore[method-assign]  # on purpose


if __name__ == "__main__":
    slow_down(float(sys.argv[1]) / 1000)
    main(sys.argv[2:])
