"""The limit of a test that hangs also holds after it failed, for its tear-down.

pytest gives up its limit, `faulthandler_timeout`, when a test fails, so that it does not end a debugger
that shows the failure.
"""

from __future__ import annotations

import faulthandler

import pytest
from _pytest.faulthandler import fault_handler_stderr_fd_key


@pytest.hookimpl(trylast=True)
def pytest_exception_interact(node: pytest.Item | pytest.Collector) -> None:
    """Starts the limit again, after pytest's own hook and a debugger. pytest ends it with the test."""
    limit_s = float(node.config.getini("faulthandler_timeout"))
    if limit_s and isinstance(node, pytest.Item):
        exits = bool(node.config.getini("faulthandler_exit_on_timeout"))
        faulthandler.dump_traceback_later(limit_s, file=node.config.stash[fault_handler_stderr_fd_key], exit=exits)
