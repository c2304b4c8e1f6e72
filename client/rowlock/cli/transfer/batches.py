"""The batches that a reader of a file yields, each with the position that it ends at."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import pyarrow as pa

# Batches of a large file are joined to about this size. Half of what put_arrow sends by default takes 80 MiB less of
# memory, because four batches are in memory, some of them three times: as rows, as bytes and as a message.
BATCH_BYTES_MAX = 4 << 20
# Those of a smaller file to less, so that the progress bar moves in about this many steps.
_BATCH_BYTES_MIN = 1 << 20
_STEPS = 16
_JOINED_PER_MEBIBYTE = 2


@dataclass(frozen=True, slots=True)
class Read:
    """Rows of a file. position: how much of the file was read with them, in the unit of its Content."""

    batch: pa.RecordBatch
    position: int


@dataclass(frozen=True, slots=True)
class Content:
    """The rows of a file. total: what the last position is, None if it is not known; unit: of both."""

    reads: Iterator[Read]
    total: int | None
    unit: str


def batch_bytes_for(byte_count: int) -> int:
    """Returns the size to join batches to, of a file of this many bytes."""
    return min(BATCH_BYTES_MAX, max(_BATCH_BYTES_MIN, byte_count // _STEPS))


def joined(reads: Iterable[Read], bytes_max: int) -> Iterator[Read]:
    """Yields the same rows in fewer batches, of up to bytes_max if those that come are no larger.

    Few batches are joined even if they are small, so that a large file with few columns of the mapping has many, too.
    """
    held: list[Read] = []
    held_bytes = 0
    count_max = max(1, _JOINED_PER_MEBIBYTE * bytes_max >> 20)
    for read in reads:
        if held and (held_bytes + read.batch.nbytes > bytes_max or len(held) == count_max):
            yield from _combined(held)
            held, held_bytes = [], 0
        held.append(read)
        held_bytes += read.batch.nbytes
    if held:
        yield from _combined(held)


def without_first(reads: Iterable[Read], row_count: int) -> Iterator[Read]:
    """Yields all rows but the first `row_count`."""
    for read in reads:
        skipped = min(row_count, read.batch.num_rows)
        row_count -= skipped
        if skipped < read.batch.num_rows:
            yield Read(read.batch.slice(skipped), read.position)


def _combined(reads: list[Read]) -> Iterator[Read]:
    if len(reads) == 1:
        yield reads[0]
        return
    for batch in pa.Table.from_batches([read.batch for read in reads]).combine_chunks().to_batches():
        yield Read(batch, reads[-1].position)
