"""The suite gives the same results in every environment, and draws all random values from one seed, which it prints."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import core, settings

from tests.seeds import RUN_SEED, drawn_seed, generator_of


def test_signals_have_their_usual_handlers() -> None:
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert signal.getsignal(signal.SIGHUP) is signal.SIG_DFL
    ended = "import signal, sys; print(signal.getsignal(signal.SIGINT) is signal.default_int_handler)"
    assert subprocess.run([sys.executable, "-c", ended], capture_output=True, text=True).stdout == "True\n"


def test_no_setting_of_the_terminal_or_for_a_server_remains() -> None:
    assert not {"ROWLOCK_SERVER", "COLUMNS", "FORCE_COLOR", "PYTHONUNBUFFERED"} & os.environ.keys()
    assert os.umask(0o022) == 0o022


def test_examples_are_drawn_from_the_seed_of_the_run_and_may_take_their_time() -> None:
    assert settings.default is not None
    assert not settings.default.derandomize
    assert settings.default.print_blob
    assert settings.default.deadline is None
    assert core.global_force_seed == RUN_SEED == drawn_seed()
    assert generator_of(1).random() == generator_of(1).random() != generator_of(2).random()


RANDOM = """
from hypothesis import given, strategies as st
from tests.seeds import drawn_seed
found = []
@given(st.integers())
def test_random(number):
    found.append(number)
def test_failing():
    assert not drawn_seed(), found
"""


def test_each_run_prints_a_seed_of_its_own_which_repeats_it(root: Path, tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text("from tests.conftest import *\n")
    (tmp_path / "test_it.py").write_text(RANDOM)
    environment = {name: value for name, value in os.environ.items() if name != "ROWLOCK_SEED"}
    environment["PYTHONPATH"] = os.pathsep.join([str(root), *sys.path])

    def run(**variables: str) -> tuple[str, str]:
        """Returns the printed seed and the examples."""
        command = [
            sys.executable,
            "-m",
            "pytest",
            "-qq",
            "-vv",
            "-p",
            "no:cacheprovider",
            "-p",
            "no:rowlock",
            str(tmp_path),
        ]
        ran = subprocess.run(
            command, cwd=tmp_path, env={**environment, **variables}, capture_output=True, text=True, timeout=300
        )
        assert ran.returncode == 1, ran.stdout + ran.stderr
        (seed,) = set(re.findall(r"again: ROWLOCK_SEED=(\d+)", ran.stdout))
        (examples,) = re.findall(r"AssertionError: (\[.*\])", ran.stdout)[:1]
        return seed, examples

    seed, examples = run()
    assert run(ROWLOCK_SEED=seed) == (seed, examples)
    other = run()
    assert other[0] != seed
    assert other[1] != examples


@pytest.mark.parametrize("standard_input", ["</dev/null", "<&-"])
def test_it_holds_in_the_background_of_a_shell_with_other_settings(root: Path, standard_input: str) -> None:
    here = Path(__file__).relative_to(root)
    selected = "-k 'signals or terminal or examples'"
    script = f'trap "" INT HUP QUIT; umask 077; exec "$0" -m pytest -q {here} {selected} {standard_input}'
    strange = {"ROWLOCK_SERVER": "nobody:1", "COLUMNS": "20", "FORCE_COLOR": "1", "PYTHONUNBUFFERED": "1"}
    bare = {name: os.environ[name] for name in ("PATH", "TMPDIR", "LD_LIBRARY_PATH") if name in os.environ}
    for environment in ({**os.environ, **strange}, bare):
        command = ["sh", "-c", script, sys.executable]
        ran = subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True, timeout=300)
        assert ran.returncode == 0, ran.stdout + ran.stderr
        assert "3 passed" in ran.stdout
