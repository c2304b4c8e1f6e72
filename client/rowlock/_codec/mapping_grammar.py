"""Parses the text of a mapping into its columns; see docs/mapping.md for the grammar.

mapping  = column { "," column } [ ";" "separator=" character ]
column   = name type target [ encoding ] { "was" type }
name     = word | "`" anything "`"                       a doubled ` stands for one
target   = ":key" | ":timestamp" | family ":" qualifier  in ` ` if it has spaces, commas or semicolons
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from rowlock.errors import MappingError

DEFAULT_SEPARATOR = "|"
KEY, TIMESTAMP = ":key", ":timestamp"

_TYPE = r"[A-Za-z]\w*(?:\s*\(\s*\d+\s*(?:,\s*\d+\s*)?\))?"
_COLUMN = re.compile(
    rf"""\s*(?:`(?P<quoted>(?:[^`]|``)+)`|(?P<name>[^\s`,;:()]+))
        \s+(?P<type>{_TYPE})
        \s+(?:`(?P<quoted_target>(?:[^`]|``)+)`|(?P<target>[^\s`,;]+))
        (?:\s+(?!(?i:was)\b)(?P<encoding>[A-Za-z]+))?
        (?P<formers>(?:\s+(?i:was)\s+{_TYPE})*)\s*""",
    re.VERBOSE,
)
_TYPE_PARTS = re.compile(r"(?P<word>[A-Za-z]\w*)(?:\s*\(\s*(?P<precision>\d+)\s*(?:,\s*(?P<scale>\d+)\s*)?\))?")
_WAS = re.compile(rf"\s+was\s+({_TYPE})", re.IGNORECASE)
_SEPARATOR = re.compile(r"\s*;\s*separator\s*=(?P<separator>.)\s*", re.IGNORECASE | re.DOTALL)


@dataclass(frozen=True, slots=True)
class TypeText:
    """A type: its name in lower case, and what its parentheses hold."""

    word: str
    precision: int | None
    scale: int | None


@dataclass(frozen=True, slots=True)
class ColumnText:
    """A column as it is written. target: without quotes; a quoted `:key` is not the key."""

    name: str
    type: TypeText
    target: str
    is_key: bool
    is_timestamp: bool
    encoding: str | None
    formers: tuple[TypeText, ...]


def parsed(text: str) -> tuple[list[ColumnText], bytes]:
    """Returns the columns and the separator. Raises MappingError with the position of the first malformed column."""
    if not isinstance(text, str):
        raise TypeError(f"mapping must be a rowlock.Mapping or its text, not {type(text).__name__}")
    found: list[ColumnText] = []
    position = 0
    while True:
        match = _COLUMN.match(text, position)
        if match is None:
            raise _malformed(text, position)
        found.append(_column(match))
        position = match.end()
        if text[position : position + 1] != ",":
            break
        position += 1
    separator = _SEPARATOR.match(text, position)
    if separator is not None:
        position = separator.end()
        if position != len(text):
            given = text[separator.start("separator") :].strip()
            raise MappingError(
                f"the mapping {text!r} has the separator {given!r}; it must be one character, and end the mapping"
            )
    if position != len(text):
        raise _malformed(text, position)
    return found, (separator["separator"] if separator else DEFAULT_SEPARATOR).encode()


def quoted(name: str) -> str:
    """Returns a name or a target as the grammar needs it: in ` ` unless it is a plain word."""
    return name if re.fullmatch(r"[^\s`,;()]+", name) else "`" + name.replace("`", "``") + "`"


def _column(match: re.Match[str]) -> ColumnText:
    target = match["target"] or match["quoted_target"].replace("``", "`")
    return ColumnText(
        name=(match["quoted"] or match["name"]).replace("``", "`"),
        type=_type(match["type"]),
        target=target,
        is_key=match["target"] == KEY,
        is_timestamp=match["target"] == TIMESTAMP,
        encoding=match["encoding"].lower() if match["encoding"] else None,
        formers=tuple(_type(former) for former in _WAS.findall(match["formers"])),
    )


def _type(text: str) -> TypeText:
    parts = _TYPE_PARTS.match(text)
    assert parts is not None, text
    return TypeText(
        parts["word"].lower(),
        int(parts["precision"]) if parts["precision"] else None,
        int(parts["scale"]) if parts["scale"] else None,
    )


def _malformed(text: str, position: int) -> MappingError:
    return MappingError(
        f"the mapping can't be parsed at {text[position : position + 40].strip()!r} (character {position} of "
        f"{text!r}); a column is 'name TYPE target', as in 'id STRING :key, delay INT info:delay'"
    )
