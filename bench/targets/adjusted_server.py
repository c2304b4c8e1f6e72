"""A region server as no user would start it: on a slower disk, or with other limits.

    python -m bench.targets.adjusted_server FOLDER [--sync-delay-ms N] [--memstore-flush-bytes N]

Says where it listens and serves until it is killed or told to stop (SIGTERM).
"""

from __future__ import annotations

import argparse
import signal
import sys
import time
from dataclasses import replace
from pathlib import Path

from rowlock_regionserver.config import Config
from rowlock_regionserver.files import Files
from rowlock_regionserver.server import Server


class SlowFiles(Files):
    """A disk that takes so much longer for each sync."""

    def __init__(self, delay_ms: float) -> None:
        self._delay_seconds = delay_ms / 1000

    def fdatasync(self, descriptor: int) -> None:
        time.sleep(self._delay_seconds)
        super().fdatasync(descriptor)

    def fsync(self, descriptor: int) -> None:
        time.sleep(self._delay_seconds)
        super().fsync(descriptor)


def main(given: list[str]) -> None:
    """Blocks until the server has stopped."""
    parser = argparse.ArgumentParser(prog="python -m bench.targets.adjusted_server")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--sync-delay-ms", type=float, default=0.0)
    parser.add_argument("--memstore-flush-bytes", type=int)
    asked = parser.parse_args(given)
    config = Config()
    if asked.memstore_flush_bytes is not None:
        config = replace(config, memstore_flush_bytes=asked.memstore_flush_bytes)
    files = SlowFiles(asked.sync_delay_ms) if asked.sync_delay_ms else Files()
    # What the server's own command does: without it a thread that computes makes all others wait long.
    sys.setswitchinterval(0.0005)
    server = Server(asked.folder, config=config, files=files)
    # Before the start: SIGTERM in the middle of it stops the server as soon as it has started.
    signal.signal(signal.SIGTERM, lambda number, frame: server.ask_to_stop())
    with server:
        print(f"listening on {server.address}", flush=True)
        server.wait()


if __name__ == "__main__":
    main(sys.argv[1:])
