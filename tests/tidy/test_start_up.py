"""Imports at start: `rowlock --help` and the pytest plugin stay quick because they import nothing heavy."""

from __future__ import annotations

import subprocess
import sys

import pytest

_HEAVY = ("grpc", "pyarrow", "pandas", "numpy", "google.protobuf", "prompt_toolkit", "rowlock_proto")


def _loaded_after(code: str) -> list[str]:
    ran = subprocess.run(
        [sys.executable, "-c", f"import sys\n{code}\nsys.stderr.write(chr(10).join(sys.modules))"],
        capture_output=True,
        text=True,
    )
    assert ran.returncode == 0, ran.stderr
    return [name for name in ran.stderr.splitlines() if name.startswith(_HEAVY)]


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
    loaded = [name for name in _loaded_after(code) if name.split(".")[0] != "rowlock"]
    assert not loaded, loaded
