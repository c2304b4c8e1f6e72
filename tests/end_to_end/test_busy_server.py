"""A server whose flush takes longer than a client's timeout."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pytest
import rowlock
from rowlock._core import waiting

from tests.end_to_end.server_command import ServerCommand

TIMEOUT_S = 4.0
LIMITS = ("memstore_flush_bytes=1MiB", "memstore_bytes_max=2MiB", "bulk_file_bytes_min=64MiB")
ROWS, VALUE_BYTES, BATCH_BYTES = 3000, 1000, 64 << 10

SLOW_FLUSHES = """
import os, sys
from rowlock_regionserver.__main__ import main
from rowlock_regionserver.region.flush import Flusher
flush = Flusher.flush
def waiting_flush(self, *arguments):
    with open(sys.argv[2] + ".gate"):
        return flush(self, *arguments)
Flusher.flush = waiting_flush
main()
"""


class Gate(logging.Handler):
    """A log handler that releases flushes when a line says that a client has waited longer than its timeout."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.path = path
        self.waited_s: list[float] = []
        os.mkfifo(path)

    def emit(self, record: logging.LogRecord) -> None:
        assert isinstance(record.args, tuple), record
        waited_s = record.args[1]
        assert isinstance(waited_s, float), record
        self.waited_s.append(waited_s)
        if waited_s > TIMEOUT_S:
            self.open()

    def open(self) -> None:
        """Releases all flushes, also later ones."""
        if self.path.is_fifo():
            opened = os.open(self.path, os.O_RDWR)
            self.path.with_suffix(".open").touch()
            self.path.with_suffix(".open").replace(self.path)
            os.close(opened)


@contextmanager
def behind(gate: Gate) -> Iterator[None]:
    log = logging.getLogger("rowlock")
    log.addHandler(gate)
    try:
        yield
    finally:
        log.removeHandler(gate)
        gate.open()


@pytest.mark.parametrize("busy_timeout", [600.0, 0.1])
def test_a_bulk_job_waits_for_a_flush_that_takes_longer_than_its_timeout(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, busy_timeout: float
) -> None:
    """Up to a bound of its own: with a small one it fails."""
    monkeypatch.setattr(waiting, "EVERY_S", 0.0)
    gate = Gate(tmp_path / "data.gate")
    keys = [f"{number:06}".encode() for number in range(ROWS)]
    data = pa.table({"k": pa.array(keys, pa.binary()), "v": pa.array([b"v" * VALUE_BYTES] * ROWS, pa.binary())})
    words = ["--data", str(tmp_path / "data"), "--listen", "127.0.0.1:0"]
    for limit in LIMITS:
        words += ["--config", limit]
    with (
        ServerCommand(*words, program=("-c", SLOW_FLUSHES)) as server,
        rowlock.connect(server.ready(), timeout=60) as db,
        behind(gate),
    ):
        db.create_table("t", ["f"], durability="os")
        table = db.table("t", timeout=TIMEOUT_S)
        mapping = "k BINARY :key, v BINARY f:v"
        if busy_timeout < TIMEOUT_S:
            with pytest.raises(rowlock.BulkError, match=r"stayed busy for 0\.1 s: "):
                table.put_arrow(data, mapping, batch_bytes=BATCH_BYTES, busy_timeout=busy_timeout)
            return
        written = table.put_arrow(data, mapping, batch_bytes=BATCH_BYTES, busy_timeout=busy_timeout)
        assert written.row_count == ROWS
        assert gate.waited_s[0] == 0.0
        assert max(gate.waited_s) > TIMEOUT_S
        assert [row for row, _ in db.table("t").scan()] == keys
