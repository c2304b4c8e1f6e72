"""Redis, by its protocol over a blocking socket.

With `appendonly` Redis writes each change to its file before it answers, and syncs the file by `appendfsync`: `no` is
rowlock's `os`, `always` its `fsync`. https://redis.io/docs/latest/develop/reference/protocol-spec/
"""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import BinaryIO

from bench.peers.peer import Durability, Peer, PeerStore
from bench.programs import ProgramFailedError, free_ports, listens, running_program

# Redis has no command for it; a script runs atomically.
_SWAP = b"if redis.call('get', KEYS[1]) == ARGV[1] then redis.call('set', KEYS[1], ARGV[2]) return 1 end return 0"


class RedisStore:
    """A PeerStore of Redis: one connection."""

    def __init__(self, connection: socket.socket) -> None:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._connection = connection
        self._answers: BinaryIO = connection.makefile("rb")
        script = self._call(b"SCRIPT", b"LOAD", _SWAP)
        assert isinstance(script, bytes), f"not the digest of a script: {script!r}"
        self._swap = script

    def get(self, row: bytes) -> bytes | None:
        value = self._call(b"GET", row)
        assert not isinstance(value, int), f"not a value: {value!r}"
        return value

    def put(self, row: bytes, value: bytes) -> None:
        self._call(b"SET", row, value)

    def increment(self, row: bytes) -> int:
        return self._number(b"INCR", row)

    def compare_and_swap(self, row: bytes, expected: bytes, value: bytes) -> bool:
        return self._number(b"EVALSHA", self._swap, b"1", row, expected, value) == 1

    def _number(self, *words: bytes) -> int:
        answer = self._call(*words)
        assert isinstance(answer, int), f"not a number: {answer!r}"
        return answer

    def _call(self, *words: bytes) -> bytes | int | None:
        self._connection.sendall(request(*words))
        return read_answer(self._answers)


def request(*words: bytes) -> bytes:
    """Returns a command as bytes: an array of strings."""
    return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%b\r\n" % (len(word), word) for word in words)


def read_answer(answers: BinaryIO) -> bytes | int | None:
    """Returns the next answer. Raises ProgramFailedError if it is an error, or of a kind not expected here."""
    line = answers.readline()
    kind, rest = line[:1], line[1:].rstrip()
    if kind == b"+":
        return rest
    if kind == b":":
        return int(rest)
    if kind == b"$":
        if rest == b"-1":
            return None
        return answers.read(int(rest) + 2)[:-2]
    raise ProgramFailedError(f"Redis answered {line.decode(errors='replace').strip()!r}")


@contextmanager
def running(folder: Path, durability: Durability) -> Iterator[PeerStore]:
    """Runs a Redis with its file in the folder, and connects to it."""
    [port] = free_ports(1)
    program = PEER.find()
    assert program is not None, "Redis is started where it is installed"
    command = [program, "--port", str(port), "--bind", "127.0.0.1", "--dir", str(folder), "--save", ""]
    command += ["--appendonly", "yes", "--appendfsync", {"os": "no", "fsync": "always"}[durability]]
    with (
        running_program(command, folder / "redis.log", lambda: listens(port)),
        closing(socket.create_connection(("127.0.0.1", port))) as connection,
    ):
        yield RedisStore(connection)


_WORK = ("get", "put", "increment", "compare_and_swap")
PEER = Peer("Redis", "redis-server", {"os": _WORK, "fsync": ("put", "compare_and_swap")}, running)
