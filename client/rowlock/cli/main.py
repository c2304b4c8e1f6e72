r"""The command `rowlock`: reads and changes tables of a running server.

Exit codes: 0 done, 1 a check was not met, 2 an error (one line on standard error), 130 interrupted, 141 the reader
of the output went away. Importing this module loads neither grpc nor pyarrow: `rowlock --help` is quick.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, TextIO

import typer

from rowlock.cli import rows, scans, shell, tables, transfer
from rowlock.cli.arguments import ArgumentError
from rowlock.cli.output import Output, OutputError, drop_unwritten, writing_to
from rowlock.cli.session import (
    DEFAULT_SERVER,
    GIVEN,
    Given,
    JsonOption,
    ReaderWentAwayError,
    ServerOption,
    Session,
    TimeoutOption,
    register,
)
from rowlock.cli.start import INTERRUPTED, interrupts_end_at_once

if TYPE_CHECKING:
    from rowlock import Client

READER_WENT_AWAY = 141
_ABSENT_SECONDS = 2.0

application = typer.Typer(
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120},
)

COMMANDS: Mapping[str, Callable[..., int | None]] = {
    "create": tables.create,
    "alter": tables.alter,
    "drop": tables.drop,
    "truncate": tables.truncate,
    "tables": tables.tables,
    "describe": tables.describe,
    "flush": tables.flush,
    "put": rows.put,
    "get": rows.get,
    "scan": scans.scan,
    "delete": rows.delete,
    "increment": rows.increment,
    "append": rows.append,
    "check-and-put": rows.check_and_put,
    "count": scans.count,
    "import": transfer.import_rows,
    "export": transfer.export_rows,
    "shell": shell.shell,
}

_READING = {"tables", "describe", "get", "scan", "count", "export", "shell"}

for _name, _function in COMMANDS.items():
    register(application, _name, _function, dashes_are_words=_name == "increment", changes=_name not in _READING)


def _show_version(asked: bool) -> None:
    if asked:
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

    Columns are written FAMILY:QUALIFIER. In keys and values \xNN is a byte and \\ a backslash, going in and coming out.

    The server is --server, else $ROWLOCK_SERVER, else 127.0.0.1:7460.

    Options may stand before the command or behind it.

    Exit codes: 0 done, 1 a check was not met, 2 an error.
    """
    context.meta[GIVEN] = Given(server, timeout, json)


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command line, sys.argv's unless given; returns the exit code."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            # It was closed by whoever started us; open for nothing, as no other file may take its number.
            setattr(sys, name, open(os.devnull, mode))  # noqa: SIM115  # open as long as the process lives
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            # Whatever the locale says, JSON is UTF-8, and no character may end a command with a traceback.
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")
    session = Session(
        stdin=sys.stdin,
        stdout=sys.stdout,
        stderr=sys.stderr,
        connect=_connect,
        run=run,
        command_names=tuple(COMMANDS),
        default_server=os.environ.get("ROWLOCK_SERVER") or DEFAULT_SERVER,
        history_path=_history_path(),
    )
    exit_code = run(sys.argv[1:] if arguments is None else arguments, session)
    try:
        session.close()
    except KeyboardInterrupt:
        # As below; whoever interrupts the goodbye just doesn't want to wait for it.
        return exit_code
    except Exception as error:
        # The command itself is done and has said so; that the goodbye failed changes nothing.
        Output(sys.stdout, sys.stderr, json_lines=False).error(str(error), kind=type(error).__name__)
    return exit_code


def run(arguments: Sequence[str], session: Session) -> int:
    """Runs one command line in a session and returns its exit code. Whatever goes wrong is told in one line."""
    output = Output(session.stdout, session.stderr, json_lines="--json" in arguments)
    try:
        result = typer.main.get_command(application).main(
            args=list(arguments) or ["--help"], prog_name="rowlock", standalone_mode=False, obj=session
        )
        session.stdout.flush()
        if result == INTERRUPTED:
            _note_interrupt(output, session)
        return int(result or 0)
    except (KeyboardInterrupt, typer.Abort):
        _refusal_of(session.stdout)
        _note_interrupt(output, session)
        return INTERRUPTED
    except (BrokenPipeError, ReaderWentAwayError):
        drop_unwritten(session.stdout)
        return READER_WENT_AWAY
    except Exception as error:
        _tell(output, _refusal_of(session.stdout) or error)
        return 2


def _note_interrupt(output: Output, session: Session) -> None:
    doubt = "; the change may or may not have been made: look before you make it again" if session.is_in_doubt else ""
    output.note(f"interrupted{doubt}")


def _tell(output: Output, error: Exception) -> None:
    from rowlock.errors import RowlockError

    if hasattr(error, "format_message"):
        # A mistake in the command line, by typer or, before typer 0.26, by click.
        where = getattr(getattr(error, "ctx", None), "command_path", "rowlock")
        output.error(f"{error.format_message().rstrip('.')}. Try '{where} --help'.", kind="UsageError")
    elif isinstance(error, OSError) and error.filename is not None:
        output.error(f"{error.filename}: {error.strerror}", kind=type(error).__name__)
    elif isinstance(error, RowlockError | ArgumentError | OutputError | OSError):
        output.error(str(error) or type(error).__name__, kind=type(error).__name__)
    elif isinstance(error, ValueError | TypeError):
        # The client's answer to an argument that it can't take, or pyarrow's to a file.
        output.error(str(error), kind=type(error).__name__)
    else:
        output.error(f"unexpected {type(error).__name__}: {error}. Please report this.", kind=type(error).__name__)


def _refusal_of(stdout: TextIO) -> OutputError | None:
    """Why standard output does not take what still waits for it; None if it does, or if its reader went away."""
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
        from rowlock._transport.channels import parse_addresses
        from rowlock.connecting import connected

    # At a prompt the news that no server runs should come soon; a server that recovers is worth waiting for.
    return connected(parse_addresses(server), timeout, absent_s=_ABSENT_SECONDS)


def _history_path() -> str | None:
    state = os.environ.get("XDG_STATE_HOME") or os.path.expanduser("~/.local/state")
    return os.path.join(state, "rowlock", "history") if os.path.isabs(state) else None
