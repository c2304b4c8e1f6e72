"""A program that continues after Ctrl-C, as a notebook does, is interrupted at random moments."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.drawn_cases import case_count
from tests.end_to_end.server_command import ServerCommand

# Work is interrupted again and again; after each time, another thread does some of it.
_PROGRAM = """
import os, random, signal, sys, threading, time
import pyarrow as pa, rowlock

def cells(count):
    rows = pa.array([f"r{number:04}".encode() for number in range(count)], pa.binary())
    names = {"family": "f", "qualifier": b"v", "value": b"x" * 100}
    return pa.table({"row": rows} | {name: pa.array([value] * count) for name, value in names.items()})

chance = random.Random(7)
with rowlock.connect(sys.argv[1], timeout=60) as db:
    db.create_table("t", ["f"])
    table, many = db.table("t"), cells(2000)
    work = {
        "put_arrow": lambda count: table.put_arrow(many.slice(0, count), batch_bytes=1 << 14),
        "scan": lambda count: sum(1 for _ in table.scan(limit=count)),
        "row": lambda count: [table.row("r0000") for _ in range(count // 20)],
        "tables": lambda count: [db.tables() for _ in range(count // 20)],
    }[sys.argv[2]]
    table.put_arrow(many)
    began = time.monotonic()
    work(2000)
    seconds = time.monotonic() - began

    def interrupt():
        time.sleep(chance.uniform(0, seconds))
        os.kill(os.getpid(), signal.SIGINT)

    for number in range(int(sys.argv[3])):
        interrupter = threading.Thread(target=interrupt)
        try:
            interrupter.start()
            while True:
                work(2000)
        except KeyboardInterrupt:
            pass
        interrupter.join()
        is_done = threading.Event()
        threading.Thread(target=lambda: (work(20), is_done.set()), daemon=True).start()
        if not is_done.wait(60):
            os._exit(3)
    sys.stdout.write(str(sum(1 for _ in table.scan())))
"""


@pytest.mark.parametrize("work", ["put_arrow", "scan", "row", "tables"])
def test_calls_end_after_an_interrupted_one(tmp_path: Path, work: str) -> None:
    with ServerCommand("--data", tmp_path / "data", "--listen", "127.0.0.1:0", "--direct", "off") as server:
        command = [sys.executable, "-c", _PROGRAM, server.ready(), work, str(case_count(40, 15))]
        ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert (ended.returncode, ended.stdout) == (0, "2000"), ended.stderr
