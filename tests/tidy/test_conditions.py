"""The suite means the same whoever starts it, and plays the same examples each time."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import settings

from tests.seeds import drawn_seed


def test_signals_do_what_they_usually_do() -> None:
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert signal.getsignal(signal.SIGHUP) is signal.SIG_DFL
    ended = "import signal, sys; print(signal.getsignal(signal.SIGINT) is signal.default_int_handler)"
    assert subprocess.run([sys.executable, "-c", ended], capture_output=True, text=True).stdout == "True\n"


def test_nothing_of_the_callers_terminal_and_server_is_left() -> None:
    assert not {"ROWLOCK_SERVER", "COLUMNS", "FORCE_COLOR", "PYTHONUNBUFFERED"} & os.environ.keys()
    assert os.umask(0o022) == 0o022


def test_examples_are_the_same_each_time_and_may_take_their_time(monkeypatch: pytest.MonkeyPatch) -> None:
    assert settings.default is not None
    assert settings.default.derandomize
    assert settings.default.deadline is None
    monkeypatch.delenv("ROWLOCK_SEED", raising=False)
    assert drawn_seed() == drawn_seed()
    monkeypatch.setenv("ROWLOCK_SEED", "17")
    assert drawn_seed() == 17
    monkeypatch.setenv("ROWLOCK_SEED", "random")
    assert len({drawn_seed() for _ in range(5)}) > 1


@pytest.mark.parametrize("standard_input", ["</dev/null", "<&-"])
def test_it_holds_in_the_background_of_a_shell_with_settings_of_its_own(root: Path, standard_input: str) -> None:
    here = Path(__file__).relative_to(root)
    others = "-k 'signals or terminal or examples'"
    script = f'trap "" INT HUP QUIT; umask 077; exec "$0" -m pytest -q {here} {others} {standard_input}'
    strange = {"ROWLOCK_SERVER": "nobody:1", "COLUMNS": "20", "FORCE_COLOR": "1", "PYTHONUNBUFFERED": "1"}
    bare = {name: os.environ[name] for name in ("PATH", "TMPDIR", "LD_LIBRARY_PATH") if name in os.environ}
    for environment in ({**os.environ, **strange}, bare):
        command = ["sh", "-c", script, sys.executable]
        ran = subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True, timeout=300)
        assert ran.returncode == 0, ran.stdout + ran.stderr
        assert "3 passed" in ran.stdout
