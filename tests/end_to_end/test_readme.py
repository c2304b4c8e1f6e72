"""The README's tour works when it is pasted."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.consistency.live_server import free_address
from tests.pages import ADDRESS, block_of


def block(language: str, holding: str) -> str:
    return block_of("README.md", holding, language).text


@pytest.fixture
def environment() -> dict[str, str]:
    """Puts the commands of this environment first, as in an activated one."""
    return {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}


def test_the_first_example_works_on_a_folder_of_its_own(tmp_path: Path, environment: dict[str, str]) -> None:
    script = block("python", "rowlock.open")
    run = subprocess.run(
        [sys.executable, "-c", script + "\n    assert flights.counter('carrier|UA', 'stats:flights') == 1\n"],
        cwd=tmp_path,
        env=environment,
        timeout=600,
        check=False,
    )
    assert run.returncode == 0


def test_the_tour_of_the_command_line_and_of_python_works(tmp_path: Path, environment: dict[str, str]) -> None:
    address = free_address()
    commands = block("bash", "rowlock create") + block("bash", "kill -9")
    python = block("python", "flights.batch()")
    # After a failure too, no server may keep running: it would keep our end of its output open.
    script = (
        "set -em\ntrap 'kill -9 $(jobs -p) 2>/dev/null || true' EXIT\n"
        + commands
        + f"python - <<'END'\n{python}\nEND\n"
        + block("bash", "rm -r")
    )
    script = script.replace(ADDRESS, address)
    # Nobody types the next command before the server is dead.
    script = script.replace("kill -9 $server\n", "kill -9 $server; wait $server || true\n")
    assert "|| true\nrowlock-server" in script
    run = subprocess.run(
        ["bash", "-c", script], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=600, check=False
    )
    assert run.returncode == 0, run.stdout + run.stderr
    assert "not applied: the value has changed" in run.stdout
    assert run.stdout.count("rowlock-server ready") == 2
    after_the_plug = run.stdout.rsplit("rowlock-server ready", 1)[1]
    assert "info:delay" in after_the_plug
    # The clean-up removes the folder only if the server has stopped in order.
    assert list(tmp_path.iterdir()) == []
