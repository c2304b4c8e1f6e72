"""Suggests the name that was probably meant, for messages about unknown names. No I/O."""

from __future__ import annotations

from collections.abc import Iterable

# The least likeness of a suggestion, as difflib measures it.
_LIKENESS_MIN = 0.6


def nearest(name: str, known: Iterable[str]) -> str | None:
    """Returns the known name that is most like `name`, in any letter case; None if none is."""
    # Here, because only errors need it.
    from difflib import get_close_matches

    by_fold = {each.casefold(): each for each in known}
    found = get_close_matches(name.casefold(), by_fold, n=1, cutoff=_LIKENESS_MIN)
    return by_fold[found[0]] if found else None


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Returns " (did you mean 'delay'?)", or nothing if no known name is like it."""
    found = nearest(name, known)
    return "" if found is None else f" (did you mean {found!r}?)"
