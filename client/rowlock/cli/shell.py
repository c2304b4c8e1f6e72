"""The interactive shell: the commands without `rowlock` in front, with history and completion.

Without a terminal it runs the lines of standard input, and stops at the first that fails, with its exit code.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from rowlock.cli.output import Output
from rowlock.cli.session import Call, Session
from rowlock.cli.words import words_of

if TYPE_CHECKING:
    from prompt_toolkit import PromptSession
    from prompt_toolkit.history import History

_LEAVE = ("exit", "quit")


def shell(call: Call) -> int:
    """Runs commands interactively or from a script.

    A terminal has history and completion; 'exit' or Ctrl-D leaves the shell. From a pipe it runs each line of standard
    input and stops at the first that fails. A line that begins with '#' is a comment.
    """
    session = call.session
    shared = _shared_options(call)
    if not session.stdin.isatty():
        return _run_script(session, session.stdin, shared)
    _interact(call, shared)
    return 0


def _shared_options(call: Call) -> list[str]:
    options = ["--timeout", str(call.timeout)]
    if call.server is not None:
        options += ["--server", call.server]
    if call.json_lines:
        options.append("--json")
    return options


def _run_line(session: Session, line: str, shared: Sequence[str]) -> int | None:
    """Runs a line. Returns its exit code; None if it leaves the shell."""
    output = Output(session.stdout, session.stderr, json_lines=False)
    try:
        words = words_of(line)
    except ValueError as error:
        output.error(f"can't parse the line: {error}", kind="UsageError")
        return 2
    if not words or words[0].startswith("#"):
        return 0
    if words[0] in _LEAVE:
        return None
    if words[0] == "help":
        return session.run([*words[1:2], "--help"], session)
    if words[0] == "shell":
        output.error("already in the shell", kind="UsageError")
        return 2
    # Before the arguments of the line, so that an option on the line overrides them.
    return session.run([words[0], *shared, *words[1:]], session)


def _run_script(session: Session, lines: Iterable[str], shared: Sequence[str]) -> int:
    for line in lines:
        exit_code = _run_line(session, line, shared)
        if exit_code is None:
            return 0
        if exit_code != 0:
            return exit_code
    return 0


def _interact(call: Call, shared: Sequence[str]) -> None:
    from prompt_toolkit import PromptSession

    from rowlock.cli.completion import ShellCompleter

    session = call.session
    count = len(call.client.tables())
    call.output.note(
        f"rowlock shell; the server has {count} table{'' if count == 1 else 's'}. 'help' lists the commands, 'exit' "
        "leaves."
    )
    prompt: PromptSession[str] = PromptSession(
        history=open_history(session.history_path),
        completer=ShellCompleter(call.client, session.command_names),
        complete_while_typing=False,
    )
    for line in _lines(prompt):
        if _run_line(session, line, shared) is None:
            return


def _lines(prompt: PromptSession[str]) -> Iterator[str]:
    while True:
        try:
            yield prompt.prompt("rowlock> ")
        except KeyboardInterrupt:
            continue
        except EOFError:
            return


def open_history(path: str | None) -> History:
    """Returns a history in a file that only its owner can read, or in memory if that can't be made."""
    from prompt_toolkit.history import FileHistory, InMemoryHistory

    if path is None:
        return InMemoryHistory()
    try:
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        os.close(os.open(path, os.O_CREAT | os.O_APPEND | os.O_WRONLY | os.O_CLOEXEC, 0o600))
    except OSError:
        return InMemoryHistory()
    return FileHistory(path)
