r"""Converts keys and values to text and back: printable UTF-8 is unchanged, every other byte becomes \xNN.

A backslash is doubled. The text of any bytes converts back to those bytes, has no tab and no line break, and is unique.
So it can be used in tab-separated lines and compared as text.
"""

from __future__ import annotations

import re

# Lone surrogates, except those that the operating system makes of undecodable bytes.
_HALF = re.compile("[\ud800-\udc7f\udd00-\udfff]")
_NAME_BYTES_SHOWN = 100
_ROW_BYTES_SHOWN = 64
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


def escaped(data: bytes) -> str:
    """Returns bytes as text."""
    # Undecodable bytes arrive as the lone surrogates U+DC80 to U+DCFF, which aren't printable.
    text = data.decode("utf-8", "surrogateescape")
    if text.isprintable() and "\\" not in text:
        return text
    return "".join(map(_escaped_character, text))


def column_text(family: bytes, qualifier: bytes) -> str:
    """Returns a column for a message: family:qualifier."""
    return f"{name_text(family)}:{name_text(qualifier)}"


def name_text(name: bytes) -> str:
    """Returns the name of a family, or a qualifier, for a message; cut if it is long."""
    if len(name) <= _NAME_BYTES_SHOWN:
        return escaped(name)
    return f"{escaped(name[:_NAME_BYTES_SHOWN])}... ({len(name)} bytes)"


def row_text(row: bytes) -> str:
    """Returns a row for a message, in quotation marks; cut if it is long."""
    shown = f"'{escaped(row[:_ROW_BYTES_SHOWN])}'"
    return shown if len(row) <= _ROW_BYTES_SHOWN else f"{shown}..."


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


def _escaped_character(character: str) -> str:
    if character == "\\":
        return "\\\\"
    if character.isprintable():
        return character
    return "".join(f"\\x{byte:02x}" for byte in character.encode("utf-8", "surrogateescape"))
