"""The marker `flakey("reason")`: a test that depends on the machine's speed runs again if it fails.

Both results are printed. A test that fails twice fails. Never in tests/consistency, crash, mutants and property: there,
one failure in twenty runs is a bug.
"""

from __future__ import annotations

import pytest
from _pytest.runner import runtestprotocol


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
    """Runs a marked test, and runs it again if it failed. None: pytest runs it like any other."""
    marker = item.get_closest_marker("flakey")
    if marker is None:
        return None
    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    reports = runtestprotocol(item, log=False, nextitem=nextitem)
    failures = [report for report in reports if report.failed]
    if failures:
        reports = runtestprotocol(item, log=False, nextitem=nextitem)
        second = "failed" if any(report.failed for report in reports) else "passed"
        terminal = item.config.get_terminal_writer()
        terminal.line(f"\nflakey ({marker.args[0]}): {item.nodeid} failed, then {second}; the first time:")
        for report in failures:
            terminal.line(report.longreprtext)
    for report in reports:
        item.ihook.pytest_runtest_logreport(report=report)
    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    return True
