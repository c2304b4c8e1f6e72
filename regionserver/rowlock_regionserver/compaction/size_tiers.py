"""Which run of neighbouring files becomes one, judged by their sizes alone, newest first.

Files of similar size are compacted together, so each cell is written about once for each time that its file has grown
by a factor: write amplification is logarithmic in the bytes written.
"""

from __future__ import annotations

from collections.abc import Sequence


def similar_run(byte_counts: Sequence[int], files_min: int, size_ratio: float, files_max: int) -> range | None:
    """Returns the longest run in which each older file is at most `size_ratio` times the newer ones together.

    Of several, the newest, which is also the smallest. O(n): a run that starts inside another ends no later.
    """
    best = range(files_min - 1)
    start = 0
    while start < len(byte_counts):
        total = byte_counts[start]
        stop = start + 1
        while stop < min(len(byte_counts), start + files_max) and byte_counts[stop] <= size_ratio * total:
            total += byte_counts[stop]
            stop += 1
        best = max(best, range(start, stop), key=len)
        start = stop
    return best if len(best) >= files_min else None


def cheapest_run(byte_counts: Sequence[int], files_max: int) -> range | None:
    """Returns the run of two files or more that costs the fewest bytes for each file less. O(n * files_max)."""
    best, best_cost = range(0), float("inf")
    for start in range(len(byte_counts) - 1):
        total = byte_counts[start]
        for stop in range(start + 2, min(len(byte_counts), start + files_max) + 1):
            total += byte_counts[stop - 1]
            cost = total / (stop - start - 1)
            if cost < best_cost:
                best, best_cost = range(start, stop), cost
    return best or None
