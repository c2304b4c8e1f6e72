"""Splits a line into words, for the shell and for lines of standard input."""

from __future__ import annotations

import shlex


def words_of(line: str) -> list[str]:
    r"""Splits a command line into words. Quotes group; backslashes are literal, so that \xNN needs no quoting.

    Raises ValueError for a missing closing quote.
    """
    lexer = shlex.shlex(line, posix=True, punctuation_chars=False)
    lexer.whitespace_split = True
    lexer.escape = ""
    lexer.commenters = ""  # a '#' inside a key is a character
    return list(lexer)
