"""rowlock as it is shipped: its server as a separate process, its sync client in this process."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import rowlock

from bench.processes import ServerProcess, start_rowlock, start_slow_rowlock
from bench.targets.messages import FAMILY, QUALIFIER, row_key

_FAMILY = FAMILY.decode()
_COLUMN = FAMILY + b":" + QUALIFIER
_COUNTER = FAMILY + b":counter"


@dataclass(frozen=True, slots=True)
class RowlockStore:
    """A RowStore of rowlock; see store.py."""

    table: rowlock.Table[bytes]

    def get(self, row: bytes) -> int:
        return sum(len(value) for value in self.table.row(row).values())

    def put(self, row: bytes, value: bytes) -> None:
        self.table.put(row, {_COLUMN: value})

    def increment(self, row: bytes) -> int:
        return self.table.increment(row, _COUNTER)

    def fill(self, row_count: int, value: bytes) -> None:
        """Puts the workloads' rows 0 to row_count, in batches."""
        with self.table.batch(size=1000) as batch:
            for number in range(row_count):
                batch.put(row_key(number), {_COLUMN: value})


@dataclass(frozen=True, slots=True)
class Rowlock:
    """A running server and its client."""

    process: ServerProcess
    client: rowlock.Client

    def store(self, name: str, durability: rowlock.Durability = "fsync") -> RowlockStore:
        """Creates a table with one family."""
        self.client.create_table(name, {_FAMILY: rowlock.Family()}, durability=durability)
        return RowlockStore(self.client.table(name))


@contextmanager
def running_rowlock(folder: Path, *settings: str, sync_delay_ms: int = 0) -> Iterator[Rowlock]:
    """Runs a server on the folder's `data`, with a client, until exit.

    The server is started by its command, with `settings` as --config. With `sync_delay_ms` it is started by
    slow_disk.py, which delays each sync.
    """
    data = folder / "data"
    words = [word for setting in settings for word in ("--config", setting)]
    server = start_slow_rowlock(data, sync_delay_ms, *words) if sync_delay_ms else start_rowlock(data, *words)
    with server, rowlock.connect(server.address, timeout=60) as client:
        yield Rowlock(server, client)
