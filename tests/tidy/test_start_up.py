"""Imports at start: `rowlock --help` and the pytest plugin stay quick because they import nothing heavy."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

_HEAVY = ("grpc", "pyarrow", "pandas", "numpy", "google.protobuf", "prompt_toolkit", "rowlock_proto.v1")


def _loaded_after(code: str, names: tuple[str, ...]) -> list[str]:
    """Returns the modules that the program has loaded whose names begin with one of these."""
    ran = subprocess.run(
        [sys.executable, "-c", f"import sys\n{code}\nsys.stderr.write(chr(10).join(sys.modules))"],
        capture_output=True,
        text=True,
    )
    assert ran.returncode == 0, ran.stderr
    return [name for name in ran.stderr.splitlines() if name.startswith(names)]


@pytest.mark.parametrize(
    "code",
    [
        "import rowlock.pytest_plugin",
        "from rowlock.cli.main import main\nassert main(['--help']) == 0",
        "from rowlock.cli.main import main\nassert main(['scan', '--help']) == 0",
        "from rowlock.cli.main import main\nassert main(['put', 't']) == 2",
    ],
    ids=["pytest plugin", "rowlock --help", "rowlock scan --help", "a mistake in the command line"],
)
def test_nothing_heavy_is_imported(code: str) -> None:
    loaded = [name for name in _loaded_after(code, _HEAVY) if name.split(".")[0] != "rowlock"]
    assert not loaded, loaded


def test_a_command_imports_no_module_of_another_one() -> None:
    loaded = _loaded_after("from rowlock.cli.main import main\nassert main(['get', '--help']) == 0", ("rowlock.cli.",))
    assert "rowlock.cli.rows" in loaded
    others = ("tables", "scans", "checks", "compactions", "status", "shell", "transfer")
    assert not [name for name in loaded if name.split(".")[2] in others]


@pytest.mark.parametrize("command", ["rowlock", "rowlock-server"])
def test_an_interrupt_before_the_first_import_is_one_line(root: Path, command: str) -> None:
    target = tomllib.loads((root / "pyproject.toml").read_text())["project"]["scripts"][command]
    module, _, function = target.partition(":")
    code = (
        f"import os, signal, sys\nbefore = set(sys.modules)\nfrom {module} import {function}\n"
        f"assert set(sys.modules) - before == {{{module!r}, {module.partition('.')[0]!r}}}\n"
        "class Interrupted:\n"
        "    def find_spec(self, *ignored):\n"
        "        os.kill(os.getpid(), signal.SIGINT)\n"
        f"sys.meta_path.insert(0, Interrupted())\n{function}()\n"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (ran.returncode, ran.stderr) == (130, "interrupted\n")
