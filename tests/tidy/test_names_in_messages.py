"""Messages write rows and columns as text, by shown_names.py of the protocol, and never as reprs of bytes."""

from __future__ import annotations

import re
from pathlib import Path

_ROOT = Path(__file__).parents[2]
# {family!r}:{qualifier!r}, and the like.
_TWO_REPRS = re.compile(r"!r\}:\{[^}]*!r")
# row {row!r}, rows from {first[:64]!r}, and the like.
_ROW = re.compile(r"\brows? (from )?\{[^}]*!r")
_JOINED = re.compile(r"\+ b?['\"]:['\"] \+ [^}]*!r\}")


def test_no_message_writes_a_row_or_a_column_as_reprs_of_bytes() -> None:
    found = [
        f"{path.relative_to(_ROOT)}:{number}"
        for folder in ("client", "regionserver", "proto")
        for path in (_ROOT / folder).rglob("*.py")
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if _TWO_REPRS.search(line) or _JOINED.search(line) or (_ROW.search(line) and "assert" not in line.lower())
    ]
    assert not found, found
