"""What commands run in: the terminal, the connections, and one call's options.

A session outlives a command: the shell runs many in one, over one connection. `call` is what one command gets, and
`register` makes a command of a function of it.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, Protocol, TextIO, cast, get_type_hints

import typer
from typer.core import TyperCommand

from rowlock.cli.arguments import ArgumentError
from rowlock.cli.output import Output
from rowlock.cli.words import seconds

if TYPE_CHECKING:
    from rowlock import Client

_IN_BRACES = re.compile(r"\A\{(.*)\}")
DEFAULT_SERVER = "127.0.0.1:7460"


class ReaderWentAwayError(Exception):
    """Nobody reads standard output any more."""


class Connect(Protocol):
    """rowlock.connect, or what stands for it."""

    def __call__(self, server: str, *, timeout: float) -> Client:
        """A verified connection."""


@dataclass(slots=True)
class Session:
    """Streams, defaults and open connections. Used by one thread."""

    stdin: TextIO
    stdout: TextIO
    stderr: TextIO
    connect: Connect
    # Runs one command line in this session and gives its exit code; set by whoever owns the list of commands.
    run: Callable[[Sequence[str], Session], int]
    command_names: Sequence[str] = ()
    default_server: str = DEFAULT_SERVER
    history_path: str | None = None
    # The command that runs has a connection: what it was to do may be under way.
    is_connected: bool = False
    # The last command was interrupted, and its change may or may not have been made.
    is_in_doubt: bool = False
    _clients: dict[tuple[str, float], Client] = field(default_factory=dict)

    def client(self, server: str | None, timeout: float) -> Client:
        """The connection to `server`, opened when it is first asked for."""
        key = (server or self.default_server, timeout)
        if key not in self._clients:
            self._clients[key] = self.connect(key[0], timeout=timeout)
        self.is_connected = True
        return self._clients[key]

    def close(self) -> None:
        """Ends every connection."""
        while self._clients:
            self._clients.popitem()[1].close()


@dataclass(frozen=True, slots=True)
class Call:
    """One command's options and doors."""

    session: Session
    output: Output
    server: str | None
    timeout: float
    json_lines: bool

    @property
    def client(self) -> Client:
        """The connection that was asked for; opened at first use, so that a bad argument is told without a server."""
        return self.session.client(self.server, self.timeout)

    def confirm(self, question: str, *, yes: bool) -> None:
        """Returns if the answer is yes. Raises ArgumentError when nobody can be asked, typer.Exit(2) when it is no."""
        if yes:
            return
        if not self.session.stdin.isatty():
            raise ArgumentError(f"{question} There is nobody to ask: say --yes. Nothing was changed")
        self.session.stderr.write(f"{question} [y/N] ")
        self.session.stderr.flush()
        # Who interrupts the question leaves nothing in doubt.
        is_connected, self.session.is_connected = self.session.is_connected, False
        answer = self.session.stdin.readline().strip().lower()
        self.session.is_connected = is_connected
        if answer not in ("y", "yes"):
            self.output.note("nothing was changed")
            raise typer.Exit(2)


ServerOption = Annotated[
    str | None,
    typer.Option(
        "--server", metavar="HOST:PORT", help=f"Or unix:PATH. Default: $ROWLOCK_SERVER, else {DEFAULT_SERVER}."
    ),
]
TIMEOUT_SECONDS = 60.0
TimeoutOption = Annotated[
    float | None,
    typer.Option(
        "--timeout", parser=seconds, metavar="SECONDS", help=f"For each request. Default: {TIMEOUT_SECONDS:g}."
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Results as JSON, one object a line.")]


class _Command(TyperCommand):
    """A command whose usage line writes what is required as it is, and not in braces, as newer versions of typer do."""

    def collect_usage_pieces(self, ctx: Any) -> list[str]:  # Any: click's class, or typer's copy of it
        return [_IN_BRACES.sub(r"\1", piece) for piece in super().collect_usage_pieces(ctx)]


# Where a command line's context keeps what stood before the command.
GIVEN = "rowlock.given"


@dataclass(frozen=True, slots=True)
class Given:
    """Options that stood before the command; the command's own win."""

    server: str | None = None
    timeout: float | None = None
    json_lines: bool = False


def register(
    application: typer.Typer,
    name: str,
    function: Callable[..., int | None],
    *,
    dashes_are_words: bool = False,
    changes: bool = False,
) -> None:
    """Adds `function(call, ...) -> exit code or None` as a command that also knows --server, --timeout and --json.

    These three may also stand before the command. `changes`: it changes something at the server, so that an interrupt
    may leave it in doubt. With `dashes_are_words`, what looks like an unknown option is an argument: -5 is an amount.
    """
    hints = get_type_hints(function, include_extras=True)

    def command(context: typer.Context, **values: object) -> int:
        session = cast(Session, context.obj)  # what run() gave to the command line's parser
        given: Given = context.meta.get(GIVEN, Given())
        json_lines = bool(values.pop("json")) or given.json_lines
        server, timeout = values.pop("server"), values.pop("timeout")
        if timeout is None:
            timeout = TIMEOUT_SECONDS if given.timeout is None else given.timeout
        call = Call(
            session=session,
            output=Output(session.stdout, session.stderr, json_lines=json_lines),
            server=cast("str | None", given.server if server is None else server),  # by their annotations
            timeout=cast(float, timeout),
            json_lines=json_lines,
        )
        session.is_connected = session.is_in_doubt = False
        try:
            exit_code = function(call, **values)
            session.is_connected = False  # It is done.
            call.output.flush()
        except KeyboardInterrupt:
            session.is_in_doubt = changes and session.is_connected
            raise
        except BrokenPipeError as error:
            # Under this name, because typer would end the process for the other.
            raise ReaderWentAwayError from error
        return exit_code or 0

    own = [
        parameter.replace(annotation=hints[parameter.name], kind=inspect.Parameter.KEYWORD_ONLY)
        for parameter in list(inspect.signature(function).parameters.values())[1:]
    ]
    shared = [
        inspect.Parameter("server", inspect.Parameter.KEYWORD_ONLY, default=None, annotation=ServerOption),
        inspect.Parameter("timeout", inspect.Parameter.KEYWORD_ONLY, default=None, annotation=TimeoutOption),
        inspect.Parameter("json", inspect.Parameter.KEYWORD_ONLY, default=False, annotation=JsonOption),
    ]
    context = inspect.Parameter("context", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=typer.Context)
    # typer reads a command's options from its signature.
    command.__signature__ = inspect.Signature([context, *own, *shared])  # type: ignore[attr-defined]
    command.__annotations__ = {parameter.name: parameter.annotation for parameter in (context, *own, *shared)}
    command.__doc__ = function.__doc__
    settings = {"ignore_unknown_options": dashes_are_words}
    application.command(name, cls=_Command, context_settings=settings)(command)
