r"""The command `rowlock`: reads and changes tables of a running server.

Exit codes: 0 success; 1 a condition did not hold, or a row or cell is absent; 2 an error (one line on standard error);
130 interrupted, 141 broken pipe on standard output. Importing this module loads neither grpc nor pyarrow, so that
`rowlock --help` is quick.
"""

from __future__ import annotations

import contextlib
import os
import re
import sys
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, TextIO

import typer
from rowlock_proto.standard_streams import BROKEN_PIPE, drop_unwritten, prepare_streams
from typer.core import TyperGroup

from rowlock.cli.arguments import ArgumentError
from rowlock.cli.commands import COMMANDS, summary_of
from rowlock.cli.output import Output, OutputError, writing_to
from rowlock.cli.plain_parameters import with_plain_parsers
from rowlock.cli.session import (
    DEFAULT_SERVER,
    GLOBAL_OPTIONS,
    GlobalOptions,
    JsonOption,
    OutputClosedError,
    ServerOption,
    Session,
    TimeoutOption,
    made_command,
)
from rowlock.cli.start import INTERRUPTED, interrupts_end_at_once

if TYPE_CHECKING:
    from rowlock import Client

# A prompt should report soon that no server runs; a server that recovers is worth the whole timeout.
_CONNECT_SECONDS = 2.0
# The server's longest wait for a lock, by default; a request that waits longer loses its place in the queue.
_LOCK_WAIT_S_MAX = 600.0
# Completion asks for candidates by this word: `rowlock __complete SHELL ...`. It is not a command, so help omits it.
_COMPLETE = "__complete"
_TEXT_OPTIONS = frozenset({"-h", "--help", "--version"})
# What the parser takes for an option.
_NEGATIVE = re.compile(r"-[0-9.]")
# Also those after which a doubt would do no harm: a compaction changes no answer, and a session ends once.
_READ_ONLY = {
    *(
        "changes",
        "tables",
        "describe",
        "get",
        "exists",
        "counter",
        "scan",
        "count",
        "export",
        "snapshot",
        "status",
        "shell",
    ),
    *("regions", "compact", "compactions", "locks", "sessions", "completion"),
}


@cache
def _command(name: str) -> Any:  # Any: click's class, or typer's copy of it
    return made_command(name, COMMANDS[name], dashes_are_arguments=name == "increment", changes=name not in _READ_ONLY)


class _Commands(TyperGroup):
    """All commands, after the options that may precede them. A command is made when it is used."""

    def __init__(self, **settings: Any) -> None:
        # For their names alone, from which typer takes those that are like a wrong one.
        super().__init__(**{**settings, "commands": dict.fromkeys(COMMANDS)})

    def get_params(self, ctx: Any) -> Any:  # Any: click's classes, or typer's copies of them
        return with_plain_parsers(super().get_params(ctx))

    def list_commands(self, ctx: Any) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        return _command(cmd_name) if cmd_name in COMMANDS else None

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, summary_of(function)) for name, function in COMMANDS.items()])


application = typer.Typer(
    cls=_Commands,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120},
)


def _show_version(requested: bool) -> None:
    if requested:
        from importlib.metadata import version

        sys.stdout.write(f"rowlock {version('rowlock')}\n")
        raise typer.Exit


@application.callback()
def rowlock(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
    server: ServerOption = None,
    timeout: TimeoutOption = None,
    json: JsonOption = False,
) -> None:
    r"""An HBase-style row store: tables of rows, rows of cells in column families.

    A column is FAMILY:QUALIFIER. In keys and values \xNN is a byte and \\ a backslash, in arguments and in output.

    The server is --server, else $ROWLOCK_SERVER, else 127.0.0.1:7460.

    The options below may precede or follow the command.

    Exit codes: 0 success; 1 a condition did not hold, or a row or cell is absent; 2 an error.
    """
    context.meta[GLOBAL_OPTIONS] = GlobalOptions(server, timeout, json)


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command line, by default that of sys.argv. Returns the exit code."""
    prepare_streams()
    session = Session(
        stdin=sys.stdin,
        stdout=sys.stdout,
        stderr=sys.stderr,
        connect=_connect,
        run=run,
        commands=COMMANDS,
        default_server=os.environ.get("ROWLOCK_SERVER") or DEFAULT_SERVER,
        history_path=_history_path(),
    )
    words = list(sys.argv[1:] if arguments is None else arguments)
    if words[:1] == [_COMPLETE]:
        return _complete(words[1:], session)
    exit_code = run(words, session)
    try:
        session.close()
    except KeyboardInterrupt:
        # As below: the user does not want to wait for the connections to close.
        return exit_code
    except Exception as error:
        # The command has finished and reported its result; a failure to close the connections does not change it.
        Output(sys.stdout, sys.stderr, json_lines=False).error(str(error), kind=type(error).__name__)
    return exit_code


def _complete(words: Sequence[str], session: Session) -> int:
    """Prints what fits at the cursor. Reports no error: it would disturb the line that is being typed."""
    with contextlib.suppress(Exception, KeyboardInterrupt):
        from rowlock.cli import shell_completion

        for line in shell_completion.complete(words, session, COMMANDS):
            session.stdout.write(line + "\n")
        session.close()
        session.stdout.flush()
    return 0


def run(arguments: Sequence[str], session: Session) -> int:
    """Runs one command line in a session and returns its exit code. Reports every error in one line."""
    output = session.output(json_lines="--json" in arguments)
    try:
        # typer itself writes these texts.
        has_text = not arguments or not _TEXT_OPTIONS.isdisjoint(arguments)
        with writing_to(session.stdout) if has_text else contextlib.nullcontext():
            result = typer.main.get_command(application).main(
                args=list(arguments) or ["--help"],
                prog_name="" if session.is_shell else "rowlock",
                standalone_mode=False,
                obj=session,
            )
        session.stdout.flush()
        if result == INTERRUPTED:
            _note_interrupt(output, session)
        return int(result or 0)
    except (KeyboardInterrupt, typer.Abort):
        _flush_error(session.stdout)
        _note_interrupt(output, session)
        return INTERRUPTED
    except (BrokenPipeError, OutputClosedError):
        drop_unwritten(session.stdout)
        return BROKEN_PIPE
    except Exception as error:
        _report(output, _flush_error(session.stdout) or error, session)
        return 2


def _note_interrupt(output: Output, session: Session) -> None:
    doubt = "the change may or may not have been applied: check before you retry" if session.is_in_doubt else ""
    output.note("; ".join(filter(None, ("interrupted", session.interrupt_note or doubt))))


def _report(output: Output, error: Exception, session: Session) -> None:
    from rowlock.errors import RowlockError

    if hasattr(error, "format_message"):
        # A usage error, of typer or, before typer 0.26, of click.
        where = getattr(getattr(error, "ctx", None), "command_path", "rowlock").strip()
        advice = f"help {where}".strip() if session.is_shell else f"{where} --help"
        message = error.format_message().rstrip(".")
        if _NEGATIVE.match(getattr(error, "option_name", None) or ""):
            message += "; write -- before a key or value that begins with '-', as in -- -5"
        output.error(f"{message}{'' if message.endswith('?') else '.'} Try '{advice}'.", kind="UsageError")
    elif isinstance(error, OSError) and error.filename is not None:
        output.error(f"{error.filename}: {error.strerror}", kind=type(error).__name__)
    elif isinstance(error, RowlockError | ArgumentError | OutputError | OSError):
        output.error(str(error) or type(error).__name__, kind=type(error).__name__)
    elif isinstance(error, ValueError | TypeError):
        # The client refused an argument, or pyarrow a file.
        output.error(str(error), kind=type(error).__name__)
    elif isinstance(error, MemoryError):
        detail = f" ({error})" if str(error) else ""
        output.error(f"the command lacks memory{detail}; give it more, and repeat it", kind="MemoryError")
    else:
        output.error(f"unexpected {type(error).__name__}: {error}. Please report this bug.", kind=type(error).__name__)


def _flush_error(stdout: TextIO) -> OutputError | None:
    """Flushes standard output. Returns its error; None if it has none, or if it is a broken pipe."""
    try:
        with writing_to(stdout):
            stdout.flush()
    except BrokenPipeError:
        drop_unwritten(stdout)
    except OutputError as error:
        return error
    return None


def _connect(server: str, *, timeout: float) -> Client:
    with interrupts_end_at_once():
        from rowlock._core.lock_requests import LockPolicy
        from rowlock._transport.channels import parse_addresses
        from rowlock.connecting import connected

    # --timeout bounds the wait for locks: by one request, which keeps its place in the queue.
    requests = max(1, int(timeout / _LOCK_WAIT_S_MAX))
    policy = LockPolicy(wait_s=min(timeout, _LOCK_WAIT_S_MAX), retries=requests - 1)
    return connected(parse_addresses(server), timeout, absent_s=_CONNECT_SECONDS, policy=policy)


def _history_path() -> str | None:
    state = os.environ.get("XDG_STATE_HOME") or os.path.expanduser("~/.local/state")
    return os.path.join(state, "rowlock", "history") if os.path.isabs(state) else None
