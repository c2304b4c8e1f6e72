"""HBase for the comparison of bulk writes: its Thrift gateway, and happybase in a separate process.

The process runs hbase_writer.py, which imports nothing of this project and reads the rows from a plain file, so a
Python with only happybase can run it.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pyarrow.parquet as pq

from bench.side_process import SideProcess
from bench.targets import cell_tables
from bench.targets.messages import row_key

KEY_BYTES = len(row_key(0))
_WRITER = Path(__file__).with_name("hbase_writer.py")


@dataclass(frozen=True, slots=True)
class HBasePeer:
    """The address of the gateway, and a Python that has happybase."""

    address: str
    python: str

    def writer(self, rows: Path) -> SideProcess:
        """Starts the writer: its command `put` writes the rows and answers rows_a_second, exit drops its table."""
        host, port = self.address.rsplit(":", 1)
        counts = [str(count) for count in (KEY_BYTES, cell_tables.COLUMN_COUNT, cell_tables.VALUE_BYTES)]
        return SideProcess([self.python, str(_WRITER), host, port, str(rows), *counts])


def write_plain_rows(parquet: Path, path: Path, row_count_max: int) -> int:
    """Writes the first rows of a Parquet file as concatenated bytes, each the key and its values; returns how many."""
    rows = pq.read_table(parquet)
    columns = [rows[name].to_pylist()[:row_count_max] for name in rows.column_names]
    with open(path, "wb") as file:
        for key, *values in zip(*columns, strict=True):
            file.write(key.encode() + b"".join(values))
    return len(columns[0])
