"""Compares two tables, and shows where they first differ."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

_SHOWN_MAX = 5


def differences(found: pa.Table, expected: pa.Table) -> list[str]:
    """Returns one sentence for each column that differs; nothing when all values are equal.

    Rows must be in the same order. Null equals only null.
    """
    if len(found) != len(expected):
        return [f"{len(found)} rows were found, {len(expected)} were expected"]
    if sorted(found.column_names) != sorted(expected.column_names):
        return [f"the columns {sorted(found.column_names)} were found, {sorted(expected.column_names)} were expected"]
    sentences = []
    for name in expected.column_names:
        wanted = expected[name]
        if found[name].type != wanted.type:
            sentences.append(f"{name} is {found[name].type}, expected {wanted.type}")
        elif not found[name].equals(wanted):
            sentences.append(_difference(name, found[name].to_pylist(), wanted.to_pylist()))
    return sentences


def _difference(name: str, found: Sequence[object], wanted: Sequence[object]) -> str:
    pairs = zip(found, wanted, strict=True)
    differing = [(number, has, should) for number, (has, should) in enumerate(pairs) if has != should]
    shown = ", ".join(
        f"row {number} has {has!r} instead of {should!r}" for number, has, should in differing[:_SHOWN_MAX]
    )
    return f"{name} differs in {len(differing)} rows: {shown}"
