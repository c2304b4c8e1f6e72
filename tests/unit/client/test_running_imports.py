"""A fork waits for imports of other threads, and not for those of its own thread or of other packages."""

from __future__ import annotations

import importlib
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from rowlock._transport import running_imports
from rowlock._transport.running_imports import wait_for_imports

from tests.waiting import WAIT_S

SLOW = """
import sys
sys.is_importing.set()
assert sys.may_end.wait(60)
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The name of a module whose import takes until sys.may_end is set."""
    (tmp_path / "slow_module.py").write_text(SLOW)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "is_importing", threading.Event(), raising=False)
    monkeypatch.setattr(sys, "may_end", threading.Event(), raising=False)
    yield "slow_module"
    sys.modules.pop("slow_module", None)


def test_a_fork_waits_for_an_import_of_another_thread(module: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running_imports, "_PACKAGES", frozenset({module}))
    is_importing, may_end = sys.is_importing, sys.may_end  # type: ignore[attr-defined]
    with ThreadPoolExecutor(2) as threads:
        importing = threads.submit(importlib.import_module, module)
        assert is_importing.wait(WAIT_S)
        wait_for_imports(0.01)
        assert not importing.done(), "the bound of the wait"
        waiting = threads.submit(wait_for_imports, WAIT_S)
        with pytest.raises(TimeoutError):
            waiting.result(0.05)
        may_end.set()
        waiting.result(WAIT_S)
        importing.result(WAIT_S)
    wait_for_imports(0)


def test_a_fork_does_not_wait_for_other_packages_or_its_own_thread(module: str, tmp_path: Path) -> None:
    with ThreadPoolExecutor(1) as threads:
        importing = threads.submit(importlib.import_module, module)
        assert sys.is_importing.wait(WAIT_S)  # type: ignore[attr-defined]
        assert not running_imports._are_running()
        sys.may_end.set()  # type: ignore[attr-defined]
        importing.result(WAIT_S)
    (tmp_path / "own_module.py").write_text(
        "from rowlock._transport import running_imports\nfound = running_imports._are_running()\n"
    )
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(running_imports, "_PACKAGES", frozenset({"own_module"}))
        assert not importlib.import_module("own_module").found
