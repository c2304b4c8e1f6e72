"""A real server process for a campaign, on its own folder, which can be killed and restarted at the same address."""

from __future__ import annotations

import contextlib
import random
import socket
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from rowlock.pytest_plugin import RowlockServer

# Below the range from which the system takes a connection's own port. A client that keeps trying a dead server's
# port inside that range may be given the very port it tries, and is then connected with itself.
_PORTS = range(20_000, 32_000)


@contextlib.contextmanager
def live_server(
    limits: Mapping[str, int] | None = None, *, address: str | None = None, options: Sequence[str] = ()
) -> Iterator[RowlockServer]:
    """A server on a fresh folder, which is removed afterwards; `limits` are settings of its configuration.

    `options` are more of its command line. Leaving the context stops it in order, unless it is dead already.
    RuntimeError when it does not start, AssertionError when it does not stop.
    """
    with tempfile.TemporaryDirectory(prefix="rowlock-consistency-") as place:
        settings = [f"--config={name}={value}" for name, value in (limits or {}).items()]
        server = RowlockServer(Path(place) / "data", Path(place) / "server.log", [*settings, *options])
        server.address = address or free_address()
        server.start()
        try:
            yield server
            server.stop()
        finally:
            server.kill()


def kill_and_restart(server: RowlockServer) -> None:
    """Kills the server and starts a new process on the same folder and port; returns when it serves."""
    server.kill()
    server.start()


def free_address() -> str:
    """Returns an address at which no process listens now."""
    while True:
        port = random.SystemRandom().choice(_PORTS)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        return f"127.0.0.1:{port}"
