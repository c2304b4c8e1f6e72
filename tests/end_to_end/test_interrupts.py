"""Ctrl-C at random moments in a program that goes on, as a notebook does."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

# put_arrow is interrupted again and again; after each time, a batch of another thread is answered.
_PROGRAM = """
import os, random, signal, sys, threading, time
import pyarrow as pa, rowlock

def cells(count):
    rows = pa.array([f"r{number:04}".encode() for number in range(count)], pa.binary())
    names = {"family": "f", "qualifier": b"v", "value": b"x" * 100}
    return pa.table({"row": rows} | {name: pa.array([value] * count) for name, value in names.items()})

chance = random.Random(7)
with rowlock.open(sys.argv[1]) as db:
    db.create_table("t", ["f"])
    table, many, few = db.table("t"), cells(2000), cells(3)

    def put_many():
        table.put_arrow(many, batch_bytes=1 << 14)

    began = time.monotonic()
    put_many()
    seconds = time.monotonic() - began

    def interrupt():
        time.sleep(chance.uniform(0, seconds))
        os.kill(os.getpid(), signal.SIGINT)

    for number in range(60):
        interrupter = threading.Thread(target=interrupt)
        try:
            interrupter.start()
            while True:
                put_many()
        except KeyboardInterrupt:
            pass
        interrupter.join()
        is_answered = threading.Event()
        threading.Thread(target=lambda: (table.put_arrow(few), is_answered.set()), daemon=True).start()
        if not is_answered.wait(30):
            os._exit(3)
    sys.stdout.write(str(sum(1 for _ in table.scan())))
"""


def test_calls_end_after_an_interrupted_one(tmp_path: Path) -> None:
    command = [sys.executable, "-c", _PROGRAM, str(tmp_path / "data")]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert (ended.returncode, ended.stdout) == (0, "2000"), ended.stderr
