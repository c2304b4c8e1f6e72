"""The state that the steps of the demo share: the server, the client, and the expected rows of the tables."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import rowlock

from bench.demo.output import Output
from bench.processes import ServerProcess, start_rowlock

# The deadline of every call, longer than a restart of the server takes.
CALL_SECONDS = 120.0


@dataclass(slots=True)
class DemoState:
    """`expected` is the source with every acknowledged change, in key order.

    `rates` has the rates for the picture, in flights per second, by operation.
    """

    folder: Path
    output: Output
    server: ServerProcess
    client: rowlock.Client
    expected: pa.Table
    rates: dict[str, float] = field(default_factory=dict)

    @property
    def address(self) -> str:
        return self.server.address

    def crash_and_restart(self) -> float:
        """Kills the server and restarts it on the same folder and port. Returns the seconds until it is ready."""
        address = self.server.address
        self.server.kill()
        self.server = start_rowlock(self.folder, listen=address)
        return self.server.ready_seconds

    def close(self) -> None:
        """Closes the client and stops the server."""
        self.client.close()
        self.server.stop(CALL_SECONDS)


class Stopwatch:
    """Measures seconds from its creation until now, or until it is stopped."""

    def __init__(self) -> None:
        self._start = time.perf_counter()
        self._stop: float | None = None

    def stop(self) -> Stopwatch:
        """Stops the watch."""
        self._stop = time.perf_counter()
        return self

    @property
    def seconds(self) -> float:
        return (time.perf_counter() if self._stop is None else self._stop) - self._start

    def per_second(self, count: int) -> float:
        return count / self.seconds

    def rate(self, count: int, unit: str) -> str:
        """Formats the rate: `336,776 flights in 9.1 s, 37,008 per second`."""
        seconds = self.seconds
        return f"{count:,} {unit} in {seconds:.1f} s, {count / seconds:,.0f} per second"
