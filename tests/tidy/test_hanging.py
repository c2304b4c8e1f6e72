"""A test that hangs in its tear-down, after it failed, is ended as one that hangs before."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.waiting import WAIT_S

SOURCE = """
import threading
import pytest

@pytest.fixture
def hangs():
    yield
    threading.Event().wait()

def test_bad(hangs):
    assert False, "that is bad"
"""
SETTINGS = "[pytest]\nfaulthandler_timeout = 5\nfaulthandler_exit_on_timeout = true\n"


def test_a_test_that_hangs_after_it_failed_is_ended_and_shows_where(root: Path, tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(SOURCE)
    (tmp_path / "conftest.py").write_text("from tests.hanging import pytest_exception_interact\n")
    (tmp_path / "pytest.ini").write_text(SETTINGS)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(root), os.environ.get("PYTHONPATH", "")])}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:rowlock", "-p", "no:cacheprovider", str(tmp_path)]
    ran = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=WAIT_S)
    assert ran.returncode == 1, ran.stdout + ran.stderr
    assert "Timeout (0:00:05)!" in ran.stderr
    assert 'test_it.py", line 8 in hangs' in ran.stderr
