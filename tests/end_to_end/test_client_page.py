"""The examples of docs/client.md work when they are pasted, one after another, on the table of the README's tour."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import rowlock
from rowlock_regionserver.server import Server

ROOT = Path(__file__).parents[2]
BLOCKS: list[str] = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "client.md").read_text(), re.DOTALL)
PYTEST_BLOCKS = [text for text in BLOCKS if "def test_" in text]


def write_as_the_tour_does(address: str) -> None:
    with rowlock.connect(address) as db:
        flights = db.create_table("flights", {"info": rowlock.Family(versions=3), "stats": rowlock.Family()})
        flights.put("UA|1545", {"info:dest": "IAH", "info:delay": "9"})
        flights.increment("carrier|UA", "stats:flights")
        with flights.batch() as batch:
            for number in range(100):
                batch.put(b"DL|%04d" % number, {b"info:dest": b"ATL", b"info:delay": b"%d" % (number % 90)})


def test_the_examples_work_in_one_session(tmp_path: Path) -> None:
    with Server(tmp_path / "folder") as server:
        write_as_the_tour_does(server.address)
        session = "".join(text for text in BLOCKS if text not in PYTEST_BLOCKS)
        assert session.count("127.0.0.1:7460") == 2
        session = session.replace("127.0.0.1:7460", server.address)
        ends = (
            "assert len({*late['row'].to_pylist()}) == 74\n"
            "assert len({*all_of_them['row'].to_pylist()}) == 103\n"
            "assert sum(table.num_rows for table in tables) == all_of_them.num_rows\n"
        )
        ran = subprocess.run(
            [sys.executable, "-W", "error", "-c", session + ends],
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )
    assert ran.returncode == 0, ran.stderr


def test_the_example_of_a_test_passes(tmp_path: Path) -> None:
    (example,) = PYTEST_BLOCKS
    (tmp_path / "test_example.py").write_text(example)
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
