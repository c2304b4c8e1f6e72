"""A process that syncs a file of its own all the time, and so notes when the disk itself is slow.

    python -m bench.targets.disk_syncs FOLDER

Each sync writes 4 KiB over the same place of the file, the least that a sync can be. At each command `syncs` it answers
when each sync since the last command began and ended (time.perf_counter(), the same in all processes), one under way
included; side_process.py has the protocol.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from pathlib import Path

from bench.side_process import Answer, serve

_BYTES = 4096
# Between two syncs, so that the disk is hardly busier for them.
_PAUSE_SECONDS = 0.02
_LOOK_SECONDS = 0.001

_sync = getattr(os, "fdatasync", os.fsync)


class _Syncs:
    """The syncs that one thread makes."""

    def __init__(self, folder: Path) -> None:
        self._descriptor = os.open(folder / "synced-beside", os.O_CREAT | os.O_WRONLY)
        os.pwrite(self._descriptor, bytes(_BYTES), 0)
        os.fsync(self._descriptor)
        self._ended: list[tuple[float, float]] = []
        self._failure: OSError | None = None

    def run(self) -> None:
        try:
            while True:
                began = time.perf_counter()
                os.pwrite(self._descriptor, bytes(_BYTES), 0)
                _sync(self._descriptor)
                self._ended.append((began, time.perf_counter()))
                time.sleep(_PAUSE_SECONDS)
        except OSError as failure:
            self._failure = failure

    def taken(self) -> Answer:
        """Waits until a sync has ended that began after the call, and returns all since the last call."""
        now = time.perf_counter()
        while not (self._ended and self._ended[-1][0] > now):
            if self._failure is not None:
                raise self._failure
            time.sleep(_LOOK_SECONDS)
        count = len(self._ended)
        some = self._ended[:count]
        del self._ended[:count]
        return {"syncs": some}


def main(folder: Path) -> None:
    """Syncs, and answers commands until the input ends."""
    syncs = _Syncs(folder)
    threading.Thread(target=syncs.run, daemon=True).start()
    serve({"syncs": syncs.taken})


if __name__ == "__main__":
    main(Path(sys.argv[1]))
