"""The shared state of the demo's steps: the server, the client, and the expected contents of the tables."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import rowlock

from bench.demo.account import Account
from bench.processes import ServerProcess, start_rowlock

# The deadline of every call, longer than a restart of the server.
CALL_SECONDS = 120.0


@dataclass(slots=True)
class Stage:
    """`expected` is the source with every acknowledged change, in key order.

    `rates` are the flights a second that the steps measured for the chart, by name.
    """

    folder: Path
    account: Account
    server: ServerProcess
    client: rowlock.Client
    expected: pa.Table
    rates: dict[str, float] = field(default_factory=dict)

    @property
    def address(self) -> str:
        return self.server.address

    def crash_and_restart(self) -> float:
        """Kills the server and starts it on the same folder and port; returns the seconds until it is ready."""
        address = self.server.address
        self.server.kill()
        self.server = start_rowlock(self.folder, listen=address)
        return self.server.ready_seconds

    def close(self) -> None:
        """Closes the client and stops the server."""
        self.client.close()
        self.server.stop(CALL_SECONDS)


class Stopwatch:
    """Measures the seconds since it was created, until it is stopped, and rates over them."""

    def __init__(self) -> None:
        self._start = time.perf_counter()
        self._stop: float | None = None

    def stop(self) -> Stopwatch:
        """Stops the watch; returns it."""
        self._stop = time.perf_counter()
        return self

    @property
    def seconds(self) -> float:
        return (time.perf_counter() if self._stop is None else self._stop) - self._start

    def per_second(self, count: int) -> float:
        return count / self.seconds

    def rate(self, count: int, what: str) -> str:
        """Formats a rate: `336,776 flights in 9.1 s, 37,008 a second`."""
        seconds = self.seconds
        return f"{count:,} {what} in {seconds:.1f} s, {count / seconds:,.0f} a second"
