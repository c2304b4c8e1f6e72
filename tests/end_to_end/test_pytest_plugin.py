"""The pytest fixtures that rowlock offers to other projects."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import rowlock
from rowlock.pytest_plugin import RowlockServer

SUITE = """
import rowlock

def test_acknowledged_rows_survive_a_crash(rowlock_server, rowlock_client):
    assert rowlock_client.tables() == []
    rowlock_client.create_table("orders", {"info": rowlock.Family()})
    orders = rowlock_client.table("orders")
    orders.put(b"1", {b"info:state": b"paid"})
    address = rowlock_server.address
    rowlock_server.kill()
    assert not rowlock_server.is_running
    rowlock_server.restart()
    assert rowlock_server.address == address
    assert orders.row(b"1") == {b"info:state": b"paid"}

def test_tables_are_gone_and_the_server_is_the_same(rowlock_server, rowlock_client):
    assert rowlock_client.tables() == []
    rowlock_client.create_table("orders", {"info": rowlock.Family()})
    rowlock_server.kill()

def test_a_server_that_was_left_dead_runs_again(rowlock_server, rowlock_client):
    assert rowlock_client.tables() == []
    rowlock_server.restart()
    assert rowlock_client.tables() == []
    assert rowlock_server.folder.is_dir()
    rowlock_client.create_table("orders", {"info": rowlock.Family()})
    rowlock_client.close()

def test_tables_are_gone_also_when_the_client_was_closed(rowlock_client):
    assert rowlock_client.tables() == []
"""


def test_another_projects_tests_get_a_server_and_a_client(tmp_path: Path) -> None:
    (tmp_path / "test_orders.py").write_text(SUITE)
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tmp_path)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "4 passed" in ran.stdout


def test_a_server_that_can_not_start_says_why(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "somebody's file").write_text("")
    server = RowlockServer(tmp_path / "data", tmp_path / "server.log")
    with pytest.raises(RuntimeError, match="not a rowlock data folder"):
        server.start()
    assert not server.is_running


def test_a_server_that_is_stopped_in_order_keeps_its_rows(tmp_path: Path) -> None:
    server = RowlockServer(tmp_path / "data", tmp_path / "server.log")
    server.start()
    try:
        with rowlock.connect(server.address) as client:
            client.create_table("t", {"f": rowlock.Family()}).put(b"r", {b"f:q": b"v"})
        server.restart()
        with rowlock.connect(server.address) as client:
            assert client.table("t").row(b"r") == {b"f:q": b"v"}
        server.stop()
    finally:
        server.kill()
