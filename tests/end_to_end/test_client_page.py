"""The examples of docs/client.md work when they are pasted, one after another, on the table of the README's tour."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import rowlock
from rowlock_regionserver.server import Server

from tests.pages import ADDRESS, Paste, blocks_of

PAGE = "docs/client.md"


def write_as_the_tour_does(address: str) -> None:
    with rowlock.connect(address) as db:
        flights = db.create_table("flights", {"info": rowlock.Family(versions=3), "stats": rowlock.Family()})
        flights.put("UA|1545", {"info:dest": "IAH", "info:delay": "9"})
        flights.increment("carrier|UA", "stats:flights")
        with flights.batch() as batch:
            for number in range(1000):
                batch.put(b"DL|%04d" % number, {b"info:dest": b"ATL", b"info:delay": b"%d" % (number % 90)})


def test_the_examples_work_in_one_session(tmp_path: Path) -> None:
    with Server(tmp_path / "folder") as server:
        write_as_the_tour_does(server.address)
        with Paste({ADDRESS: server.address}) as paste:
            for block in blocks_of(PAGE):
                if "def test_" not in block.text:
                    paste.run(block)
    late, all_of_them, tables, typed = (paste.names[name] for name in ("late", "all_of_them", "tables", "typed"))
    assert isinstance(late, pa.Table)
    assert isinstance(all_of_them, pa.Table)
    assert isinstance(tables, list)
    assert isinstance(typed, list)
    assert len({*late["row"].to_pylist()}) == 814
    assert len({*all_of_them["row"].to_pylist()}) == 1003
    assert sum(table.num_rows for table in tables) == all_of_them.num_rows
    assert sum(table.num_rows for table in typed) == 1003
    assert typed[0].schema.names == ["id", "dest"]


def test_the_example_of_a_test_passes(tmp_path: Path) -> None:
    [example] = [block for block in blocks_of(PAGE) if "def test_" in block.text]
    (tmp_path / "test_example.py").write_text(example.text)
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"],
        cwd=tmp_path,
        env={name: value for name, value in os.environ.items() if not name.startswith("PYTEST")},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
