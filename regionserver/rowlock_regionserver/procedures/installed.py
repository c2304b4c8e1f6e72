"""Which procedures are installed, and where: entry points of the group `rowlock.procedures`.

A package of the operator's names them, as in pyproject.toml:

    [project.entry-points."rowlock.procedures"]
    sliding_window = "our_procedures.limits:sliding_window"

Only those that the setting `procedures` names can be called. The server does not import them: their processes do.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from importlib.metadata import entry_points

GROUP = "rowlock.procedures"
_NAME = re.compile(r"[A-Za-z0-9_.-]{1,100}")


def names_of(setting: str) -> list[str]:
    """Returns the names in a value of the setting `procedures`, sorted. Raises ValueError for a malformed one."""
    names = sorted({name.strip() for name in setting.split(",")} - {""})
    for name in names:
        if not _NAME.fullmatch(name):
            raise ValueError(
                f"procedures: {name!r} is not a name of a procedure, which has letters, digits, '_', '-' and '.' only; "
                "put commas between names"
            )
    return names


def installed_procedures(setting: str) -> Mapping[str, str]:
    """Returns MODULE:FUNCTION of each procedure that the setting names, by name.

    Raises ValueError if one is not installed, or several packages install it.
    """
    names = names_of(setting)
    if not names:
        return {}
    found: dict[str, set[str]] = {}
    for point in entry_points(group=GROUP):
        found.setdefault(point.name, set()).add(f"{point.module}:{point.attr}")
    for name in names:
        values = found.get(name, set())
        if not values:
            installed = ", ".join(sorted(found)) or "none"
            raise ValueError(
                f"procedures: no installed package has an entry point {name!r} in the group {GROUP}; those installed: "
                f"{installed}"
            )
        if len(values) > 1:
            raise ValueError(
                f"procedures: several packages install a procedure {name!r}: {', '.join(sorted(values))}; "
                "uninstall all but one"
            )
    return {name: next(iter(found[name])) for name in names}
