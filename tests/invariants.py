"""The one door through which tests ask a structure for its invariants, see "Errors and assertions" in STYLE.md."""

from __future__ import annotations

from typing import Protocol


class Structure(Protocol):
    def _check(self) -> None: ...


def check(structure: Structure) -> None:
    """Fails with the first invariant that does not hold."""
    structure._check()
