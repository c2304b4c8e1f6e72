"""What fits at the cursor of a command line, for the interactive shell and for bash, zsh and fish."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from rowlock.cli.parameters import COMMON, Parameter, parameters_of

# Options that precede the command.
_BEFORE_COMMAND = (*COMMON, Parameter(("--version",), "", False, "Show the version."))


class Names(Protocol):
    """Names that the server knows; empty while it can't be reached. mapping: the value of --mapping, if any."""

    def tables(self) -> Iterable[str]: ...
    def families(self, table: str) -> Iterable[str]: ...
    def columns(self, table: str, mapping: str | None) -> Iterable[str]: ...
    def rows(self, table: str, typed: str, mapping: str | None) -> Iterable[str]: ...
    def regions(self, table: str) -> Iterable[str]: ...
    def borders(self, table: str) -> Iterable[str]: ...
    def snapshots(self) -> Iterable[str]: ...
    def named_snapshots(self) -> Iterable[str]: ...
    def sessions(self) -> Iterable[str]: ...
    def compactions(self) -> Iterable[str]: ...


@dataclass(frozen=True, slots=True)
class Candidate:
    """A possible completion.

    is_whole: a blank follows it; otherwise it is only the start of a word. hint: a description.
    """

    text: str
    is_whole: bool = True
    hint: str = ""


def candidates(
    words: Sequence[str], typed: str, commands: Mapping[str, Callable[..., Any]], names: Names
) -> Iterator[Candidate]:
    """Yields what the word at the cursor can be, sorted by kind. words: before it. typed: its beginning."""
    found = _candidates(words, typed, commands, names)
    return (candidate for candidate in found if candidate.text.startswith(typed) and candidate.text != typed)


def _candidates(
    words: Sequence[str], typed: str, commands: Mapping[str, Callable[..., Any]], names: Names
) -> Iterator[Candidate]:
    before = _Line(words, _BEFORE_COMMAND)
    command = next(iter(before.positional), None)
    if command is None:
        if before.pending is None:
            yield from _options(_BEFORE_COMMAND, words) if typed.startswith("-") else _commands(commands)
        return
    if command == "help":
        yield from _commands(commands)
        return
    if command not in commands:
        return
    parameters = parameters_of(commands[command])
    line = _Line(words[words.index(command) + 1 :], parameters)
    if line.pending is not None:
        yield from _values(line.pending, command, line, typed, names)
    elif typed.startswith("-") and not line.has_ended:
        yield from _options(parameters, words)
    else:
        arguments = [parameter for parameter in parameters if not parameter.names]
        place = len(line.positional)
        if place < len(arguments):
            yield from _values(arguments[place], command, line, typed, names)
        elif arguments and arguments[-1].is_repeated:
            yield from _values(arguments[-1], command, line, typed, names)


class _Line:
    """The words of a line, as its command takes them."""

    def __init__(self, words: Sequence[str], parameters: Sequence[Parameter]) -> None:
        self.positional: list[str] = []
        self.values: dict[str, str] = {}  # of options, by their first name
        self.pending: Parameter | None = None  # the option whose value is at the cursor
        self.has_ended = False  # "--": no options follow
        options = {name: parameter for parameter in parameters for name in parameter.names}
        for word in words:
            if self.pending is not None:
                self.values[self.pending.names[0]] = word
                self.pending = None
            elif self.has_ended or not word.startswith("-") or word == "-":
                self.positional.append(word)
            elif word == "--":
                self.has_ended = True
            else:
                found = options.get(word)
                self.pending = found if found is not None and found.metavar else None

    @property
    def table(self) -> str:
        return self.positional[0] if self.positional else ""

    @property
    def mapping(self) -> str | None:
        return self.values.get("--mapping")


def _commands(commands: Mapping[str, Callable[..., Any]]) -> Iterator[Candidate]:
    for name in sorted(commands):
        yield Candidate(name, hint=(commands[name].__doc__ or "").split("\n")[0])


def _options(parameters: Iterable[Parameter], words: Sequence[str]) -> Iterator[Candidate]:
    """Yields the long names of options that may still be given."""
    for parameter in sorted(parameters, key=lambda parameter: parameter.names):
        if parameter.names and (parameter.is_repeated or not set(parameter.names) & set(words)):
            yield Candidate(parameter.names[0], hint=parameter.help)


def _values(parameter: Parameter, command: str, line: _Line, typed: str, names: Names) -> Iterator[Candidate]:
    """Yields the values that a parameter can have."""
    kind = parameter.metavar
    if kind == "TABLE" and command != "create":
        yield from map(Candidate, names.tables())
    elif kind == "ROW" and command == "merge":
        yield from map(Candidate, names.borders(line.table))
    elif kind in ("ROW", "PREFIX"):
        # Regions are cut at bytes, whatever the mapping.
        yield from map(Candidate, names.rows(line.table, typed, "none" if command == "split" else line.mapping))
    elif kind == "REGION":
        yield from map(Candidate, names.regions(line.table))
    elif kind == "FAMILY" and command != "create":
        yield from map(Candidate, names.families(line.table))
    elif kind == "COLUMN":
        for name in names.columns(line.table, line.mapping):
            yield Candidate(name, is_whole=not name.endswith(":"))
    elif kind in ("CELL", "CONDITION") or kind.startswith("COLUMN"):
        for name in names.columns(line.table, line.mapping):
            ending = "" if kind == "CONDITION" or name.endswith(":") else "="
            yield Candidate(name + ending, is_whole=False)
    elif kind == "ID":
        yield from map(Candidate, names.compactions() if command == "compactions" else names.snapshots())
    elif kind == "MAPPING":
        yield Candidate("none")
    elif kind in ("FILE", "FOLDER"):
        yield from _files(typed)
    elif kind.startswith("["):
        yield from _words_of_forms(kind, line.positional, names)
    elif "|" in kind:
        yield from map(Candidate, kind.split("|"))


def _words_of_forms(kind: str, words: Sequence[str], names: Names) -> Iterator[Candidate]:
    """Yields the next words of forms, as in '[create NAME TABLE | drop NAME]' or '[end ID...]'. words: before it."""
    for form in (text.split() for text in kind.strip("[]").split("|")):
        if words and words[0] != form[0]:
            continue
        place = len(words)
        if place >= len(form) and form[-1].endswith("..."):
            place = len(form) - 1
        match form[place : place + 1]:
            case ["NAME"] if form[0] != "create":
                yield from map(Candidate, names.named_snapshots())
            case ["TABLE"] if form[0] != "restore":
                yield from map(Candidate, names.tables())
            case ["ID..."]:
                yield from map(Candidate, names.sessions())
            case [word] if word.islower():
                yield Candidate(word)


def _files(typed: str) -> Iterator[Candidate]:
    folder, name = os.path.split(typed)
    try:
        found = sorted(os.scandir(os.path.expanduser(folder) or "."), key=lambda entry: entry.name)
    except OSError:
        return
    for entry in found:
        if not entry.name.startswith(".") or name.startswith("."):
            path = os.path.join(folder, entry.name)
            yield Candidate(f"{path}/", is_whole=False) if entry.is_dir() else Candidate(path)
