"""The status of a server: what it holds and does at a moment, from Python and from the command line."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
import rowlock
from rowlock.cli.main import main
from rowlock_regionserver.server import Server


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    """A server with a table of 1,000 rows in a store file and 10 in memory, and an empty table."""
    with Server(tmp_path / "folder") as server:
        with rowlock.connect(server.address) as db:
            table = db.create_table("t", ["f", "g"])
            data = pa.table({"k": [f"{number:04}" for number in range(1000)], "n": range(1000)})
            table.put_arrow(data, "k STRING :key, n INT f:n")
            db.flush("t")
            for number in range(10):
                table.put(f"x{number}", {"g:x": "1"})
            db.create_table("empty", ["f"])
        yield server


def test_the_status_counts_what_the_server_holds(server: Server) -> None:
    with rowlock.connect(server.address) as db:
        status = db.status()
        info = db.server_info()
        assert (status.address, status.version) == (server.address, info.version)
        assert (status.data_folder_id, status.incarnation_id) == (info.data_folder_id, info.incarnation_id)
        assert 0 < status.uptime_ms <= info.uptime_ms
        assert abs(status.now_ms - info.now_ms) < 60_000
        empty, table = status.tables
        assert (empty.name, empty.region_count, empty.store_file_count, empty.memstore_bytes) == ("empty", 1, 0, 0)
        assert (table.name, table.region_count, table.damaged_region_count) == ("t", 1, 0)
        assert (table.store_file_count, table.store_file_cells) == (1, 1000)
        assert table.store_file_bytes > 1000
        assert table.memstore_bytes > 100
        parts = {part.setting: part for part in status.memory_parts}
        assert parts["memstore_bytes_max"].bytes_held == table.memstore_bytes
        assert parts["memstore_bytes_max"].bytes_held_peak > table.memstore_bytes
        assert status.memory_bytes_held == sum(part.bytes_held for part in status.memory_parts)
        borrowing = parts.pop("block_cache_bytes_max")  # Beyond its own share it may take what the others leave unused.
        assert status.memory_bytes_max >= sum(part.bytes_max for part in parts.values())
        assert status.memory_bytes_max > borrowing.bytes_max
        assert status.resident_bytes is None or status.resident_bytes > 10 << 20
        assert status.disk_free_bytes > 0
        assert (status.log_segment_count, status.is_log_full) == (1, False)
        assert status.log_segment_bytes > 0
        assert (status.connection_count, status.scan_count) == (1, 0)
        assert (status.compactions_queued, status.compactions_working) == (0, 0)
        assert status.snapshots == ()


def test_open_scans_and_snapshots_are_counted(server: Server) -> None:
    with rowlock.connect(server.address) as db:
        table = db.table("t")
        first = db.snapshot("t", lease_s=100)
        second = db.snapshot("t", lease_s=50)
        for number in range(7):
            table.put("r", {"f:x": str(number)})
        scan = table.scan(snapshot=second, batch_bytes=1)
        next(scan)
        status = db.status()
        assert [each.snapshot_id for each in status.snapshots] == [first.id, second.id]
        assert [each.table for each in status.snapshots] == ["t", "t"]
        assert [each.lease_ms for each in status.snapshots] == [100_000, 50_000]
        assert [each.made_ms for each in status.snapshots] == [first.made_ms, second.made_ms]
        assert [each.scan_count for each in status.snapshots] == [0, 1]
        assert [each.writes_since for each in status.snapshots] == [7, 7]
        assert all(0 < each.expires_in_ms <= each.lease_ms for each in status.snapshots)
        # By gRPC, for point operations, and for the scan.
        assert (status.scan_count, status.conversation_count, status.connection_count) == (1, 1, 3)
        scan.close()
        first.end()
        second.end()
        assert db.status().snapshots == ()


def test_the_command_shows_the_status(
    server: Server, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ROWLOCK_SERVER", server.address)
    assert main(["snapshot", "t", "--lease", "60"]) == 0
    taken = capsys.readouterr().out.strip()
    assert main(["put", "t", "r", "f:x=1"]) == 0
    assert main(["status"]) == 0
    lines = dict(line.split("\t") for line in capsys.readouterr().out.splitlines())
    assert lines["server"].startswith(f"{server.address}, rowlock ")
    assert lines["scans"] == "0 open"
    assert lines["memory memstore_bytes_max"].count("iB") >= 2
    assert lines["tables empty"] == "1 region; 0 B in memory; 0 files, 0 B, 0 cells"
    assert ", 1000 cells" in lines["tables t"]
    assert lines[f"snapshots {taken}"].startswith("of t; made ")
    assert lines[f"snapshots {taken}"].endswith("; 0 scans; keeps what 1 later change replaced or deleted")
    assert main(["status", "--json"]) == 0
    record = json.loads(capsys.readouterr().out)
    assert record["snapshots"][0]["snapshot_id"] == taken
    assert [table["name"] for table in record["tables"]] == ["empty", "t"]


def test_the_command_takes_renews_and_ends_snapshots(
    server: Server, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(*words: str) -> tuple[int, str, str]:
        code = main(words)
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    monkeypatch.setenv("ROWLOCK_SERVER", server.address)
    taken = run("snapshot", "t")[1].strip()
    assert run("put", "t", "late", "f:x=1")[0] == 0
    assert run("count", "t", "--snapshot", taken) == (0, "1010\n", "")
    assert run("count", "t") == (0, "1011\n", "")
    renewed = json.loads(run("snapshot", "--renew", taken, "--json")[1])
    assert renewed == {"snapshot": taken, "table": "t", "lease_s": 3600}
    assert run("snapshot", "--end", taken) == (0, "", "")
    code, out, err = run("scan", "t", "--snapshot", taken)
    assert (code, out) == (2, "")
    assert " UTC: its holder ended it; make a new snapshot" in err
    for words, message in (
        ((), "give a TABLE to take a snapshot of, or --renew ID, or --end ID: one of the three"),
        (("t", "--end", taken), "one of the three"),
        (("--end", "xyz"), "'xyz' is not the id of a snapshot, which 'rowlock snapshot TABLE' prints"),
        (("--end", taken, "--lease", "5"), "--lease is for a new snapshot"),
        (("nosuch",), "no table 'nosuch'"),
    ):
        code, out, err = run("snapshot", *words)
        assert (code, out) == (2, "")
        assert message in err


def test_the_status_is_answered_while_writers_work(server: Server) -> None:
    stop = threading.Event()

    def write() -> None:
        with rowlock.connect(server.address) as db:
            table = db.table("t")
            while not stop.is_set():
                table.put("r", {"f:x": "1"})

    thread = threading.Thread(target=write)
    thread.start()
    try:
        with rowlock.connect(server.address) as db:
            assert all(len(db.status().tables) == 2 for _ in range(20))
    finally:
        stop.set()
        thread.join()
