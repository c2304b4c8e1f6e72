"""A session on plain streams, and a client that records the calls of commands."""

from __future__ import annotations

import io
import json
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, cast

from rowlock.cli.commands import COMMANDS
from rowlock.cli.main import run
from rowlock.cli.session import Session

if TYPE_CHECKING:
    from rowlock import Client


class TerminalStream(io.StringIO):
    """A text stream that claims to be a terminal."""

    def isatty(self) -> bool:
        return True


@dataclass
class RecordingClient:
    """Returns `answers["method"]`, or raises it if it is an exception, and records the calls in order.

    A deque has the answers of several calls. Replaces a client and each of its tables.
    """

    answers: dict[str, object] = field(default_factory=dict)
    calls: list[tuple[str, tuple[object, ...], dict[str, object]]] = field(default_factory=list)
    is_closed: bool = False

    def __getattr__(self, name: str) -> object:
        if name.startswith("_"):
            raise AttributeError(name)

        def method(*positional: object, **named: object) -> object:
            self.calls.append((name, positional, named))
            answer = self.answers.get(name)
            if isinstance(answer, deque):
                answer = answer.popleft()
            if isinstance(answer, BaseException):
                raise answer
            return answer

        return method

    def table(self, name: str, **options: object) -> RecordingClient:
        self.calls.append(("table", (name,), options))
        return self

    def kept_mapping(self, name: str) -> object:
        """Not recorded, because most commands look it up."""
        answer = self.answers.get("kept_mapping")
        if isinstance(answer, BaseException):
            raise answer
        return answer

    def close(self) -> None:
        self.is_closed = True


@dataclass
class Console:
    """Runs command lines against a recording client, and holds the output of the last one."""

    client: RecordingClient
    stdin: io.StringIO = field(default_factory=io.StringIO)
    stdout: io.StringIO = field(default_factory=io.StringIO)
    stderr: io.StringIO = field(default_factory=io.StringIO)
    connected: list[tuple[str, float]] = field(default_factory=list)
    connection_error: BaseException | None = None

    def connect(self, server: str, *, timeout: float) -> Client:
        if self.connection_error is not None:
            raise self.connection_error
        self.connected.append((server, timeout))
        return cast("Client", self.client)  # it has the same methods

    def attach_terminal(self) -> None:
        """Makes all three streams a terminal."""
        self.stdin, self.stdout, self.stderr = TerminalStream(), TerminalStream(), TerminalStream()

    @property
    def session(self) -> Session:
        return Session(
            stdin=self.stdin,
            stdout=self.stdout,
            stderr=self.stderr,
            connect=self.connect,
            run=run,
            commands=COMMANDS,
            default_server="default:7460",
        )

    def run(self, *words: str) -> int:
        for stream in (self.stdout, self.stderr):
            stream.seek(0)
            stream.truncate()
        self.client.calls.clear()
        return run(words, self.session)

    @property
    def out(self) -> str:
        return self.stdout.getvalue()

    @property
    def err(self) -> str:
        return self.stderr.getvalue()

    @property
    def records(self) -> list[dict[str, object]]:
        """Standard output as JSON lines."""
        return [json.loads(line) for line in self.out.splitlines()]
