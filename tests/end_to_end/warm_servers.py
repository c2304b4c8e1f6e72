"""Starts rowlock-server in forks of one interpreter that has imported its modules: see warm_interpreter.

A server of a test lives for a moment, and the import of its modules takes most of that.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache

from tests.end_to_end.warm_interpreter import NUMBER


@cache
def _interpreter() -> tuple[socket.socket, subprocess.Popen[bytes]]:
    """Returns the interpreter of this process, which ends with it, and the socket to it."""
    ours, theirs = socket.socketpair()
    with theirs:
        command = [sys.executable, "-m", "tests.end_to_end.warm_interpreter"]
        return ours, subprocess.Popen(command, stdin=theirs.fileno())


class WarmServer:
    """A server's process, with the part of `subprocess.Popen` that tests use."""

    def __init__(self, words: Sequence[str], environment: Mapping[str, str], *, source: str = "") -> None:
        """source: of a program that runs in place of the command."""
        output, outputs_end = os.pipe()
        errors, errors_end = os.pipe()
        self._told, told = os.pipe()
        self.stdout, self.stderr = open(output), open(errors)  # noqa: SIM115  # until communicate
        self.returncode: int | None = None
        try:
            message = json.dumps([list(words), dict(environment), source]).encode()
            socket.send_fds(_interpreter()[0], [message], [outputs_end, errors_end, told])
        finally:
            for descriptor in (outputs_end, errors_end, told):
                os.close(descriptor)
        self.pid = self._number()

    def _number(self) -> int:
        data = os.read(self._told, NUMBER.size)
        assert len(data) == NUMBER.size, "the interpreter has ended"
        number: int = NUMBER.unpack(data)[0]
        return number

    def poll(self) -> int | None:
        """Returns the status of the process, or None if it runs."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.wait(0)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Blocks until the process has ended. Raises TimeoutExpired."""
        if self.returncode is None:
            if not select.select([self._told], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired("rowlock-server", timeout or 0)
            self.returncode = self._number()
            os.close(self._told)
        return self.returncode

    def send_signal(self, number: signal.Signals) -> None:
        """Sends a signal, unless the process has ended."""
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def communicate(self, timeout: float | None = None) -> tuple[str, str]:
        """Returns the rest of the output when the process has ended; nothing if it was returned before."""
        if self.stdout.closed:
            return "", ""
        with ThreadPoolExecutor(2) as threads:
            reading = [threads.submit(stream.read) for stream in (self.stdout, self.stderr)]
            try:
                self.wait(timeout)
            except subprocess.TimeoutExpired:
                self.kill()  # Else the threads would read on.
                raise
            output, errors = (each.result() for each in reading)
        self.stdout.close()
        self.stderr.close()
        return output, errors
