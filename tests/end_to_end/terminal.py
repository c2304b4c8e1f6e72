"""A process at a pseudo-terminal, as a person uses it."""

from __future__ import annotations

import os
import pty
import select
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

PATIENCE_SECONDS = 20.0


class Terminal:
    """A pseudo-terminal with a process."""

    def __init__(self, words: Sequence[str | Path], environment: Mapping[str, str]) -> None:
        self._master, slave = pty.openpty()
        self._process = subprocess.Popen(
            words,
            env={**environment, "TERM": "xterm"},
            stdin=slave,
            stdout=slave,
            stderr=slave,
            start_new_session=True,
        )
        os.close(slave)
        self._shown = ""

    def type(self, text: str) -> None:
        os.write(self._master, text.encode())

    def wait_for(self, text: str) -> str:
        """Reads until `text` is shown. Returns all output since the last call."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while text not in self._shown:
            ready, _, _ = select.select([self._master], [], [], max(0.0, deadline - time.monotonic()))
            assert ready, f"{text!r} did not come: {self._shown!r}"
            try:
                read = os.read(self._master, 65536).decode()
            except OSError as error:
                raise AssertionError(f"{text!r} did not come before the end: {self._shown!r}") from error
            # A terminal answers the request for its cursor position.
            if "\x1b[6n" in read:
                os.write(self._master, b"\x1b[1;1R")
            self._shown += read
        before, _, self._shown = self._shown.partition(text)
        return before

    def exit_code(self) -> int:
        return self._process.wait(PATIENCE_SECONDS)

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._master)
