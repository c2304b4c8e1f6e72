"""The files that the tidy tests check: those that are committed, or are about to be."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
# Ignored where git does not say what to ignore: in an unpacked source archive.
_IGNORED = {
    ".git",
    ".venv",
    "dist",
    "build",
    "__pycache__",
    ".mypy_cache",
    ".ruff_cache",
    ".pytest_cache",
    ".hypothesis",
}


@pytest.fixture(scope="session")
def root() -> Path:
    """The project's folder."""
    return ROOT


@pytest.fixture(scope="session")
def committed_files(root: Path) -> Sequence[Path]:
    """Every file of the project that git does not ignore, sorted."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=root,
        capture_output=True,
        text=True,
    )
    if listed.returncode == 0:
        found = [root / name for name in listed.stdout.split("\0") if name]
    else:
        found = [path for path in root.rglob("*") if not _IGNORED.intersection(path.relative_to(root).parts)]
    # A file that was removed and not yet committed is still listed.
    return sorted(path for path in found if path.is_file())


@pytest.fixture(scope="session")
def python_files(committed_files: Sequence[Path]) -> Sequence[Path]:
    """The Python files that people wrote: all except the protocol's generated code."""
    return [path for path in committed_files if path.suffix == ".py" and "_pb2" not in path.name]


@pytest.fixture(scope="session")
def wheel(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of these sources, built without a network: the build backend is in the development group."""
    folder = tmp_path_factory.mktemp("wheel")
    built = subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)],
        cwd=root,
        capture_output=True,
        text=True,
    )
    assert built.returncode == 0, built.stderr
    [path] = folder.glob("*.whl")
    return path
