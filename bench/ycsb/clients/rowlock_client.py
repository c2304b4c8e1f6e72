"""rowlock by its sync client; the threads of a process share one client."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import rowlock

from bench.ycsb.rows import FAMILY, FIELD_COUNT

_TIMEOUT_S = 60.0


class RowlockRows:
    """A RowClient of rowlock."""

    def __init__(self, client: rowlock.Client, table: str) -> None:
        self._client = client
        self._table = client.table(table)

    def get(self, row: bytes) -> int:
        return len(self._table.row(row))

    def put(self, row: bytes, values: Mapping[bytes, bytes]) -> None:
        self._table.put(row, values)

    def put_batch(self, rows: Iterable[tuple[bytes, Mapping[bytes, bytes]]]) -> None:
        with self._table.batch(size=1000) as batch:
            for row, values in rows:
                batch.put(row, values)

    def increment(self, row: bytes, column: bytes) -> None:
        self._table.increment(row, column)

    def scan(self, start: bytes, count: int) -> int:
        return sum(1 for _ in self._table.scan(start=start, limit=count))

    def full_scan(self) -> int:
        return sum(1 for _ in self._table.scan())

    def full_scan_arrow(self) -> int:
        # A cell a line. The counter's row has one, and all others have one for each field.
        return len(self._table.scan().to_arrow()) // FIELD_COUNT

    def close(self) -> None:
        self._client.close()


def connect(address: str, table: str, thread_count: int) -> Sequence[RowlockRows]:
    """Returns a RowClient for each thread, all of one client."""
    client = rowlock.connect(address, timeout=_TIMEOUT_S)
    return [RowlockRows(client, table) for _ in range(thread_count)]


def create_table(address: str, table: str, durability: rowlock.Durability) -> None:
    """Creates the table with one family; drops an earlier one of this name."""
    with rowlock.connect(address, timeout=_TIMEOUT_S) as client:
        if table in client.tables():
            client.drop_table(table)
        client.create_table(table, {FAMILY: rowlock.Family(versions=1)}, durability=durability)


def drop_table(address: str, table: str) -> None:
    with rowlock.connect(address, timeout=_TIMEOUT_S) as client:
        client.drop_table(table)
