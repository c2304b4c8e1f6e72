"""A real rowlock-server process, which is started and killed repeatedly."""

from __future__ import annotations

import re
import select
import signal
import subprocess
import sys
from pathlib import Path

from tests.crash.children import ChildFailedError

START_SECONDS_MAX = 180.0
# So small that it flushes and rolls its log all the time.
CONFIG = {
    "memstore_flush_bytes": "512KiB",
    "log_segment_bytes": "256KiB",
    "log_segment_count_max": "4",
    "bulk_file_bytes_min": "4KiB",
    "log_idle_marker_ms": "20",
    "disk_free_bytes_min": "1MiB",
}


class Server:
    """The server's process, always on the port of its first start."""

    def __init__(self, folder: Path) -> None:
        self.address = "127.0.0.1:0"
        self._folder = folder
        self._errors = folder.with_name("server.log")
        self._process: subprocess.Popen[str] | None = None

    def launch(self) -> None:
        """Starts the server without waiting for it."""
        command = [sys.executable, "-m", "rowlock_regionserver", "--data", str(self._folder), "--listen", self.address]
        command += [word for name, value in CONFIG.items() for word in ("--config", f"{name}={value}")]
        with self._errors.open("a") as errors:
            self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True)

    def wait_until_ready(self) -> None:
        """Waits until the server is ready; raises ChildFailedError with its output when it fails to start."""
        assert self._process is not None
        output = self._process.stdout
        assert output is not None
        if not select.select([output], [], [], START_SECONDS_MAX)[0]:
            raise ChildFailedError(f"the server said nothing for {START_SECONDS_MAX:.0f} s")
        found = re.search(r"ready on (\S+:\d+)", output.readline())
        if found is None:
            raise ChildFailedError(f"the server did not start: {self._errors.read_text()[-2000:]}")
        self.address = found[1]

    def kill(self) -> None:
        """Sends SIGKILL. Raises ChildFailedError if the server had already ended by itself."""
        self._end(signal.SIGKILL, -signal.SIGKILL)

    def stop(self) -> None:
        """Stops the server in an orderly way."""
        self._end(signal.SIGTERM, 0)

    def end(self) -> None:
        """Ends the server in any state, at the end of the campaign."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def _end(self, number: signal.Signals, expected: int) -> None:
        assert self._process is not None
        self._process.send_signal(number)
        code = self._process.wait(START_SECONDS_MAX)
        assert self._process.stdout is not None
        self._process.stdout.close()
        if code != expected:
            raise ChildFailedError(f"the server ended with {code}: {self._errors.read_text()[-2000:]}")
