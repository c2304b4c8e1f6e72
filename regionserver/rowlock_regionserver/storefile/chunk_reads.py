"""Which reads get some chunks of a wide block, and where their bytes go."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from operator import itemgetter

# Bytes between two wanted chunks that cost less to read than one more read.
GAP_BYTES_MAX = 8192
# The chunks of one scattered read: with the gaps between them 999 buffers, where a read takes a thousand.
SCATTERED_CHUNKS_MAX = 500
# Receives the bytes of gaps, which nobody reads, from any thread.
_GAP = memoryview(bytearray(GAP_BYTES_MAX))


def follow_one_another(chunks: Sequence[int]) -> bool:
    """Returns whether no chunk is between these, which ascend; there is at least one."""
    return chunks[-1] - chunks[0] == len(chunks) - 1


def getter_of(chunks: Sequence[int]) -> Callable[[tuple[int, ...]], tuple[int, ...]]:
    """Returns a function that takes a tuple with a number for each chunk of a block, and returns those of these chunks.

    Chunks ascend; there is at least one.
    """
    if follow_one_another(chunks):  # Else one chunk would give no tuple.
        return itemgetter(slice(chunks[0], chunks[-1] + 1))
    return itemgetter(*chunks)


def close_runs(chunks: Sequence[int], starts: Sequence[int]) -> Iterator[list[int]]:
    """Yields the chunks, which ascend, in groups that are close to each other."""
    run: list[int] = []
    for chunk in chunks:
        if run and starts[chunk] - starts[run[-1] + 1] > GAP_BYTES_MAX:
            yield run
            run = []
        run.append(chunk)
    if run:
        yield run


def scattered_reads(
    chunks: Sequence[int], targets: Sequence[memoryview], starts: Sequence[int]
) -> Iterator[tuple[int, list[memoryview]]]:
    """Yields where each read of these chunks begins in the payload, and the buffers for its bytes, one after the other.

    Chunks ascend. A target has the length of its chunk.
    """
    if len(chunks) <= SCATTERED_CHUNKS_MAX and follow_one_another(chunks):
        yield starts[chunks[0]], list(targets)
        return
    target_of = dict(zip(chunks, targets, strict=True))
    for close in close_runs(chunks, starts):
        for first in range(0, len(close), SCATTERED_CHUNKS_MAX):
            run = close[first : first + SCATTERED_CHUNKS_MAX]
            buffers: list[memoryview] = []
            stop = starts[run[0]]
            for chunk in run:
                if starts[chunk] > stop:
                    buffers.append(_GAP[: starts[chunk] - stop])
                buffers.append(target_of[chunk])
                stop = starts[chunk + 1]
            yield starts[run[0]], buffers
