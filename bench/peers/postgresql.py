"""PostgreSQL, by psycopg with prepared statements, over a Unix socket.

A commit writes the log before it is answered; with `fsync=on` it is synced, too. So `fsync=off` is rowlock's `os`.
PostgreSQL does not run as root; then the user `postgres` runs it.
"""

from __future__ import annotations

import os
import pwd
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol, cast

from bench.client_packages import installed_clients
from bench.peers.peer import Durability, Peer, PeerStore
from bench.programs import ProgramFailedError, free_ports, listens, running_program

_USER = "postgres"
_SOCKET_FOLDER = "/tmp"


class Cursor(Protocol):
    """What is used of psycopg's cursor."""

    rowcount: int

    def fetchone(self) -> tuple[object, ...] | None:
        """Returns the next row; None at the end."""


class Connection(Protocol):
    """What is used of psycopg's connection."""

    def execute(self, query: str, parameters: tuple[object, ...] = (), *, prepare: bool = True) -> Cursor:
        """Runs one statement."""

    def close(self) -> None:
        """Closes the connection."""


class PostgresqlStore:
    """A PeerStore of PostgreSQL: one connection, on which each statement is a transaction."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        connection.execute("CREATE TABLE rows (key bytea PRIMARY KEY, value bytea, counter bigint)")

    def get(self, row: bytes) -> bytes | None:
        found = self._connection.execute("SELECT value FROM rows WHERE key = %s", (row,), prepare=True).fetchone()
        if found is None:
            return None
        assert isinstance(found[0], bytes), f"not a value: {found!r}"
        return found[0]

    def put(self, row: bytes, value: bytes) -> None:
        self._connection.execute(
            "INSERT INTO rows (key, value) VALUES (%s, %s) ON CONFLICT (key) DO UPDATE SET value = excluded.value",
            (row, value),
            prepare=True,
        )

    def increment(self, row: bytes) -> int:
        found = self._connection.execute(
            "INSERT INTO rows (key, counter) VALUES (%s, 1) "
            "ON CONFLICT (key) DO UPDATE SET counter = rows.counter + 1 RETURNING counter",
            (row,),
            prepare=True,
        ).fetchone()
        assert found is not None, "the statement returned no row"
        assert isinstance(found[0], int), f"not a counter: {found!r}"
        return found[0]

    def compare_and_swap(self, row: bytes, expected: bytes, value: bytes) -> bool:
        cursor = self._connection.execute(
            "UPDATE rows SET value = %s WHERE key = %s AND value = %s", (value, row, expected), prepare=True
        )
        return cursor.rowcount == 1


def _connect(port: int) -> Connection:
    folder = str(installed_clients())
    if folder not in sys.path:
        sys.path.append(folder)
    import psycopg

    text = f"host={_SOCKET_FOLDER} port={port} user={_USER} dbname=postgres"
    return cast(Connection, psycopg.connect(text, autocommit=True))


@contextmanager
def running(folder: Path, durability: Durability) -> Iterator[PeerStore]:
    """Runs a PostgreSQL with its data in the folder, and connects to it. Raises ProgramFailedError if it fails."""
    program = PEER.find()
    assert program is not None, "PostgreSQL is started where it is installed"
    user = _USER if os.geteuid() == 0 else None
    data = folder / "postgresql"
    data.mkdir(mode=0o700)
    if user is not None:
        _give(data, user)
    initdb = [str(Path(program).resolve().with_name("initdb")), "-D", str(data), "-U", _USER, "-A", "trust"]
    made = subprocess.run(initdb, capture_output=True, text=True, user=user)
    if made.returncode != 0:
        raise ProgramFailedError(f"initdb failed: {made.stderr[-2000:]}")
    [port] = free_ports(1)
    command = [program, "-D", str(data), "-k", _SOCKET_FOLDER, "-p", str(port), "-h", "127.0.0.1"]
    command += ["-c", f"fsync={'on' if durability == 'fsync' else 'off'}"]
    with running_program(command, folder / "postgresql.log", lambda: listens(port), user):
        connection = _connect(port)
        try:
            yield PostgresqlStore(connection)
        finally:
            connection.close()


def _give(data: Path, user: str) -> None:
    """Gives the folder to the user, who must be able to reach it. Raises ProgramFailedError without such a user."""
    try:
        entry = pwd.getpwnam(user)
    except KeyError:
        raise ProgramFailedError(f"PostgreSQL does not run as root, and there is no user {user}") from None
    os.chown(data, entry.pw_uid, entry.pw_gid)
    # The bench's own folder is closed to others; they may pass through it, and no more.
    for folder in (data.parent, data.parent.parent):
        folder.chmod(0o711)


_WORK = ("get", "put", "increment", "compare_and_swap")
PEER = Peer(
    "PostgreSQL",
    "postgres",
    {"os": _WORK, "fsync": ("put", "compare_and_swap")},
    running,
    tuple(sorted(Path("/usr/lib/postgresql").glob("*/bin"))),
)
