"""The type of a typed table's rows for a type checker: a TypedDict, which is compared with the mapping."""

from __future__ import annotations

import datetime
import types
from decimal import Decimal
from typing import Any, Union, get_args, get_origin, get_type_hints, is_typeddict

from rowlock.errors import MappingError
from rowlock.mapping import MappedColumn, Mapping

_PYTHON: dict[str, type] = {
    "binary": bytes,
    "string": str,
    "boolean": bool,
    "tinyint": int,
    "smallint": int,
    "int": int,
    "bigint": int,
    "float": float,
    "double": float,
    "decimal": Decimal,
    "date": datetime.date,
    "timestamp": datetime.datetime,
}


def selected(mapping: Mapping, row_type: object) -> Mapping:
    """Returns the mapping with the columns that the row type names; all of them if it is None.

    Raises TypeError unless it is a TypedDict, MappingError if it names other columns or types than the mapping.
    """
    if row_type is None:
        return mapping
    if not is_typeddict(row_type):
        raise TypeError(f"row_type must be a typing.TypedDict, not {row_type!r:.100}")
    assert isinstance(row_type, type), row_type
    hints = get_type_hints(row_type)
    chosen = mapping.select(hints)
    for column in chosen.values:
        _check(row_type.__name__, column, hints[column.name])
    return chosen


def _check(row_type: str, column: MappedColumn, hint: Any) -> None:  # Any: an annotation
    if hint in (Any, object):
        return
    accepted = set(get_args(hint)) if get_origin(hint) in (Union, types.UnionType) else {hint}
    python = _PYTHON[column.type]
    if python not in accepted or not accepted <= {python, types.NoneType}:
        raise MappingError(
            f"{row_type}.{column.name} is {_shown(hint)}, and the column is {column.type_text}: declare it as "
            f"{python.__name__} | None"
        )
    if types.NoneType not in accepted:
        raise MappingError(
            f"{row_type}.{column.name} is {_shown(hint)}, and any cell may be absent: declare it as "
            f"{python.__name__} | None"
        )


def _shown(hint: object) -> str:
    return hint.__name__ if isinstance(hint, type) else str(hint).replace("typing.", "")
