"""pytest fixtures: a real server in its own process, and a client of it.

Installing rowlock registers them. `rowlock_server` runs for the whole session on a fresh folder. `rowlock_client` is a
connection for one test; the tables that the test creates are dropped after it. Heavy modules are imported at the first
use of a fixture.

    def test_orders_survive_a_crash(rowlock_server, rowlock_client):
        rowlock_client.create_table("orders", {"info": rowlock.Family()})
        rowlock_client.table("orders").put(b"1", {b"info:state": b"paid"})
        rowlock_server.kill()
        rowlock_server.restart()
        assert rowlock_client.table("orders").row(b"1") == {b"info:state": b"paid"}
"""

from __future__ import annotations

import re
import signal
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    import subprocess

    from rowlock import Client

_START_SECONDS_MAX = 180.0
_STOP_SECONDS_MAX = 180.0


class RowlockServer:
    """A server process on a folder. Not thread-safe."""

    def __init__(self, folder: Path, log_path: Path, options: Sequence[str] = ()) -> None:
        """options: more command line options. log_path: receives the server's stderr."""
        self.folder = folder
        self._options = tuple(options)
        self.address = ""  # host:port; the same after a restart
        self.log_path = log_path
        self._process: subprocess.Popen[str] | None = None

    @property
    def is_running(self) -> bool:
        """Whether the process runs."""
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Starts the server and returns when it serves. Raises RuntimeError, with its output, if it does not start.

        Raises ImportError, with the command that installs it, if only the client is installed.
        """
        import subprocess
        import threading

        from rowlock_proto.server_modules import ADVICE, missing_server_modules

        missing = missing_server_modules()
        if missing:
            raise ImportError(
                f"rowlock's fixtures start a server, and this Python has no {', '.join(missing)}, which only the "
                f"server needs; run {ADVICE}",
                name=missing[0],
            )
        assert not self.is_running, "the server is already running"
        command = [sys.executable, "-m", "rowlock_regionserver", "--data", str(self.folder)]
        command += ["--listen", self.address or "127.0.0.1:0", *self._options]
        with self.log_path.open("a") as log:
            # In its own session, so that Ctrl-C in the tests does not kill it and `stop` can stop it cleanly.
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log, text=True, start_new_session=True
            )
        self._process = process
        assert process.stdout is not None
        too_slow = threading.Timer(_START_SECONDS_MAX, process.kill)
        too_slow.start()
        try:
            with process.stdout:
                found = re.search(r"\S+:\d+", process.stdout.readline())
        finally:
            too_slow.cancel()
        if found is None:
            process.kill()
            raise RuntimeError(
                f"rowlock-server did not start (exit code {process.wait()}): {self.log_path.read_text()[-2000:]}"
            )
        self.address = found.group()

    def kill(self) -> None:
        """Kills the server with SIGKILL, like a crash. Acknowledged writes are in the folder."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def stop(self) -> None:
        """Stops the server cleanly: it flushes and syncs. Raises AssertionError if it fails to."""
        if self._process is None or not self.is_running:
            return
        self._process.send_signal(signal.SIGTERM)
        try:
            exit_code = self._process.wait(_STOP_SECONDS_MAX)
        finally:
            self.kill()
        assert exit_code == 0, f"rowlock-server ended with {exit_code}: {self.log_path.read_text()[-2000:]}"

    def restart(self) -> None:
        """Starts the server again at the same address; stops it first if it runs."""
        self.stop()
        self.start()


@pytest.fixture(scope="session")
def rowlock_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RowlockServer]:
    """A rowlock server on a fresh folder, for the whole session: .address, .folder, .kill(), .restart()."""
    folder = tmp_path_factory.mktemp("rowlock")
    server = RowlockServer(folder / "data", folder / "server.log")
    server.start()
    try:
        yield server
        server.stop()
    finally:
        server.kill()


@pytest.fixture
def rowlock_client(rowlock_server: RowlockServer) -> Iterator[Client]:
    """A connection to `rowlock_server`. Tables and named snapshots that the test creates are dropped after it.

    If the test killed the server, it is started again for the next test. The test may close the connection.
    """
    import rowlock

    with rowlock.connect(rowlock_server.address) as client:
        before, snapshots_before = set(client.tables()), _snapshots(client)
        yield client
    if not rowlock_server.is_running:
        rowlock_server.restart()
    with rowlock.connect(rowlock_server.address) as other:
        for name in set(other.tables()) - before:
            other.drop_table(name, force=True)
        for name in _snapshots(other) - snapshots_before:
            other.drop_snapshot(name)


def _snapshots(client: Client) -> set[str]:
    return {snapshot.name for snapshot in client.named_snapshots()}
