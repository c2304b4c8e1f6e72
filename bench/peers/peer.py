"""What a peer is: a store that is started for the run, and rows of one value by its client."""

from __future__ import annotations

import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol, TypeAlias

_READY_SECONDS_MAX = 60.0
_LOOK_SECONDS = 0.05
_STOP_SECONDS_MAX = 30.0

# As of a table of rowlock: written to the system before the answer, or synced to the disk.
Durability: TypeAlias = Literal["os", "fsync"]


class PeerStore(Protocol):
    """Rows with one value each, used by one thread. Each call returns after it is done and acknowledged."""

    def get(self, row: bytes) -> bytes | None:
        """Returns the row's value; None if it is absent."""

    def put(self, row: bytes, value: bytes) -> None:
        """Sets the row's value."""

    def increment(self, row: bytes) -> int:
        """Adds 1 to the row's counter; returns the new value."""

    def compare_and_swap(self, row: bytes, expected: bytes, value: bytes) -> bool:
        """Sets the row's value if it is the expected one; returns whether it was."""


@dataclass(frozen=True, slots=True)
class Peer:
    """A store. `work` has the names of PeerStore's calls to measure, at each durability that the store has."""

    name: str
    program: str
    work: dict[Durability, tuple[str, ...]]
    running: Callable[[Path, Durability], AbstractContextManager[PeerStore]]
    folders: tuple[Path, ...] = ()

    def find(self) -> str | None:
        """Returns the path of its program, on the PATH or in its usual folders; None if it is not installed."""
        path = shutil.which(self.program)
        if path is not None:
            return path
        found = [folder / self.program for folder in self.folders if (folder / self.program).is_file()]
        return str(found[-1]) if found else None


class PeerFailedError(Exception):
    """A peer did not start; the message has the end of its log."""


@contextmanager
def running_program(command: Sequence[str], log: Path, port: int, user: str | None = None) -> Iterator[None]:
    """Runs a server until exit, and waits until it listens. `user`: who runs it; None: the user of this process."""
    with open(log, "wb") as output:
        # In a session of its own, so that Ctrl-C at the terminal reaches only the bench, which ends it.
        process = subprocess.Popen(
            command, stdout=output, stderr=output, stdin=subprocess.DEVNULL, start_new_session=True, user=user
        )
    try:
        deadline = time.monotonic() + _READY_SECONDS_MAX
        while not listens(port):
            if process.poll() is not None or time.monotonic() > deadline:
                raise PeerFailedError(f"{command[0]} did not start:\n{log.read_text(errors='replace')[-2000:]}")
            time.sleep(_LOOK_SECONDS)
        yield
    finally:
        process.terminate()
        try:
            process.wait(_STOP_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def listens(port: int) -> bool:
    """Whether a server listens at this port of this machine."""
    with socket.socket() as connection:
        return connection.connect_ex(("127.0.0.1", port)) == 0


def free_ports(count: int) -> list[int]:
    """Returns ports that are free now, all different."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]
    finally:
        for each in sockets:
            each.close()
