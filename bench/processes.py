"""Servers as real processes: started on a free port, killed, started again, ended.

A server process says on its first line of standard output where it listens; what it says besides goes to a file in
its folder, which is shown when it does not get ready.
"""

from __future__ import annotations

import os
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType

import psutil

_ADDRESS = re.compile(rb"(\d+\.\d+\.\d+\.\d+:\d+)")


class ServerFailedError(Exception):
    """A server ended, or said nothing, before it was ready."""


class ServerProcess:
    """A server that is ready, as a context manager; leaving it ends the process. Used by one thread.

    `ready_seconds` went by until it was, and it computed for `ready_cpu_seconds`, which a busy machine leaves alone.
    """

    def __init__(self, command: Sequence[str], log: Path, ready_seconds_max: float = 60.0) -> None:
        """Starts it and blocks until it is ready. Raises ServerFailedError with the end of what it said."""
        self.log = log
        started = time.perf_counter()
        with open(log, "ab") as errors:
            # A session of its own: Ctrl-C at the terminal ends the caller, which then ends the server in order.
            self._process = subprocess.Popen(
                command, stdout=subprocess.PIPE, stderr=errors, stdin=subprocess.DEVNULL, start_new_session=True
            )
        try:
            self.address = self._wait_until_ready(started + ready_seconds_max)
        except BaseException:
            self.kill()
            raise
        self.ready_seconds = time.perf_counter() - started
        times = psutil.Process(self._process.pid).cpu_times()
        self.ready_cpu_seconds: float = times.user + times.system

    @property
    def pid(self) -> int:
        return self._process.pid

    def peak_resident_mib(self) -> float:
        """The most MiB that the process had resident since it began. Linux tells it."""
        lines = Path(f"/proc/{self.pid}/status").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:")) / 1024

    def kill(self) -> None:
        """SIGKILL: what the process had in memory is lost. Returns when it is gone."""
        self._process.kill()
        self._process.wait()
        self._close_output()

    def stop(self, seconds_max: float = 60.0) -> None:
        """SIGTERM, the orderly stop. Returns when it has ended; raises ServerFailedError when it does not."""
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(seconds_max)
        except subprocess.TimeoutExpired:
            self.kill()
            raise ServerFailedError(f"the server did not stop within {seconds_max} s of SIGTERM") from None
        self._close_output()

    def _wait_until_ready(self, deadline: float) -> str:
        assert self._process.stdout is not None, "the process was started without a pipe"
        output = self._process.stdout.fileno()
        said = b""
        while b"\n" not in said:
            left = deadline - time.perf_counter()
            if left <= 0 or not select.select([output], [], [], left)[0]:
                raise ServerFailedError(f"the server said nothing in time\n{self._last_words()}")
            chunk = os.read(output, 4096)
            if not chunk:
                raise ServerFailedError(f"the server ended before it was ready\n{self._last_words()}")
            said += chunk
        found = _ADDRESS.search(said)
        if found is None:
            raise ServerFailedError(f"the server's first line names no address: {said!r}")
        return found.group(1).decode()

    def _last_words(self) -> str:
        return self.log.read_text(errors="replace")[-4000:]

    def _close_output(self) -> None:
        if self._process.stdout is not None:
            self._process.stdout.close()

    def __enter__(self) -> ServerProcess:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process.poll() is None:
            self.kill()


def exit_on_sigterm() -> None:
    """SIGTERM ends this program like Ctrl-C does, by an exception: the servers that it started end with it."""
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))


def start_rowlock(folder: Path, *words: str, listen: str = "127.0.0.1:0") -> ServerProcess:
    """A region server, as a user starts it, on that data folder; `words` are further ones of the command."""
    command = [str(Path(sys.executable).parent / "rowlock-server"), "--data", str(folder), "--listen", listen, *words]
    return ServerProcess(command, folder.with_name(folder.name + ".log"))


def start_slow_rowlock(folder: Path, sync_delay_ms: int, *words: str) -> ServerProcess:
    """The same on a disk that takes so much longer for each sync."""
    arguments = [str(sync_delay_ms), "--data", str(folder), "--listen", "127.0.0.1:0", *words]
    return start_module("bench.targets.slow_disk", arguments, folder.with_name(folder.name + ".log"))


def start_module(module: str, arguments: Sequence[str], log: Path) -> ServerProcess:
    """A server that is a module of this project, `python -m module arguments`."""
    return ServerProcess([sys.executable, "-m", module, *arguments], log)
