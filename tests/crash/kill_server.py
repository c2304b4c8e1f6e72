"""A real rowlock-server in a process of its own, which is started and killed again and again."""

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
    """The server's process. Always on the same port once it had one."""

    def __init__(self, folder: Path) -> None:
        self.address = "127.0.0.1:0"
        self._folder = folder
        self._errors = folder.with_name("server.log")
        self._process: subprocess.Popen[str] | None = None

    def launch(self) -> None:
        """Starts it, and does not wait."""
        command = [sys.executable, "-m", "rowlock_regionserver", "--data", str(self._folder), "--listen", self.address]
        command += [word for name, value in CONFIG.items() for word in ("--config", f"{name}={value}")]
        with self._errors.open("a") as errors:
            self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True)

    def wait_until_ready(self) -> None:
        """Until it serves; ChildFailedError with its words when it does not."""
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
        """SIGKILL. ChildFailedError when it had ended before, by itself."""
        self._end(signal.SIGKILL, -signal.SIGKILL)

    def stop(self) -> None:
        """An orderly stop."""
        self._end(signal.SIGTERM, 0)

    def end(self) -> None:
        """Ends it, however it is; for when the campaign is over."""
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
