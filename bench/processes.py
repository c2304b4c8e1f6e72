"""Server processes: starts them on a free port, kills, restarts and stops them.

A server process prints its address on the first line of standard output. Its standard error goes to a log file beside
its folder, which is shown if it does not become ready.
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
    """A server did not become ready or did not stop in time; the message has the end of its log."""


class ServerProcess:
    """A running server, as a context manager whose exit kills the process. Used by one thread.

    It was ready after `ready_seconds`, and had used `ready_cpu_seconds`, which depend less on other load.
    """

    def __init__(self, command: Sequence[str], log: Path, ready_seconds_max: float = 60.0) -> None:
        """Starts the server and blocks until it is ready. Raises ServerFailedError with the end of its log."""
        self.log = log
        started = time.perf_counter()
        with open(log, "ab") as errors:
            # In a session of its own, so that Ctrl-C at the terminal reaches only the caller, which stops the server.
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
        """Returns the peak resident memory of the process in MiB. Linux only."""
        lines = Path(f"/proc/{self.pid}/status").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:")) / 1024

    def kill(self) -> None:
        """Sends SIGKILL, so that the process loses its memory, and waits for its end."""
        self._process.kill()
        self._process.wait()
        self._close_output()

    def stop(self, seconds_max: float = 60.0) -> None:
        """Sends SIGTERM, for an orderly stop, and waits for the end. Raises ServerFailedError after `seconds_max`."""
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
        printed = b""
        while b"\n" not in printed:
            seconds_left = deadline - time.perf_counter()
            if seconds_left <= 0 or not select.select([output], [], [], seconds_left)[0]:
                raise ServerFailedError(f"the server printed no address in time\n{self._log_end()}")
            chunk = os.read(output, 4096)
            if not chunk:
                raise ServerFailedError(f"the server ended before it was ready\n{self._log_end()}")
            printed += chunk
        found = _ADDRESS.search(printed)
        if found is None:
            raise ServerFailedError(f"the server's first line has no address: {printed!r}")
        return found.group(1).decode()

    def _log_end(self) -> str:
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
    """Makes SIGTERM end this program by an exception, like Ctrl-C, so that the servers that it started are stopped."""
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))


def start_rowlock(folder: Path, *words: str, listen: str = "127.0.0.1:0") -> ServerProcess:
    """Starts a region server on the data folder by its command; `words` are additional arguments."""
    command = [str(Path(sys.executable).parent / "rowlock-server"), "--data", str(folder), "--listen", listen, *words]
    return ServerProcess(command, folder.with_name(folder.name + ".log"))


def start_slow_rowlock(folder: Path, sync_delay_ms: int, *words: str) -> ServerProcess:
    """Starts a region server whose syncs each take `sync_delay_ms` longer."""
    arguments = [str(sync_delay_ms), "--data", str(folder), "--listen", "127.0.0.1:0", *words]
    return start_module("bench.targets.slow_disk", arguments, folder.with_name(folder.name + ".log"))


def start_module(module: str, arguments: Sequence[str], log: Path) -> ServerProcess:
    """Starts a server that is a module of this project, `python -m module arguments`."""
    return ServerProcess([sys.executable, "-m", module, *arguments], log)
