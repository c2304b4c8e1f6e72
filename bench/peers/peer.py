"""What a peer is: a store that is started for the run, and rows of one value by its client."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol, TypeAlias

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
