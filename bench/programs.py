"""Servers of other systems: programs that are started for a run and ended after it, on free ports of this machine.

processes.py does the same for rowlock's server and the baselines, which print their address.
"""

from __future__ import annotations

import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

_READY_SECONDS_MAX = 180.0
_LOOK_SECONDS = 0.1
_STOP_SECONDS_MAX = 60.0


class ProgramFailedError(Exception):
    """A program ended, or was not ready in time; the message has the end of its log."""


@contextmanager
def running_program(
    command: Sequence[str], log: Path, is_ready: Callable[[], bool], user: str | None = None
) -> Iterator[int]:
    """Runs a program from when it is ready until exit, and yields its process id.

    `user`: who runs it; None: the user of this process. Raises ProgramFailedError if it does not become ready.
    """
    with open(log, "wb") as output:
        # In a session of its own, so that Ctrl-C at the terminal reaches only the bench, which ends it.
        process = subprocess.Popen(
            command, stdout=output, stderr=output, stdin=subprocess.DEVNULL, start_new_session=True, user=user
        )
    try:
        deadline = time.monotonic() + _READY_SECONDS_MAX
        while not is_ready():
            has_ended = process.poll() is not None
            if has_ended or time.monotonic() > deadline:
                state = "ended" if has_ended else f"was not ready in {_READY_SECONDS_MAX:.0f} s"
                end = log.read_text(errors="replace")[-3000:]
                raise ProgramFailedError(f"{command[0]} {state}; the end of its log:\n{end}")
            time.sleep(_LOOK_SECONDS)
        yield process.pid
    finally:
        process.terminate()
        try:
            process.wait(_STOP_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def listens(port: int) -> bool:
    """Whether a server listens at this port of this machine."""
    with socket.socket() as connection:
        return connection.connect_ex(("127.0.0.1", port)) == 0


def free_ports(count: int) -> list[int]:
    """Returns ports that are free now, all different."""
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]
