"""rowlock as it is shipped: its server as a process of its own, its sync client in ours."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import rowlock

from bench.processes import ServerProcess, start_module, start_rowlock
from bench.targets.messages import FAMILY, QUALIFIER, row_key

_FAMILY = FAMILY.decode()
_COLUMN = FAMILY + b":" + QUALIFIER
_COUNTER = FAMILY + b":counter"


@dataclass(frozen=True, slots=True)
class RowlockStore:
    """A RowStore; see store.py."""

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
    """A running server and a client of it."""

    process: ServerProcess
    client: rowlock.Client

    def store(self, name: str, durability: rowlock.Durability = "fsync") -> RowlockStore:
        """A new table with one family."""
        self.client.create_table(name, {_FAMILY: rowlock.Family()}, durability=durability)
        return RowlockStore(self.client.table(name))


@contextmanager
def running_rowlock(folder: Path, *adjustments: str) -> Iterator[Rowlock]:
    """A server on the folder's `data`, with a client, for the time of the block.

    With adjustments, which adjusted_server.py reads, it is not started by the command that users start it with.
    """
    data = folder / "data"
    if adjustments:
        server = start_module("bench.targets.adjusted_server", [str(data), *adjustments], folder / "data.log")
    else:
        server = start_rowlock(data)
    with server, rowlock.connect(server.address, timeout=60) as client:
        yield Rowlock(server, client)
