"""A server with more store files and clients than it has file descriptors."""

from __future__ import annotations

import socket
from contextlib import ExitStack
from pathlib import Path

import rowlock

from tests.end_to_end.server_command import ServerCommand

DESCRIPTORS = 256
FAMILIES = [f"f{number}" for number in range(10)]
# Each is flushed to a file for each family.
ROWS = 27
LIMITED = (
    "-c",
    f"import resource; resource.setrlimit(resource.RLIMIT_NOFILE, ({DESCRIPTORS}, {DESCRIPTORS}))\n"
    "from rowlock_regionserver.__main__ import main; main()",
)


def test_many_store_files_and_a_flood_of_connections(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with ServerCommand("--data", data, "--listen", "127.0.0.1:0") as server, rowlock.connect(server.ready()) as db:
        table = db.create_table("t", FAMILIES, properties={"compaction.automatic": "false"})
        for number in range(ROWS):
            table.put(b"%03d" % number, {f"{family}:q": b"%d" % number for family in FAMILIES})
            db.flush("t")
    assert len(list(data.rglob("*.store"))) == ROWS * len(FAMILIES) > DESCRIPTORS
    with ServerCommand("--data", data, "--listen", "127.0.0.1:0", program=LIMITED) as server:
        address = server.ready()
        with rowlock.connect(address) as db:
            table = db.table("t")
            assert len(list(table.scan())) == ROWS
            host, port = address.split(":")
            with ExitStack() as flood:
                for _ in range(DESCRIPTORS):
                    connection = flood.enter_context(socket.socket())
                    connection.settimeout(60)
                    connection.connect((host, int(port)))
                # No descriptor is left for new clients, but there are some for the requests of this one.
                assert table.row(b"007") == {f"{family}:q".encode(): b"7" for family in FAMILIES}
                table.put(b"more", {"f0:q": b"v"})
                db.flush("t")
                assert len(list(table.scan())) == ROWS + 1
            assert len(list(table.scan())) == ROWS + 1
        with rowlock.connect(address, timeout=60) as db:
            assert len(list(db.table("t").scan())) == ROWS + 1
    assert server.process.returncode is not None
