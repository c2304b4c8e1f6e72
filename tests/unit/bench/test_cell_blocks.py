"""The server that forms no wide blocks takes the commands of the real one, and its cells stay cells."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import rowlock

from bench.processes import start_module, start_rowlock

_CHECK = """
from bench.targets.cell_blocks import form_no_lines
form_no_lines()
from rowlock_regionserver.arrow.columns import empty_cells
from rowlock_regionserver.arrow.line_forming import lines_of
table = empty_cells()
lines, cells = lines_of(table)
assert lines is None and cells is table
"""


def test_no_lines_are_formed() -> None:
    subprocess.run([sys.executable, "-c", _CHECK], check=True)


def test_another_server_reads_what_it_wrote(tmp_path: Path) -> None:
    data = tmp_path / "data"
    arguments = ["--data", str(data), "--listen", "127.0.0.1:0"]
    with start_module("bench.targets.cell_blocks", arguments, tmp_path / "log") as server:
        with rowlock.connect(server.address) as client:
            client.create_table("t", ["f"]).put(b"row", {b"f:a": b"1", b"f:b": b"2"})
            client.flush("t")
        server.stop()
    with start_rowlock(data) as server, rowlock.connect(server.address) as client:
        assert client.table("t").row(b"row") == {b"f:a": b"1", b"f:b": b"2"}
