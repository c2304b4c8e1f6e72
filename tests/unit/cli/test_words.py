"""Lines are split into words as shlex would, in linear time."""

from __future__ import annotations

import io
import shlex

import pytest
from rowlock.cli import words
from rowlock.cli.words import quoted, words_of

from tests.seeds import generator_of
from tests.unit.cli.recording import Console


def words_of_shlex(line: str) -> list[str] | None:
    """Returns the words; None if a quote is not closed."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars=False)
    lexer.whitespace_split = True
    lexer.escape = lexer.commenters = ""
    try:
        return list(lexer)
    except ValueError:
        return None


def test_random_lines_have_the_words_of_shlex() -> None:
    generator = generator_of("words")
    for _ in range(3000):
        line = "".join(generator.choices("ab \t\r\n\x0b\xa0'\"\\#=ü\0", k=generator.randrange(25)))
        try:
            found = words_of(line)
        except ValueError:
            found = None
        assert found == words_of_shlex(line), repr(line)


@pytest.mark.parametrize("word", ["", "a b", "a\rb", "a\tb", "it's"])
def test_a_quoted_word_is_read_as_it_was(word: str) -> None:
    assert words_of(quoted(word)) == [word]


def test_a_long_line_is_split_in_linear_time() -> None:
    # Not a measurement: at a cost that grows with the square of the length, each of these would take many minutes.
    half = "x" * (2 << 20)
    assert words_of(f"r 'f:a={half}'\"{half}\"") == ["r", f"f:a={half}{half}"]
    assert len(words_of("a " * (1 << 20))) == 1 << 20
    with pytest.raises(ValueError, match="not closed"):
        words_of("'" + half)


@pytest.mark.parametrize("line", ["b f:a=1234567", '{"row": "b", "cells": []}', " " * 30])
def test_put_refuses_a_line_that_is_too_long(console: Console, monkeypatch: pytest.MonkeyPatch, line: str) -> None:
    monkeypatch.setattr(words, "LINE_CHARACTERS_MAX", 10)
    console.client.answers["batch"] = batch = Batch()
    console.stdin = io.StringIO(f"a f:a=123\n{line}\n")
    assert console.run("put", "t", "-") == 2
    assert console.err == (
        "rowlock: line 2 of standard input: the line is longer than 10 characters; the row before it was written\n"
    )
    assert batch.sent == [b"a"]


class Batch:
    """Records the keys of the rows that were sent."""

    def __init__(self) -> None:
        self.sent: list[bytes] = []
        self._rows: list[bytes] = []

    def __enter__(self) -> Batch:
        return self

    def __exit__(self, *error: object) -> None:
        """Sends nothing after an error."""

    def put(self, row: bytes, data: object, *, timestamp: int | None) -> None:
        self._rows.append(row)

    def send(self) -> None:
        self.sent += self._rows


def test_the_shell_refuses_a_line_that_is_too_long(console: Console, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(words, "LINE_CHARACTERS_MAX", 10)
    console.client.answers["tables"] = ["t"]
    console.stdin = io.StringIO("tables\ntables     tables\n")
    assert console.run("shell") == 2
    assert console.out == "t\n"
    assert console.err.startswith("rowlock: can't parse the line: the line is longer than 10 characters\nline 2 of")
