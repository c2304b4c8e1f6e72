"""The settings of a run, which workloads receive: rounds, durations, and fresh folders on the project's disk."""

from __future__ import annotations

import itertools
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

# In the source tree, because the system's temporary folder may be in memory, where a sync costs nothing.
_BUILD = Path(__file__).resolve().parent.parent / "build"


@dataclass(frozen=True, slots=True)
class Bench:
    """One run. `scale` shrinks the data for a smoke run, whose figures are meaningless."""

    folder: Path
    rounds: int = 11
    turn_seconds: float = 0.5
    scale: float = 1.0
    _numbers: Iterator[int] = field(default_factory=itertools.count)

    def fresh_folder(self, name: str) -> Path:
        """Creates an empty folder."""
        path = self.folder / f"{next(self._numbers)}-{name}"
        path.mkdir()
        return path

    def scaled(self, count: int, at_least: int = 1) -> int:
        """Returns the count in a full run, and fewer in a smoke run."""
        return max(at_least, int(count * self.scale))


@contextmanager
def temporary_folder(name: str) -> Iterator[Path]:
    """A folder on the project's disk that is removed at exit."""
    _BUILD.mkdir(exist_ok=True)
    path = Path(tempfile.mkdtemp(prefix=f"{name}-", dir=_BUILD))
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)
