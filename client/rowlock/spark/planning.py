"""Splits a scan into tasks.

A task costs Spark about 35 ms, and too few tasks leave cores idle. So the size of a part depends on the amount of data,
from 4 MiB to 128 MiB, for at least about two parts per core of the driver's machine.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql.datasource import InputPartition

from rowlock._core.scan_plan import RowRange
from rowlock.table import Table

PART_BYTES_MIN = 4 << 20
PART_BYTES_MAX = 128 << 20
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
        size = suitable_part_bytes(sum(part.byte_count for part in parts), os.cpu_count() or 1)
        if size < PART_BYTES_MAX:
            parts = table.splits(ranges=ranges, columns=columns, part_bytes=size)
    return [tuple(part.ranges) for part in parts] or [()]


def suitable_part_bytes(byte_count: int, core_count: int) -> int:
    """Returns the size of a part."""
    return min(PART_BYTES_MAX, max(PART_BYTES_MIN, byte_count // (2 * max(core_count, _CORES_MIN))))
