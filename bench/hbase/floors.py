"""The raw rates that bound a row of the comparison where HBase's rate is no fair goal on a machine."""

from __future__ import annotations

import statistics
import time
from contextlib import closing
from pathlib import Path

from bench.measure import rate_of_threads
from bench.targets.echo_server import SyncedFile
from bench.targets.framed_echo import FramedEcho, SharedFramedEcho, running_framed_echo
from bench.ycsb.rows import FIELD_BYTES, FIELD_COUNT

_CALLERS = 64
_WRITERS = 8
_SECONDS = 2.0
_SLOW_SYNC_S = 0.001
# The methods of the framed echo, by operation.
ECHO_METHODS = {"get": b"G", "put": b"P", "increment": b"I"}


def coalesced_echoes(folder: Path, method: bytes) -> float:
    """Returns the calls a second of 64 threads of one client, over one connection of the framed echo."""
    with running_framed_echo(folder) as address, closing(FramedEcho(address)) as echo:
        shared = SharedFramedEcho(echo, method)
        return rate_of_threads([shared.exchange] * _CALLERS, _SECONDS)


def shared_syncs(folder: Path) -> float | None:
    """Returns the rows a second of 8 writers whose rows go into one write and one fdatasync.

    None if the median fdatasync takes at most 1 ms: then HBase's rate without sync is the goal.
    """
    file = SyncedFile(folder / "synced")
    data = bytes(_WRITERS * FIELD_COUNT * FIELD_BYTES)
    seconds: list[float] = []
    stop = time.perf_counter() + _SECONDS
    while not seconds or time.perf_counter() < stop:
        start = time.perf_counter()
        file.write(data)
        seconds.append(time.perf_counter() - start)
    if statistics.median(seconds) <= _SLOW_SYNC_S:
        return None
    return _WRITERS * len(seconds) / sum(seconds)
