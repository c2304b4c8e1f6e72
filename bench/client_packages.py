"""Python clients of other systems, installed for the bench alone from requirements-bench.lock.

They go to a folder of their own under build/, which the bench's worker processes have on their PYTHONPATH. The
project's environment stays as `make setup` made it.
"""

from __future__ import annotations

import hashlib
import os
import platform
import subprocess
import sys
from pathlib import Path

_ROOT = Path(__file__).resolve().parent.parent
_LOCK = _ROOT / "requirements-bench.lock"
_CLIENTS = _ROOT / "build" / "bench-clients"


class SetupError(Exception):
    """Something that a comparison needs is not on this machine; the message says what to do."""


def folder_of(lock: bytes, python_version: str) -> str:
    """Returns the name of the folder for the packages of a lock file, by Python version."""
    return f"{python_version}-{hashlib.sha256(lock).hexdigest()[:12]}"


def installed_clients() -> Path:
    """Returns the folder with the clients, and installs them first if they are not there. Raises SetupError."""
    folder = _CLIENTS / folder_of(_LOCK.read_bytes(), platform.python_version())
    if folder.is_dir():
        return folder
    unfinished = folder.with_name(f"{folder.name}.{os.getpid()}")
    command = [str(Path(sys.executable).parent / "uv"), "pip", "install", "-q", "--python", sys.executable]
    command += ["--target", str(unfinished), "--require-hashes", "-r", str(_LOCK)]
    if subprocess.run(command).returncode != 0:
        raise SetupError(f"the clients of {_LOCK.name} could not be installed, see above: {' '.join(command)}")
    # Renamed at the end, so that an interrupted installation is not taken for a finished one.
    unfinished.rename(folder)
    return folder


def version_of(package: str) -> str:
    """Returns the version of a client in the lock file. Raises SetupError if it is not there."""
    for line in _LOCK.read_text().splitlines():
        name, _, rest = line.partition("==")
        if name == package:
            return rest.split()[0]
    raise SetupError(f"{_LOCK.name} has no {package}; `make lock` writes it")


def environment() -> dict[str, str]:
    """Returns the environment for a process that imports the clients."""
    paths = [str(installed_clients()), str(_ROOT), os.environ.get("PYTHONPATH", "")]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}
