"""How a scan is cut into tasks.

A task costs Spark some 35 ms, and too few leave cores idle: parts have a size by the amount of data, at least 4 MiB and
at most 128 MiB, so that there are about twice as many as the driver's machine has cores, or more.
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
_CORES_MIN = 4


@dataclass
class ScanPartition(InputPartition):
    """What one task reads: ranges of rows in order, none for a table without rows, and at which snapshot.

    With snapshot=latest the task makes the snapshot's id of this one's and its query's, see latest.py.
    """

    ranges: tuple[RowRange, ...]
    snapshot_id: bytes = b""


def cut(
    table: Table[bytes], ranges: Sequence[RowRange], columns: list[bytes] | None, part_bytes: int | None
) -> list[tuple[RowRange, ...]]:
    """Parts that together are the ranges, of about equal size. part_bytes None: by how much there is."""
    if not ranges:
        return [()]
    parts = table.splits(ranges=ranges, columns=columns, part_bytes=part_bytes or PART_BYTES_MAX)
    if part_bytes is None:
        wanted = suited(sum(part.byte_count for part in parts), os.cpu_count() or 1)
        if wanted < PART_BYTES_MAX:
            parts = table.splits(ranges=ranges, columns=columns, part_bytes=wanted)
    return [tuple(part.ranges) for part in parts] or [()]


def suited(byte_count: int, core_count: int) -> int:
    """How large a part should be."""
    return min(PART_BYTES_MAX, max(PART_BYTES_MIN, byte_count // (2 * max(core_count, _CORES_MIN))))
