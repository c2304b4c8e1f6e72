"""The context of commands: the terminal, the connections, and the options of one call.

A session outlives a command: the shell runs many commands in one session, over one connection. Each command gets a
`Call`, and `made_command` makes a command from a function that takes one.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, Protocol, TextIO, cast, get_type_hints

import typer
from typer.core import TyperCommand

from rowlock.cli.arguments import ArgumentError
from rowlock.cli.output import Output
from rowlock.cli.plain_parameters import with_plain_parsers
from rowlock.cli.shared_options import address, seconds

if TYPE_CHECKING:
    from rowlock import Client

_IN_BRACES = re.compile(r"\A\{(.*)\}")
DEFAULT_SERVER = "127.0.0.1:7460"


class OutputClosedError(Exception):
    """The reader of standard output has closed it (broken pipe)."""


class Connect(Protocol):
    """The signature of rowlock.connect; tests replace it."""

    def __call__(self, server: str, *, timeout: float) -> Client:
        """Returns a verified connection."""


@dataclass(slots=True)
class Session:
    """Streams, defaults and open connections. Used by one thread."""

    stdin: TextIO
    stdout: TextIO
    stderr: TextIO
    connect: Connect
    # Runs one command line in this session and returns its exit code; rowlock.cli.main sets it, which has the commands.
    run: Callable[[Sequence[str], Session], int]
    # By their names, for completion.
    commands: Mapping[str, Callable[..., Any]] = field(default_factory=dict)
    default_server: str = DEFAULT_SERVER
    history_path: str | None = None
    # Whether the commands are those of the interactive shell: its hints leave out the name of the program.
    is_shell: bool = False
    # The running command has connected, so its change may have reached the server.
    is_connected: bool = False
    # The last command was interrupted, and its change may or may not have been applied.
    is_in_doubt: bool = False
    # What an interrupted command knows better than that: what it has done, and how to go on.
    interrupt_note: str = ""
    _clients: dict[tuple[str, float], Client] = field(default_factory=dict)

    def client(self, server: str | None, timeout: float) -> Client:
        """Returns the connection to `server`, and opens it on first use."""
        key = (server or self.default_server, timeout)
        if key not in self._clients:
            self._clients[key] = self.connect(key[0], timeout=timeout)
        self.is_connected = True
        return self._clients[key]

    def output(self, *, json_lines: bool) -> Output:
        """Returns the output of a command."""
        return Output(self.stdout, self.stderr, json_lines=json_lines, is_shell=self.is_shell)

    def close(self) -> None:
        """Closes every connection."""
        while self._clients:
            self._clients.popitem()[1].close()


@dataclass(frozen=True, slots=True)
class Call:
    """One command's options, output and connection."""

    session: Session
    output: Output
    server: str | None
    timeout: float
    json_lines: bool

    @property
    def client(self) -> Client:
        """The connection, opened on first use, so that a bad argument is reported without a server."""
        return self.session.client(self.server, self.timeout)

    def confirm(self, question: str, *, yes: bool) -> None:
        """Returns if the answer is yes. Raises ArgumentError without a terminal, typer.Exit(2) if the answer is no."""
        if yes:
            return
        if not self.session.stdin.isatty():
            raise ArgumentError(
                f"{question} Standard input is not a terminal: give --yes to confirm. Nothing was changed"
            )
        self.session.stderr.write(f"{question} [y/N] ")
        self.session.stderr.flush()
        # An interrupt at the question leaves no change in doubt.
        is_connected, self.session.is_connected = self.session.is_connected, False
        answer = self.session.stdin.readline().strip().lower()
        self.session.is_connected = is_connected
        if answer not in ("y", "yes"):
            self.output.note("nothing was changed")
            raise typer.Exit(2)


ServerOption = Annotated[
    str | None,
    typer.Option(
        "--server",
        parser=address,
        metavar="HOST:PORT",
        help=f"Or unix:PATH. Default: $ROWLOCK_SERVER, else {DEFAULT_SERVER}.",
    ),
]
TIMEOUT_SECONDS = 60.0
TimeoutOption = Annotated[
    float | None,
    typer.Option(
        "--timeout",
        parser=seconds,
        metavar="SECONDS",
        help=f"Of each request, and of a wait for a lock. Default: {TIMEOUT_SECONDS:g}.",
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print results as JSON, one object per line.")]


class _Command(TyperCommand):
    """A command whose usage line has required arguments without braces; newer versions of typer add braces."""

    def get_params(self, ctx: Any) -> Any:
        return with_plain_parsers(super().get_params(ctx))

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, args)
        except Exception as error:
            # An option without its argument: the parser does not say of which command.
            if getattr(error, "ctx", ctx) is None:
                setattr(error, "ctx", ctx)  # noqa: B010  # the class is click's, or typer's copy of it
            raise

    def collect_usage_pieces(self, ctx: Any) -> list[str]:  # Any: click's class, or typer's copy of it
        return [_IN_BRACES.sub(r"\1", piece) for piece in super().collect_usage_pieces(ctx)]


# The key in a command line's context of the options that precede the command.
GLOBAL_OPTIONS = "rowlock.global_options"


@dataclass(frozen=True, slots=True)
class GlobalOptions:
    """Options that precede the command; those that follow it override them."""

    server: str | None = None
    timeout: float | None = None
    json_lines: bool = False


def made_command(
    name: str,
    function: Callable[..., int | None],
    *,
    dashes_are_arguments: bool = False,
    changes: bool = False,
) -> Any:  # Any: click's class, or typer's copy of it
    """Returns `function(call, ...) -> exit code or None` as a command that also takes --server, --timeout and --json.

    These three may also precede the command. changes: the command changes data on the server, so that an interrupt may
    leave the change in doubt. dashes_are_arguments: an unknown option is an argument, so that -5 is an amount.
    """
    hints = get_type_hints(function, include_extras=True)

    def command(context: typer.Context, **values: object) -> int:
        session = cast(Session, context.obj)  # run() passed it to the parser
        before: GlobalOptions = context.meta.get(GLOBAL_OPTIONS, GlobalOptions())
        json_lines = bool(values.pop("json")) or before.json_lines
        server, timeout = values.pop("server"), values.pop("timeout")
        if timeout is None:
            timeout = TIMEOUT_SECONDS if before.timeout is None else before.timeout
        call = Call(
            session=session,
            output=session.output(json_lines=json_lines),
            server=cast("str | None", before.server if server is None else server),  # by their annotations
            timeout=cast(float, timeout),
            json_lines=json_lines,
        )
        session.is_connected = session.is_in_doubt = False
        session.interrupt_note = ""
        try:
            exit_code = function(call, **values)
            session.is_connected = False  # the command is done
            call.output.flush()
        except KeyboardInterrupt:
            session.is_in_doubt = changes and session.is_connected
            raise
        except BrokenPipeError as error:
            # typer would end the process on BrokenPipeError.
            raise OutputClosedError from error
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
    settings = {"ignore_unknown_options": dashes_are_arguments}
    alone = typer.Typer(add_completion=False, rich_markup_mode=None)
    alone.command(name, cls=_Command, context_settings=settings)(command)
    return typer.main.get_command(alone)
