"""Splits a scan into tasks.

A task costs Spark about 35 ms, and what its rows are grouped by is shuffled once for each task. Too few tasks leave
cores idle, and so does a last round of fewer tasks than cores. So there is one task for each core of the driver's
machine, as for files. A small table has fewer tasks, and a large one twice as many, or three times, and so on.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql.datasource import InputPartition

from rowlock._core.scan_plan import RowRange
from rowlock.table import Table

PART_BYTES_MIN = 4 << 20
PART_BYTES_MAX = 256 << 20
_CORES_MIN = 2


@dataclass
class ScanPartition(InputPartition):
    """The input of one task: row ranges in order, none for an empty table, and the snapshot.

    With snapshot=latest the task derives the snapshot's id from this one and its query's, see latest.py.
    """

    ranges: tuple[RowRange, ...]
    snapshot_id: bytes = b""


def split_ranges(
    table: Table[bytes], ranges: Sequence[RowRange], columns: list[bytes] | None, part_bytes: int | None
) -> list[tuple[RowRange, ...]]:
    """Splits the ranges into parts of about equal size. part_bytes None: by the amount of data."""
    if not ranges:
        return [()]
    parts = table.splits(ranges=ranges, columns=columns, part_bytes=part_bytes or PART_BYTES_MAX)
    if part_bytes is None:
        byte_count = sum(part.byte_count for part in parts)
        size = suitable_part_bytes(byte_count, os.cpu_count() or 1)
        if size < min(byte_count, PART_BYTES_MAX):
            parts = table.splits(ranges=ranges, columns=columns, part_bytes=size)
    return [tuple(part.ranges) for part in parts] or [()]


def suitable_part_bytes(byte_count: int, core_count: int) -> int:
    """Returns the size of a part: a fraction of all bytes by a multiple of the cores, unless that is too small."""
    cores = max(core_count, _CORES_MIN)
    rounds = max(1, _quotient(byte_count, cores * PART_BYTES_MAX))
    return max(PART_BYTES_MIN, _quotient(byte_count, cores * rounds))


def _quotient(dividend: int, divisor: int) -> int:
    """Returns the quotient, rounded up."""
    return -(-dividend // divisor)
