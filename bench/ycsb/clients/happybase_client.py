"""HBase by happybase, through HBase's Thrift gateway; each thread has a connection, because it can't be shared."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import happybase

from bench.ycsb.rows import FAMILY

_TIMEOUT_MS = 120_000
_SCAN_ROWS = 1000


class HappybaseRows:
    """A RowClient of HBase."""

    def __init__(self, connection: happybase.Connection, table: str) -> None:
        self._connection = connection
        self._table = self._connection.table(table)

    def get(self, row: bytes) -> int:
        return len(self._table.row(row))

    def put(self, row: bytes, values: Mapping[bytes, bytes]) -> None:
        self._table.put(row, values)

    def put_batch(self, rows: Iterable[tuple[bytes, Mapping[bytes, bytes]]]) -> None:
        with self._table.batch() as batch:
            for row, values in rows:
                batch.put(row, values)

    def increment(self, row: bytes, column: bytes) -> None:
        self._table.counter_inc(row, column)

    def scan(self, start: bytes, count: int) -> int:
        # Without a batch size the gateway would fetch up to a thousand rows from the region server.
        return sum(1 for _ in self._table.scan(row_start=start, limit=count, batch_size=count))

    def full_scan(self) -> int:
        return sum(1 for _ in self._table.scan(batch_size=_SCAN_ROWS))

    def full_scan_arrow(self) -> int:
        raise NotImplementedError("happybase has no scan to Arrow")

    def close(self) -> None:
        self._connection.close()


def connect(address: str, table: str, thread_count: int) -> Sequence[HappybaseRows]:
    """Returns a RowClient for each thread."""
    return [HappybaseRows(_connection(address), table) for _ in range(thread_count)]


def create_table(address: str, table: str, durability: str) -> None:
    """Creates the table with one family; drops an earlier one of this name.

    Raises ValueError if the durability is not `os`: through the gateway HBase syncs no change.
    """
    if durability != "os":
        raise ValueError(f"HBase has no durability {durability} through its Thrift gateway")
    connection = _connection(address)
    if table.encode() in connection.tables():
        connection.delete_table(table, disable=True)
    # HBase's own defaults of a family; Thrift's differ.
    family = {"max_versions": 1, "bloom_filter_type": "ROW", "block_cache_enabled": True}
    connection.create_table(table, {FAMILY: family})
    connection.close()


def drop_table(address: str, table: str) -> None:
    connection = _connection(address)
    connection.delete_table(table, disable=True)
    connection.close()


def _connection(address: str) -> happybase.Connection:
    host, _, port = address.rpartition(":")
    return happybase.Connection(host, int(port), timeout=_TIMEOUT_MS)
