"""The environment that every test may rely on, however the suite was started."""

from __future__ import annotations

import os
import signal

import pytest
from hypothesis import HealthCheck, core, settings

from tests.flakey import pytest_runtest_protocol as pytest_runtest_protocol
from tests.hanging import pytest_exception_interact as pytest_exception_interact
from tests.seeds import REPLAY, RUN_SEED

# Each run draws new examples from its seed, even if CI is set, for which hypothesis has a profile of its own.
# No deadline: how long an example takes depends on the machine.
settings.register_profile(
    "drawn",
    deadline=None,
    database=None,
    derandomize=False,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("drawn")
core.global_force_seed = RUN_SEED  # type: ignore[assignment]  # mypy takes None, its default, for its type

# Variables that a user's shell or a build machine may set, and that would change the output of the commands under test.
_REMOVED = (
    "ROWLOCK_SERVER",
    "COLUMNS",
    "LINES",
    "NO_COLOR",
    "FORCE_COLOR",
    "PY_COLORS",
    "CLICOLOR_FORCE",
    "TTY_COMPATIBLE",
    "TTY_INTERACTIVE",
    "GITHUB_ACTIONS",
    "PYTHONWARNINGS",
    "PYTHONUNBUFFERED",
    "PYTHONDEVMODE",
    "PYTHONOPTIMIZE",
    "PYTHONSAFEPATH",
    "GRPC_VERBOSITY",
    "GRPC_TRACE",
)


def pytest_configure(config: pytest.Config) -> None:
    """Restores signals: a process in the background of a shell or under nohup ignores some, and so do its children."""
    if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    for number in (signal.SIGHUP, signal.SIGTERM, signal.SIGQUIT):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT, signal.SIGHUP, signal.SIGTERM})
    for name in _REMOVED:
        os.environ.pop(name, None)
    # Tests about permissions set those of their folders themselves.
    os.umask(0o022)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Prints how to repeat the random tests of this run."""
    terminalreporter.write_line(REPLAY)
