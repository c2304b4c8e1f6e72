"""What the shell completes: commands, then tables, then families where a column goes."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document

if TYPE_CHECKING:
    from rowlock import Client

# How long names from the server are taken for true.
_FRESH_SECONDS = 5.0
_WITHOUT_TABLE = ("create", "tables", "shell", "help", "exit", "quit")
# Which word of a command, counted from the command itself, is the first that may be a column.
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
    """Completes the word before the cursor. Asks the server for names, at most every few seconds.

    An unreachable server completes nothing; the command itself will say why.
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
        """The words that may stand where the cursor is, sorted."""
        before = document.text_before_cursor
        words = before.split()
        begun = "" if not words or before[-1].isspace() else words.pop()
        for word in self._candidates(words, begun):
            if word.startswith(begun):
                yield Completion(word, start_position=-len(begun))

    def _candidates(self, words: Sequence[str], begun: str) -> Iterator[str]:
        if not words or words == ["help"]:
            yield from self._command_names
            return
        if words[0] in _WITHOUT_TABLE or begun.startswith("-"):
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
                # Whatever is wrong, a key press is the wrong moment to tell.
                return ()
        return self._tables[1]

    def _family_names(self, table: str) -> Sequence[str]:
        known = self._families.get(table)
        if known is None or self._is_stale(known[0]):
            try:
                known = (self._monotonic(), sorted(self._client.describe(table).families))
            except Exception:
                return ()
            self._families[table] = known
        return known[1]

    def _is_stale(self, since: float) -> bool:
        return self._monotonic() - since > _FRESH_SECONDS
