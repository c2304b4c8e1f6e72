"""Completion in the shell: commands, then tables, then families in the place of a column."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document

if TYPE_CHECKING:
    from rowlock import Client

# How long names from the server are cached.
_FRESH_SECONDS = 5.0
_WITHOUT_TABLE = ("create", "tables", "shell", "help", "exit", "quit")
# The first argument that may be a column, counted from the command, which is 0.
_FIRST_COLUMN = {
    "put": 3,
    "get": 3,
    "delete": 3,
    "increment": 3,
    "append": 3,
    "check-and-put": 3,
    "scan": 2,
    "count": 2,
}


class ShellCompleter(Completer):
    """Completes the word before the cursor. Requests names from the server at most every 5 s.

    Completes no names while the server is unreachable; the command itself will report why.
    """

    def __init__(
        self, client: Client, command_names: Sequence[str], monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._client = client
        self._command_names = sorted({*command_names, "help", "exit"})
        self._monotonic = monotonic
        self._tables: tuple[float, Sequence[str]] | None = None
        self._families: dict[str, tuple[float, Sequence[str]]] = {}

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        """Yields the words that fit at the cursor, sorted."""
        before = document.text_before_cursor
        words = before.split()
        typed = "" if not words or before[-1].isspace() else words.pop()
        for word in self._candidates(words, typed):
            if word.startswith(typed):
                yield Completion(word, start_position=-len(typed))

    def _candidates(self, words: Sequence[str], typed: str) -> Iterator[str]:
        if not words or words == ["help"]:
            yield from self._command_names
            return
        if words[0] in _WITHOUT_TABLE or typed.startswith("-"):
            return
        if len(words) == 1:
            yield from self._table_names()
        elif len(words) >= _FIRST_COLUMN.get(words[0], len(words) + 1):
            for family in self._family_names(words[1]):
                yield f"{family}:"

    def _table_names(self) -> Sequence[str]:
        if self._tables is None or self._is_stale(self._tables[0]):
            try:
                self._tables = (self._monotonic(), sorted(self._client.tables()))
            except Exception:
                # A key press is not the place for an error message.
                return ()
        return self._tables[1]

    def _family_names(self, table: str) -> Sequence[str]:
        cached = self._families.get(table)
        if cached is None or self._is_stale(cached[0]):
            try:
                cached = (self._monotonic(), sorted(self._client.describe(table).families))
            except Exception:
                return ()
            self._families[table] = cached
        return cached[1]

    def _is_stale(self, since: float) -> bool:
        return self._monotonic() - since > _FRESH_SECONDS
