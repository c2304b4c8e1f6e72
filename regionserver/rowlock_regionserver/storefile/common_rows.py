"""Counts the rows that two sorted runs have in common, for the verification of a store file."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow.compute as pc

from rowlock_regionserver.arrow.cell_columns import first_not_below
from rowlock_regionserver.arrow.columns import Column


def common_count(one: Iterator[Column], other: Iterator[Column]) -> int:
    """Returns how many distinct rows are in both; reads both to their ends. Each yields ascending rows in parts.

    Memory: two parts.
    """
    count = 0
    last: bytes | None = None  # the last common row that was counted
    first, second = next(one, None), next(other, None)
    while first is not None and second is not None:
        stop = min(first[-1].as_py(), second[-1].as_py())
        after = stop + b"\x00"
        in_first, in_second = first_not_below(first, after), first_not_below(second, after)
        if in_first and in_second:
            values, among = second.slice(0, in_second), first.slice(0, in_first)
            is_in = pc.call_function("is_in", [values], pc.SetLookupOptions(value_set=among))
            common = pc.unique(values.filter(is_in))
            if len(common):
                # A row may continue from part to part.
                count += len(common) - (common[0].as_py() == last)
                last = common[-1].as_py()
        first = first.slice(in_first) if in_first < len(first) else next(one, None)
        second = second.slice(in_second) if in_second < len(second) else next(other, None)
    for rest in (one, other):
        for _ in rest:
            pass
    return count
