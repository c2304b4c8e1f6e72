r"""Converts keys and values to text and back: printable UTF-8 is unchanged, every other byte becomes \xNN.

A backslash is doubled. The text of any bytes converts back to those bytes, has no tab and no line break, and is unique.
So it can be used in tab-separated lines and compared as text.
"""

from __future__ import annotations

import re

# Lone surrogates, except those that the operating system makes of undecodable bytes.
_HALF = re.compile("[\ud800-\udc7f\udd00-\udfff]")
_ESCAPE = re.compile(r"\\(x[0-9A-Fa-f]{2}|\\|.|$)", re.DOTALL)


class EscapeError(ValueError):
    """A malformed escape, or a lone surrogate. position: its index, in characters from 0."""

    def __init__(self, text: str, position: int) -> None:
        is_escape = text[position] == "\\"
        super().__init__(
            f"bad {'escape' if is_escape else 'character'} at character {position + 1} of {typed(text)}: "
            + (
                r"after a backslash write xNN (a byte in hexadecimal) or a second backslash"
                if is_escape
                else r"half of a surrogate pair; write its bytes as \xNN"
            )
        )
        self.text = text
        self.position = position


def unescaped(text: str) -> bytes:
    """Returns the bytes of a text. Raises EscapeError if it is malformed.

    Surrogates that the operating system made of undecodable bytes become those bytes again.
    """
    if wrong := _HALF.search(text):
        raise EscapeError(text, wrong.start())
    parts: list[bytes] = []
    end = 0
    for match in _ESCAPE.finditer(text):
        parts.append(text[end : match.start()].encode("utf-8", "surrogateescape"))
        found = match.group(1)
        if found == "\\":
            parts.append(b"\\")
        elif len(found) == 3:
            parts.append(bytes([int(found[1:], 16)]))
        else:
            raise EscapeError(text, match.start())
        end = match.end()
    parts.append(text[end:].encode("utf-8", "surrogateescape"))
    return b"".join(parts)


def typed(text: str) -> str:
    """Returns user input in quotes, with single backslashes; Python's repr if it is not printable."""
    return repr(text).replace("\\\\", "\\") if text.isprintable() else repr(text)
