"""The interactive shell: the commands without `rowlock` in front, with history and completion.

Without a terminal it runs the lines of standard input, and stops at the first that fails, with its number and exit
code.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rowlock.cli.session import Call, Session
from rowlock.cli.shared_options import integer_from
from rowlock.cli.words import lines_of, words_of

if TYPE_CHECKING:
    from prompt_toolkit import PromptSession
    from prompt_toolkit.history import History

_LEAVE = ("exit", "quit")
_LINES_SHOWN = 50


def shell(call: Call) -> int:
    """Runs commands interactively or from a script.

    A terminal has history and completion; 'help' lists the commands, 'exit' or Ctrl-D leaves the shell, 'history' shows
    the last lines, 'clear' clears the screen. From a pipe it runs each line of standard input and stops at the first
    that fails. A line that begins with '#' is a comment.
    """
    session = call.session
    shared = _shared_options(call)
    if not session.stdin.isatty():
        return _run_script(session, lines_of(session.stdin), shared)
    session.is_shell = True
    try:
        _interact(call, shared)
    finally:
        session.is_shell = False
    return 0


def _shared_options(call: Call) -> list[str]:
    options = ["--timeout", str(call.timeout)]
    if call.server is not None:
        options += ["--server", call.server]
    if call.json_lines:
        options.append("--json")
    return options


def _run_line(
    session: Session, line: str, shared: Sequence[str], own: Mapping[str, Callable[[Sequence[str]], None]]
) -> int | None:
    """Runs a line. own: the shell's own commands. Returns its exit code; None if it leaves the shell."""
    output = session.output(json_lines=False)
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
    if words[0] in own:
        own[words[0]](words[1:])
        return 0
    # Before the arguments of the line, so that an option on the line overrides them.
    return session.run([words[0], *shared, *words[1:]], session)


def _run_script(session: Session, lines: Iterable[str], shared: Sequence[str]) -> int:
    for number, line in enumerate(lines, start=1):
        exit_code = _run_line(session, line, shared, {})
        if exit_code is None:
            return 0
        if exit_code != 0:
            session.output(json_lines=False).note(
                f"line {number} of standard input ended with exit code {exit_code}; the lines after it were not run"
            )
            return exit_code
    return 0


def _interact(call: Call, shared: Sequence[str]) -> None:
    from prompt_toolkit import PromptSession
    from prompt_toolkit.auto_suggest import AutoSuggestFromHistory
    from prompt_toolkit.shortcuts import clear

    from rowlock.cli.prompt_completer import PromptCompleter
    from rowlock.cli.server_names import ServerNames

    session = call.session
    count = len(call.client.tables())
    call.output.note(
        f"rowlock shell; the server has {count} table{'' if count == 1 else 's'}. Tab completes, 'help' lists the "
        "commands, 'help scan' explains one, 'exit' leaves."
    )
    history = open_history(session.history_path)
    prompt: PromptSession[str] = PromptSession(
        history=history,
        auto_suggest=AutoSuggestFromHistory(),
        completer=PromptCompleter({**session.commands, **_OWN}, ServerNames(lambda: call.client)),
        complete_while_typing=False,
    )
    own: dict[str, Callable[[Sequence[str]], None]] = {
        "clear": lambda words: clear(),
        "history": lambda words: _show_history(call, history, words),
    }
    for line in _lines(prompt):
        if _run_line(session, line, shared, own) is None:
            return


def _show_history(call: Call, history: History, words: Sequence[str]) -> None:
    """Prints the last lines, the newest at the end."""
    try:
        count = integer_from(1)(words[0]) if words else _LINES_SHOWN
    except typer.BadParameter as error:
        call.output.error(f"{error.format_message()}. Try 'history 100'.", kind="UsageError")
        return
    for line in history.get_strings()[-count:]:
        call.output.record({"line": line}, line)


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


def _clear(call: Call) -> None:
    """Clears the screen."""


def _history(
    call: Call, count: Annotated[int | None, typer.Argument(metavar="LINES", show_default=False)] = None
) -> None:
    """Shows the last lines that were typed."""


def _help(call: Call, command: Annotated[str | None, typer.Argument(metavar="COMMAND")] = None) -> None:
    """Lists the commands, or explains one."""


def _exit(call: Call) -> None:
    """Leaves the shell."""


# The shell's own commands, for completion.
_OWN: Mapping[str, Callable[..., Any]] = {"clear": _clear, "exit": _exit, "help": _help, "history": _history}
