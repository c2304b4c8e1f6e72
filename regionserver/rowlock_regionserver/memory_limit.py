"""The memory limit of this process: the machine's memory, or the limit of a control group, as in a container.

Groups are nested, and each may have a limit, so all groups up to the root are read. Without a limit version 2 has
`max`, version 1 a number beyond any machine. Files that can't be read or parsed are skipped: they limit nothing.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

# By the type of the file system: the files with limits.
_FILES = {"cgroup2": ("memory.max", "memory.high"), "cgroup": ("memory.limit_in_bytes",)}


def memory_limit(root: Path = Path("/")) -> int:
    """Returns the limit in bytes. `root` is the folder with proc and sys."""
    return min([_machine_bytes(), *_limits(root)])


def _machine_bytes() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _limits(root: Path) -> Iterator[int]:
    """The limits of the groups of this process."""
    paths = _paths_of_process(root)
    for kind, mount_root, mount_point in _mounts(root):
        path = paths.get(kind)
        if path is None:
            continue
        for folder in _folders(root, path, mount_root, mount_point):
            for name in _FILES[kind]:
                limit = _number(folder / name)
                if limit is not None:
                    yield limit


def _paths_of_process(root: Path) -> dict[str, PurePosixPath]:
    """By the type of the file system: the group's path, from the root of the hierarchy."""
    paths = {}
    for line in _lines(root / "proc/self/cgroup"):
        fields = line.split(":", 2)
        if len(fields) < 3:
            continue
        hierarchy, controllers, path = fields
        if hierarchy == "0" and not controllers:
            paths["cgroup2"] = PurePosixPath(path)
        elif "memory" in controllers.split(","):
            paths["cgroup"] = PurePosixPath(path)
    return paths


def _mounts(root: Path) -> Iterator[tuple[str, PurePosixPath, PurePosixPath]]:
    """Yields type, mounted group and mount point of the hierarchies that may have memory limits."""
    for line in _lines(root / "proc/self/mountinfo"):
        before, separator, after = line.partition(" - ")
        fields, kind_fields = before.split(), after.split()
        if not separator or len(fields) < 5 or len(kind_fields) < 3:
            continue
        kind, options = kind_fields[0], kind_fields[2].split(",")
        if kind == "cgroup2" or (kind == "cgroup" and "memory" in options):
            yield kind, PurePosixPath(fields[3]), PurePosixPath(fields[4])


def _folders(root: Path, path: PurePosixPath, mount_root: PurePosixPath, mount_point: PurePosixPath) -> Iterator[Path]:
    """Yields the group's folder and its parents, as far as they are mounted here."""
    # In a container the mounted group may be the process's own, whose path outside is meaningless here.
    inside = path.relative_to(mount_root) if path.is_relative_to(mount_root) else PurePosixPath(".")
    if ".." in inside.parts:
        inside = PurePosixPath(".")
    mounted = root / str(mount_point).lstrip("/")
    for folder in (inside, *inside.parents):
        yield mounted / folder


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text(errors="replace").splitlines()
    except OSError:
        return []


def _number(path: Path) -> int | None:
    try:
        text = path.read_text().strip()
        return int(text) if text.isdigit() else None
    except (OSError, ValueError):
        return None
