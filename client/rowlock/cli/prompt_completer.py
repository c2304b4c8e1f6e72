"""Completion in the interactive shell: what fits at the cursor, with a hint."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document

from rowlock.cli.candidates import Names, candidates
from rowlock.cli.words import quoted, unfinished


class PromptCompleter(Completer):
    """Completes the word before the cursor."""

    def __init__(self, commands: Mapping[str, Callable[..., Any]], names: Names) -> None:
        self._commands = commands
        self._names = names

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        """Yields the words that fit at the cursor."""
        line = unfinished(document.text_before_cursor)
        for found in candidates(line.words, line.typed, self._commands, self._names):
            text = quoted(found.text)
            if not found.is_whole and text != found.text:
                text = text[:-1]  # the quote stays open
            yield Completion(text, start_position=-line.length, display=found.text, display_meta=found.hint)
