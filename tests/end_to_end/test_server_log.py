"""The server's log: a line for each start, flush and stop, as text or JSON; by default, only what is wrong."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from datetime import datetime
from pathlib import Path

import pytest
import rowlock
from rowlock.pytest_plugin import RowlockServer
from rowlock_proto.v1 import region_pb2

from tests.end_to_end.raw_client import RawClient, put
from tests.end_to_end.server_command import ServerCommand
from tests.pages import ADDRESS, Paste, blocks_of
from tests.waiting import WAIT_S

MODULE = "rowlock_regionserver."


def _log(folder: Path, *options: str) -> list[str]:
    """Returns the lines that a server logs from its start to its stop, which flushes one cell."""
    with (
        ServerCommand("--data", folder / "data", "--listen", "127.0.0.1:0", *options) as server,
        RawClient(server.ready()) as client,
    ):
        region_id = client.create_table("t", b"f")
        call = region_pb2.MutateCall(region_id=region_id, mutate=region_pb2.Mutate(mutations=[put(b"r", b"v")]))
        client.regions.Mutate(call)
        server.signal(signal.SIGTERM)
        code, _, errors = server.ended()
        assert code == 0
        return errors.splitlines()


def test_each_start_flush_and_stop_is_a_line_of_json(tmp_path: Path) -> None:
    lines = [json.loads(line) for line in _log(tmp_path, "--log-level", "info", "--log-format", "json")]
    assert {datetime.fromisoformat(line["time"]).utcoffset() is not None for line in lines} == {True}
    assert {line["level"] for line in lines} == {"info"}
    started, stopping, flushed, stopped = [(line["logger"].removeprefix(MODULE), line["message"]) for line in lines]
    assert started[0] == "__main__"
    assert started[1].startswith(f"serving {tmp_path / 'data'} on 127.0.0.1:")
    assert stopping == ("signals", "SIGTERM: stopping")
    assert flushed[0] == "host.flushing"
    assert flushed[1].startswith("flushed region 1 of table 't' in ")
    assert flushed[1].endswith(" s: 1 cells in 1 store files")
    assert stopped == ("__main__", "stopped")


def test_a_refused_start_is_a_line_of_json(tmp_path: Path) -> None:
    words = ("--data", tmp_path / "absent" / "data", "--log-format", "json")
    with ServerCommand(*words) as server:
        code, _, errors = server.ended()
    assert code == 2
    line = json.loads(errors)
    assert line["level"] == "error"
    assert line["message"].startswith("rowlock-server: can't start: ")


def test_nothing_is_logged_by_default_of_a_server_that_is_well(tmp_path: Path) -> None:
    assert _log(tmp_path) == []


def test_a_slow_call_is_a_warning(tmp_path: Path) -> None:
    with ServerCommand(
        "--data", tmp_path / "data", "--listen", "127.0.0.1:0", "--config", "slow_call_ms=1", "--log-format", "json"
    ) as server:
        with (
            rowlock.connect(server.ready(), timeout=WAIT_S) as db,
            db.create_table("t", ["f"]).batch(size=5000) as batch,
        ):
            for number in range(5000):
                batch.put(b"%d" % number, {b"f:a": b"1", b"f:b": b"2"})
        server.signal(signal.SIGTERM)
        code, _, errors = server.ended()
    assert code == 0
    lines = [json.loads(line) for line in errors.splitlines()]
    assert {(line["level"], line["logger"]) for line in lines} == {("warning", f"{MODULE}engine.slow_calls")}
    assert re.match(r"slow put in columns of \d+ rows in region 1 of table 't': \d+\.\d s", lines[0]["message"])


def test_the_health_probe_of_the_page_works(rowlock_server: RowlockServer) -> None:
    [block] = blocks_of("docs/operating.md")
    with Paste({ADDRESS: rowlock_server.address}) as paste:
        paste.run(block)
        with pytest.raises(AssertionError):
            paste.run(block.with_text("SERVING", "NOT_SERVING"))


def test_the_list_of_settings_may_be_cut(tmp_path: Path) -> None:
    command = f"{sys.executable} -m rowlock_regionserver --data {tmp_path} --config help | head -1"
    ran = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=WAIT_S)
    assert ran.stdout.startswith("Settings for --config")
    assert ran.stderr == ""
