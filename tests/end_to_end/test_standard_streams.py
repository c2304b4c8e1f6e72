"""The server's commands with standard streams that are closed, broken or full, and with paths that are not UTF-8."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from rowlock_regionserver.clock import ManualClock
from rowlock_regionserver.data_folder import DataFolder
from rowlock_regionserver.files import Files
from rowlock_regionserver.host.leftovers import Unnamed
from rowlock_regionserver.host.set_aside import set_aside

SERVER = (sys.executable, "-m", "rowlock_regionserver")
NO_TEXT = os.fsdecode(b"\xff")
# As in a locale that is not C or POSIX, where Python refuses what is not UTF-8.
STRICT = {**os.environ, "PYTHONIOENCODING": "utf-8:strict"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A data folder, whose path is not UTF-8, with something that was set aside."""
    path = tmp_path / NO_TEXT
    with DataFolder.open(path, Files()):
        pass
    for name in ("catalog", "log", "regions", "regions/5"):
        (path / name).mkdir()
    set_aside(path, Files(), ManualClock(), Unnamed(path / "regions" / "5", "why", is_leftover=False), 5)
    return path


def ran(*words: str | Path, shell: str = 'exec "$@"') -> subprocess.CompletedProcess[str]:
    """Runs the command by a shell, which sees to its streams."""
    command: Sequence[str | Path] = ("/bin/sh", "-c", shell, "sh", *SERVER, *words)
    return subprocess.run(command, capture_output=True, text=True, env=STRICT, timeout=120)


def test_paths_that_are_no_text_are_shown(folder: Path, tmp_path: Path) -> None:
    verified = ran("verify", folder)
    assert (verified.returncode, verified.stderr) == (0, "")
    assert rf"set aside: {tmp_path}/\udcff/set-aside/region-5" in verified.stdout
    salvaged = ran("salvage", folder, tmp_path / f"out{NO_TEXT}")
    assert (salvaged.returncode, salvaged.stderr) == (0, "")
    refused = ran("--data", f"{folder}/format")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert refused.stderr.startswith(rf"rowlock-server: can't start: {tmp_path}/\udcff/format is not a folder")
    assert refused.stderr.count("\n") == 1


def test_a_broken_pipe_and_a_full_disk_are_no_damage(folder: Path) -> None:
    """A traceback had exit code 1, which says that the folder is damaged."""
    piped = ran("verify", folder, shell='"$@" | true; exec 3>&1; { "$@"; echo $? >&2; } | true')
    assert piped.stderr == "141\n"
    full = ran("verify", folder, shell='exec "$@" > /dev/full')
    assert full.returncode == 2
    assert full.stderr == "rowlock-server: verify: standard output can't be written: No space left on device\n"


def test_closed_streams_are_not_the_descriptors_of_other_files(folder: Path) -> None:
    """What is said on standard error went into the first socket or file that was opened."""
    assert ran("verify", folder, shell='exec "$@" >&-').returncode == 0
    program = (
        "import os, sys; from rowlock_proto.standard_streams import prepare_streams; prepare_streams();"
        "sys.exit([os.readlink(f'/proc/self/fd/{number}') for number in range(3)] != [os.devnull] * 3)"
    )
    closed = subprocess.run(["/bin/sh", "-c", 'exec "$@" <&- >&- 2>&-', "sh", sys.executable, "-c", program])
    assert closed.returncode == 0
