"""Splits a line into words, for the shell, for lines of standard input, and for completion."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TextIO

# More than a request may have by default, with some escapes.
LINE_CHARACTERS_MAX = 100_000_000

# A part of a word, or the blanks after it.
_PART = re.compile(
    r"""(?P<blanks>[ \t\r\n]+)|(?P<plain>[^ \t\r\n'"]+)|'(?P<single>[^']*)'|"(?P<double>[^"]*)"|(?P<unclosed>['"])"""
)
_BLANK = " \t\r\n"
_QUOTES = "'\""
# What a word of bash may have without a backslash.
_PLAIN_IN_BASH = frozenset("%+,-./:=@_")


def lines_of(stdin: TextIO) -> Iterator[str]:
    """Yields the lines of standard input, of which `check_length` refuses those that are too long."""
    while line := stdin.readline(LINE_CHARACTERS_MAX + 1):
        yield line


def check_length(line: str) -> None:
    """Raises ValueError for a line of more than LINE_CHARACTERS_MAX. It may be only the beginning of the line."""
    if len(line) > LINE_CHARACTERS_MAX:
        raise ValueError(f"the line is longer than {LINE_CHARACTERS_MAX:,} characters")


def words_of(line: str) -> list[str]:
    r"""Splits a command line into words. Quotes group; backslashes are literal, so that \xNN needs no quoting. O(n).

    Raises ValueError for a missing closing quote, and for a line that is too long.
    """
    check_length(line)
    words: list[str] = []
    parts: list[str] = []
    for match in _PART.finditer(line):
        kind = match.lastgroup
        if kind == "unclosed":
            raise ValueError(f"the quote {match[0]} is not closed")
        if kind != "blanks":
            parts.append(match[match.lastindex or 0])
        elif parts:
            words.append("".join(parts))
            parts = []
    if parts:
        words.append("".join(parts))
    return words


@dataclass(frozen=True, slots=True)
class Unfinished:
    """The part of a line before the cursor.

    words: the whole words. typed: the word at the cursor, without quotes, perhaps empty. length: how many characters it
    has with its quotes. quote: the quote that is open at the cursor; empty if none is.
    """

    words: tuple[str, ...]
    typed: str
    length: int
    quote: str


def unfinished(line: str, *, is_bash: bool = False) -> Unfinished:
    """Splits the part of a line before the cursor. is_bash: backslashes quote, as bash has it."""
    words: list[str] = []
    typed: list[str] = []
    start = 0
    quote = ""
    is_word = False
    place = 0
    while place < len(line):
        character = line[place]
        if is_bash and character == "\\" and quote != "'" and place + 1 < len(line):
            place += 1
            typed.append(line[place])
            is_word = True
        elif quote:
            if character == quote:
                quote = ""
            else:
                typed.append(character)
        elif character in _BLANK:
            if is_word:
                words.append("".join(typed))
            typed, is_word, start = [], False, place + 1
        else:
            is_word = True
            if character in _QUOTES:
                quote = character
            else:
                typed.append(character)
        place += 1
    return Unfinished(tuple(words), "".join(typed), len(line) - start, quote)


def quoted(word: str) -> str:
    """Returns a word as `words_of` reads it."""
    if word and not any(character in _BLANK or character in _QUOTES for character in word):
        return word
    quote = "'" if "'" not in word else '"'
    # A word with both kinds of quotes can't be written; it has \xNN for one of them.
    inside = word.replace(quote, f"\\x{ord(quote):02x}")
    return f"{quote}{inside}{quote}"


def quoted_for_bash(word: str, quote: str) -> str:
    """Returns a word, or the end of one, as bash reads it within this quote; empty: within none."""
    if quote == "'":
        return word.replace("'", "'\\''")
    if quote == '"':
        return "".join(f"\\{character}" if character in '"\\$`' else character for character in word)
    return "".join(
        character if character.isalnum() or character in _PLAIN_IN_BASH else f"\\{character}" for character in word
    )
