"""Writes rows into HBase by happybase's batch put, at each command `put`, and answers the rate.

    python hbase_writer.py HOST PORT ROWS_FILE KEY_BYTES COLUMN_COUNT VALUE_BYTES

A script that needs only happybase. side_process.py has the protocol of the commands, hbase.py the format of the file.
"""

from __future__ import annotations

import json
import os
import sys
import time

import happybase

_BATCH_ROWS = 1000


def main(host: str, port: int, path: str, key_bytes: int, column_count: int, value_bytes: int) -> None:
    """Runs commands until the input ends, then removes its table."""
    with open(path, "rb") as file:
        data = file.read()
    columns = [b"f:q%d" % number for number in range(column_count)]
    row_bytes = key_bytes + column_count * value_bytes
    rows = []
    for start in range(0, len(data), row_bytes):
        values = range(start + key_bytes, start + row_bytes, value_bytes)
        cells = {column: data[value : value + value_bytes] for column, value in zip(columns, values, strict=True)}
        rows.append((data[start : start + key_bytes], cells))
    name = f"rowlock_bench_{os.getpid()}"
    # HBase's own defaults of a family; Thrift's differ.
    family = {"max_versions": 1, "bloom_filter_type": "ROW", "block_cache_enabled": True}
    connect(host, port).create_table(name, {"f": family})
    try:
        for line in sys.stdin:
            try:
                answer = {line.strip(): "done", "rows_a_second": put(host, port, name, rows)}
            except Exception as failure:
                answer = {"error": f"{type(failure).__name__}: {failure}"}
            sys.stdout.write(json.dumps(answer) + "\n")
            sys.stdout.flush()
    finally:
        connect(host, port).delete_table(name, disable=True)


def connect(host: str, port: int) -> happybase.Connection:
    """Opens a new connection, because the gateway closes one that is idle for a minute."""
    return happybase.Connection(host, port, timeout=120_000)


def put(host: str, port: int, name: str, rows: list[tuple[bytes, dict[bytes, bytes]]]) -> float:
    """Writes the rows; returns rows a second, without the time to connect."""
    table = connect(host, port).table(name)
    start = time.perf_counter()
    with table.batch(batch_size=_BATCH_ROWS * len(rows[0][1])) as batch:
        for row, cells in rows:
            batch.put(row, cells)
    return len(rows) / (time.perf_counter() - start)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3], *map(int, sys.argv[4:7]))
