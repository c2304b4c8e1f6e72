"""Runs the command rowlock-server as a process, and reads its output."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType

from tests.end_to_end.warm_servers import WarmServer

READY = re.compile(r"rowlock-server ready on (\S+), data in (.*), (\d+\.\d\d) s(?:; .*)?\n")
MODULE = ("-m", "rowlock_regionserver")


class ServerCommand:
    """A running rowlock-server. The end of the `with` block kills the process if it still runs."""

    def __init__(
        self,
        *arguments: str | Path,
        program: Sequence[str] = (),
        environment: Mapping[str, str] | None = None,
        is_warm: bool = True,
    ) -> None:
        """program: `-c` and the source of a program that patches modules before it runs the command. environment: more
        variables.

        is_warm: whether it runs in a fork of an interpreter that has imported its modules. A server with an environment
        of its own never does, because Python may read it when it starts.
        """
        words, variables = [*map(str, arguments)], {**os.environ, **(environment or {})}
        self.process: subprocess.Popen[str] | WarmServer
        if is_warm and not environment:
            self.process = WarmServer(words, variables, source=program[1] if program else "")
            return
        self.process = subprocess.Popen(
            [sys.executable, *(program or MODULE), *words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=variables,
        )

    def __enter__(self) -> ServerCommand:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.process.kill()
        self.process.communicate()

    def ready(self) -> str:
        """Returns the address when the server is ready. Fails with its output if it does not start."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        match = READY.fullmatch(line)
        assert match is not None, (line, self.process.communicate()[1])
        return match[1]

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def ended(self) -> tuple[int, str, str]:
        """Returns the exit code, the standard output since the server was ready, and the standard error."""
        output, errors = self.process.communicate(timeout=180)
        return self.process.wait(), output, errors
