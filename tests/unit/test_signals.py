"""Signals reach the server in any thread, whatever the main thread does."""

from __future__ import annotations

import subprocess
import sys

# The main thread takes no signal and never runs a handler: it waits for a lock, as that of a server does.
_PROGRAM = """
import os, signal, sys, threading
from rowlock_regionserver.signals import Signals
from tests.waiting import WAIT_S

class Server:
    def __init__(self):
        self.stop_requested = threading.Event()
    def ask_to_stop(self):
        self.stop_requested.set()

signals, server = Signals(), Server()
threading.Thread(target=threading.Event().wait, daemon=True).start()
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
if sys.argv[1] == "attached":
    signals.attach(server)
os.kill(os.getpid(), signal.SIGTERM)
if sys.argv[1] == "attached":
    assert server.stop_requested.wait(WAIT_S)
else:
    while not signals._stop_asked_at:
        pass
    signals.attach(server)
    assert server.stop_requested.is_set()
print("stopped")
"""


def _run(how: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", _PROGRAM, how], capture_output=True, text=True, timeout=120, check=False
    )


def test_a_signal_that_comes_to_another_thread_while_the_main_one_waits_stops_the_server() -> None:
    run = _run("attached")
    assert run.stdout == "stopped\n", run.stderr


def test_a_signal_that_comes_before_there_is_a_server_stops_it_once_there_is() -> None:
    run = _run("later")
    assert run.stdout == "stopped\n", run.stderr
