"""The command `rowlock-server` with slower syncs.

python -m bench.targets.slow_disk MILLISECONDS [arguments of rowlock-server]
"""

from __future__ import annotations

import sys
import time

from rowlock_regionserver.__main__ import main
from rowlock_regionserver.files import Files


def slow_down(delay_seconds: float) -> None:
    """Makes every sync of this process take `delay_seconds` longer."""
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
