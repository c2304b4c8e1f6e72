"""Facts of files, as a region reports them, for tests of the picker."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from rowlock_regionserver.compaction.picker import FileFacts

MIB = 1024 * 1024
DAY_MS = 24 * 3600 * 1000

_DELTA = FileFacts(
    number=0,
    byte_count=MIB,
    cell_count=1000,
    tombstone_count=0,
    expired_count=0,
    is_all_expired=False,
    is_base=False,
    is_protected=False,
    age_ms=0,
    first_row=b"a",
    last_row=b"z",
    row_count=1000,
)


def delta(number: int, byte_count: int = MIB, **values: Any) -> FileFacts:  # Any: as for dataclasses.replace
    """Returns a delta of puts in all rows."""
    return replace(_DELTA, number=number, byte_count=byte_count, **values)


def base(number: int, byte_count: int = 1000 * MIB, **values: Any) -> FileFacts:  # Any: as for dataclasses.replace
    """Returns a base of puts in all rows."""
    return delta(number, byte_count, is_base=True, **values)
