"""A process that runs during the job and is controlled by commands, one a line; it answers each with a line of JSON.

The process itself runs `serve`. An exception there is sent as an answer, and raised as SideProcessError on this side.
"""

from __future__ import annotations

import json
import subprocess
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import TypeAlias, cast

# The process may have to clean up, and HBase takes seconds to remove a table.
_END_SECONDS_MAX = 60.0

Answer: TypeAlias = "dict[str, object]"


class SideProcessError(Exception):
    """A command of a side process failed; the message is that of the process."""


class SideProcess:
    """A side process, as a context manager whose exit ends it. Used by one thread."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str] | None = None) -> None:
        """Starts the command; `environment` replaces this process's."""
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        )
        assert self._process.stdin is not None, "the process was started without a pipe to it"
        assert self._process.stdout is not None, "the process was started without a pipe from it"
        self._commands = self._process.stdin
        self._answers = self._process.stdout

    @property
    def pid(self) -> int:
        return self._process.pid

    def call(self, command: str) -> Answer:
        """Sends a command and blocks for the answer; raises SideProcessError if it failed or the process ended."""
        self.send(command)
        return self.receive(command)

    def send(self, command: str) -> None:
        """Sends a command without waiting, so that several processes can work at once; each needs its receive()."""
        try:
            self._commands.write(command + "\n")
            self._commands.flush()
        except BrokenPipeError:
            raise SideProcessError(f"the process ended before the command {command!r}") from None

    def receive(self, command: str) -> Answer:
        """Blocks for the answer to a command that was sent; raises as call() does."""
        line = self._answers.readline()
        if not line:
            raise SideProcessError(f"the process ended during the command {command!r}")
        answer = cast(Answer, json.loads(line))
        if "error" in answer:
            raise SideProcessError(str(answer["error"]))
        return answer

    def __enter__(self) -> SideProcess:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._commands.close()
            self._process.wait(_END_SECONDS_MAX)
        except (subprocess.TimeoutExpired, BrokenPipeError):
            self._process.kill()
            self._process.wait()
        self._answers.close()


def serve(commands: dict[str, Callable[[], Answer]]) -> None:
    """Runs the function named by each line of standard input and prints its answer, until the input ends."""
    for line in sys.stdin:
        try:
            answer = commands[line.strip()]()
        except Exception as failure:
            traceback.print_exc()
            answer = {"error": f"{type(failure).__name__}: {failure}"}
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()
