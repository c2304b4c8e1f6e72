"""A control group of version 1 or 2 with a memory limit, like a container's. Linux only; needs root."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

_MOUNT = Path("/sys/fs/cgroup")
_NUMBERS = iter(range(1, 1 << 30))
# The shell enters the group and becomes the command, which so has all its memory counted there.
_ENTER = 'echo $$ > "$0"/cgroup.procs && exec "$@"'


@dataclass(frozen=True, slots=True)
class ControlGroup:
    """A control group. The system kills its processes when they run out of memory, as in a container."""

    folder: Path

    def command(self, words: Sequence[str]) -> list[str]:
        """Returns the command that runs inside this group."""
        return ["/bin/sh", "-c", _ENTER, str(self.folder), *words]

    def kill_count(self) -> int:
        """Returns how many processes of the group the system has killed."""
        for name in ("memory.events", "memory.oom_control"):
            with contextlib.suppress(FileNotFoundError):
                words = (self.folder / name).read_text().split()
                return int(words[words.index("oom_kill") + 1])
        raise AssertionError(f"{self.folder} does not tell what was killed in it")


@contextlib.contextmanager
def control_group(limit_bytes: int) -> Iterator[ControlGroup]:
    """Creates a group with a memory limit, which includes the pages of files. Raises PermissionError without root."""
    folder = _parent() / f"rowlock-{os.getpid()}-{next(_NUMBERS)}"
    folder.mkdir()
    try:
        for name, limit in (
            ("memory.max", limit_bytes),
            ("memory.swap.max", 0),
            ("memory.limit_in_bytes", limit_bytes),
        ):
            if (folder / name).exists():
                (folder / name).write_text(str(limit))
        yield ControlGroup(folder)
    finally:
        folder.rmdir()


def _parent() -> Path:
    """Returns the folder where groups with a limit can be created."""
    version_1 = _MOUNT / "memory"
    if version_1.is_dir():
        lines = Path("/proc/self/cgroup").read_text().splitlines()
        own = next((line.split(":", 2)[2] for line in lines if "memory" in line.split(":", 2)[1].split(",")), "/")
        inside = version_1 / own.lstrip("/")
        return inside if inside.is_dir() else version_1
    with contextlib.suppress(OSError):  # It may be so already.
        (_MOUNT / "cgroup.subtree_control").write_text("+memory")
    return _MOUNT
