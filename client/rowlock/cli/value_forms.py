"""What a value of a type looks like as text, for messages about one that is not valid."""

from __future__ import annotations

from collections.abc import Mapping

_BITS: Mapping[str, int] = {"tinyint": 8, "smallint": 16, "int": 32, "bigint": 64}
_FORMS: Mapping[str, str] = {
    "float": "a number, as 1.5",
    "double": "a number, as 1.5",
    "decimal": "a number that fits, as 1.50",
    "boolean": "true or false",
    "date": "a day, as 2013-01-31",
    "timestamp": "a time, as 2013-01-31T05:00:00Z",
    "string": "text in UTF-8",
    "binary": r"text with \xNN for bytes",
}


def form_of(kind: str) -> str:
    """Returns what to write for a value of a mapping's type, `bigint` for instance."""
    bits = _BITS.get(kind)
    if bits is None:
        return _FORMS[kind]
    return f"a whole number from {-(1 << bits - 1)} to {(1 << bits - 1) - 1}"
