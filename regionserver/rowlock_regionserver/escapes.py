r"""Shows rows and columns in messages: printable UTF-8 is unchanged, every other byte becomes \xNN.

A backslash is doubled. It is how the command line and the client write them too.
"""

from __future__ import annotations

# Longer ones are cut.
_NAME_BYTES_SHOWN = 100
_ROW_BYTES_SHOWN = 64


def _escaped(data: bytes) -> str:
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
    """Returns the name of a family, or a qualifier, for a message."""
    if len(name) <= _NAME_BYTES_SHOWN:
        return _escaped(name)
    return f"{_escaped(name[:_NAME_BYTES_SHOWN])}... ({len(name)} bytes)"


def row_text(row: bytes) -> str:
    """Returns a row for a message, in quotation marks."""
    shown = f"'{_escaped(row[:_ROW_BYTES_SHOWN])}'"
    return shown if len(row) <= _ROW_BYTES_SHOWN else f"{shown}..."


def _escaped_character(character: str) -> str:
    if character == "\\":
        return "\\\\"
    if character.isprintable():
        return character
    return "".join(f"\\x{byte:02x}" for byte in character.encode("utf-8", "surrogateescape"))
