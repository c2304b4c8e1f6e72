"""The process that writes into HBase sends every row once, in batches, and removes its table."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from bench.side_process import SideProcessError
from bench.spark.hbase import HBasePeer, write_plain_rows
from bench.spark.rows import ParquetRows

# Stands for happybase, and notes what is done with it.
_HAPPYBASE = """
import json, os

def note(*what):
    with open(os.environ["NOTES"], "a") as file:
        file.write(json.dumps(what) + chr(10))

class Connection:
    def __init__(self, host, port, timeout):
        self.name = f"{host}:{port}"
    def create_table(self, name, families):
        note("create", self.name, sorted(families))
    def delete_table(self, name, disable):
        note("delete", disable)
    def table(self, name):
        if os.environ.get("FAILS"):
            raise OSError("no such table")
        return Table()

class Table:
    def batch(self, batch_size):
        note("batch", batch_size)
        return self
    def __enter__(self):
        return self
    def __exit__(self, *failure):
        note("sent")
    def put(self, row, cells):
        note("put", row.decode(), {name.decode(): value.hex() for name, value in cells.items()})
"""


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    [parquet] = ParquetRows.made_in(tmp_path / "rows", 3).files()
    write_plain_rows(parquet, tmp_path / "plain", 3)
    return tmp_path / "plain"


@pytest.fixture
def notes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "modules").mkdir()
    (tmp_path / "modules" / "happybase.py").write_text(_HAPPYBASE)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "modules"))
    monkeypatch.setenv("NOTES", str(tmp_path / "notes"))
    return tmp_path / "notes"


def test_every_row_is_put_with_all_of_its_columns(rows: Path, notes: Path) -> None:
    with HBasePeer("127.0.0.1:9090", sys.executable).writer(rows) as writer:
        rate = writer.call("put")["rows_a_second"]
        assert isinstance(rate, float)
        assert rate > 0
    done = [json.loads(line) for line in notes.read_text().splitlines()]
    assert done[:2] == [["create", "127.0.0.1:9090", ["f"]], ["batch", 10_000]]
    assert done[-2:] == [["sent"], ["delete", True]]
    table = pq.read_table(rows.parent / "rows")
    expected = [{f"f:{name}": value.hex() for name, value in row.items() if name != "key"} for row in table.to_pylist()]
    assert [put[1:] for put in done if put[0] == "put"] == [
        [f"row-{number:010d}", cells] for number, cells in enumerate(expected)
    ]


def test_a_failed_put_is_told_and_the_table_goes_all_the_same(
    rows: Path, notes: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAILS", "yes")
    peer = HBasePeer("127.0.0.1:9090", sys.executable)
    with peer.writer(rows) as writer, pytest.raises(SideProcessError, match="OSError: no such table"):
        writer.call("put")
    assert json.loads(notes.read_text().splitlines()[-1]) == ["delete", True]
