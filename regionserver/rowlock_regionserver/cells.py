"""The cell: one version of one column of one row, as tuples for points and as Arrow columns for bulk.

In memory a row's cells of one family are a sequence of plain tuples

    (qualifier, -timestamp, -write_number, kind, value)

The two numbers are negated so that the natural order of tuples is the store's order: by qualifier, then newest
timestamp first, then newest write first. Plain tuples of bytes and ints are untracked by the cyclic collector,
so a full collection over a million cells takes some 10 ms.

In bulk, one family's cells are an Arrow table of CELL_SCHEMA, ordered by (row, qualifier, timestamp descending,
write number descending).
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import pyarrow as pa


class Kind(enum.IntEnum):
    """The kind of a cell. Every kind but PUT is a tombstone, which hides only cells of smaller write numbers."""

    PUT = 0
    DELETE_VERSION = 1  # hides the column's cell at exactly this timestamp
    DELETE_COLUMN = 2  # hides the column's cells with timestamp <= this
    DELETE_FAMILY = 3  # hides the family's cells with timestamp <= this; its qualifier is empty


# (qualifier, -timestamp, -write_number, kind, value)
Cell = tuple[bytes, int, int, int, bytes]

PUT = int(Kind.PUT)
DELETE_VERSION = int(Kind.DELETE_VERSION)
DELETE_COLUMN = int(Kind.DELETE_COLUMN)
DELETE_FAMILY = int(Kind.DELETE_FAMILY)

# Greater than any write number: a read at it sees unpublished writes too.
NEWEST = (1 << 63) - 1
# Timestamps are 0 <= timestamp <= TIMESTAMP_MAX.
TIMESTAMP_MAX = (1 << 63) - 2

# One family's cells, all versions and tombstones. Never null.
_CELL_FIELDS: list[pa.Field[Any]] = [
    pa.field("row", pa.binary(), nullable=False),
    pa.field("qualifier", pa.binary(), nullable=False),
    pa.field("timestamp", pa.int64(), nullable=False),
    pa.field("write_number", pa.int64(), nullable=False),
    pa.field("kind", pa.int8(), nullable=False),
    pa.field("value", pa.binary(), nullable=False),
]
CELL_SCHEMA = pa.schema(_CELL_FIELDS)
# Bytes of a cell in a table beside its row, qualifier and value: timestamp, write number, kind and three offsets.
CELL_BYTES_BESIDE = 8 + 8 + 1 + 3 * 4

# The cells of a scan's answer: visible puts of all families, by row, family, qualifier, then newest first.
_ANSWER_FIELDS: list[pa.Field[Any]] = [
    pa.field("row", pa.binary(), nullable=False),
    pa.field("family", pa.binary(), nullable=False),
    pa.field("qualifier", pa.binary(), nullable=False),
    pa.field("timestamp", pa.int64(), nullable=False),
    pa.field("value", pa.binary(), nullable=False),
]
ANSWER_SCHEMA = pa.schema(_ANSWER_FIELDS)


class Compression(enum.IntEnum):
    """The compression of a store file's blocks: of the buffers of cell blocks, and of the chunks of wide blocks."""

    NONE = 0
    LZ4 = 1
    ZSTD = 2


class Durability(enum.IntEnum):
    """The failures that an acknowledged write survives; greater is stronger."""

    SKIP = 1  # not logged
    ASYNC = 2  # logged soon after the answer
    OS = 3  # written to the operating system: survives the process
    FSYNC = 4  # on stable storage: survives power loss


@dataclass(frozen=True, slots=True)
class PastLimits:
    """The limits of a family before an alter. The alter has a write number of its own, which no cell has."""

    write_number: int  # of the alter: earlier writes, and reads at earlier read points, are under these limits
    versions: int
    min_versions: int = 0
    time_to_live_ms: int = 0
    # Earlier cells with this timestamp or a lower one had expired by then, and never come back; -1: there are none.
    gone_through: int = -1


@dataclass(frozen=True, slots=True)
class Family:
    """One column family of a table; `number` is its id inside the table, which is never reused."""

    number: int
    name: bytes
    versions: int = 1
    min_versions: int = 0
    time_to_live_ms: int = 0  # 0: forever
    block_bytes: int = 128 * 1024
    compression: Compression = Compression.ZSTD
    bloom_filter: bool = True
    # What the cells of one region may still have to be judged by, ascending. A table of the catalog has none.
    past: tuple[PastLimits, ...] = ()

    def as_of(self, write_number: int) -> Family:
        """Returns the family with the limits for reads at this read point, and the past limits before them."""
        for place, limits in enumerate(self.past):
            if write_number < limits.write_number:
                return replace(
                    self,
                    versions=limits.versions,
                    min_versions=limits.min_versions,
                    time_to_live_ms=limits.time_to_live_ms,
                    past=self.past[:place],
                )
        return self


class ReadPoint(NamedTuple):
    """What a read sees: writes up to `write_number`, with time to live evaluated at `now_ms`."""

    write_number: int
    now_ms: int


# The read points that readers have or may get later, as spans (first, last), both inclusive, ascending.
ProtectedReadPoints = Sequence[tuple[int, int]]


def from_then_on(read_point: int) -> ProtectedReadPoints:
    """This read point and every later one."""
    return ((read_point, NEWEST),)
