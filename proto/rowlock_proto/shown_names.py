r"""Shows keys, names and values as text: printable UTF-8 is unchanged, every other byte becomes \xNN. No I/O.

A backslash is doubled. The text of any bytes has no tab and no line break, and is unique.
"""

from __future__ import annotations

# Longer ones are cut.
_NAME_BYTES_SHOWN = 100
_ROW_BYTES_SHOWN = 64


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


def _escaped_character(character: str) -> str:
    if character == "\\":
        return "\\\\"
    if character.isprintable():
        return character
    return "".join(f"\\x{byte:02x}" for byte in character.encode("utf-8", "surrogateescape"))
