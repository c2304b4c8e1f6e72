"""The figures of compactions and their targets; measured only when they are named: `python -m bench compaction`."""

from __future__ import annotations

from functools import partial

from bench.figure import Figure, at_least, at_most
from bench.workloads import bloom_filters, compaction_deletes, compaction_disk, compaction_reads, compaction_work

# A base is rewritten for deltas of a tenth of it: each overwritten byte some ten times, and the deltas once or twice.
# `python -m bench.compactions shares` simulates this picker and RocksDB's universal style.
_AMPLIFICATION_MAX = 12.0


def _reads(flushes: int) -> tuple[Figure, Figure]:
    return (
        at_least(
            f"compaction-idle-{flushes}",
            0.8,
            f"gets after {flushes:,} flushes of random overwrites, when automatic compaction is idle, against one file",
            partial(compaction_reads.idle, flushes=flushes),
        ),
        at_least(
            f"compaction-working-{flushes}",
            0.5,
            f"gets while a compaction works, during and after {flushes:,} flushes, against quiet gets from one file",
            partial(compaction_reads.working, flushes=flushes),
        ),
    )


COMPACTION = (
    at_least(
        "compaction-rate-wide",
        0.3,
        "a major compaction of four files of rows with 10 × 100 bytes, against a sort, write and fsync by pyarrow",
        compaction_work.wide_rows,
    ),
    at_least(
        "compaction-rate-narrow",
        0.3,
        "the same of rows with one column of 1 KiB",
        compaction_work.narrow_rows,
    ),
    at_most(
        "compaction-gets",
        3.0,
        "",
        "the 99th percentile of a get while a major compaction runs, against a quiet server",
        compaction_work.gets,
    ),
    *_reads(8),
    *_reads(100),
    *_reads(1000),
    at_least(
        "compaction-files",
        0.8,
        "gets from a base and nine deltas, the most files of an idle store, against one file",
        compaction_reads.most_files,
    ),
    at_least(
        "compaction-bloom",
        0.95,
        "store files that a get of an absent row skips, of those with rows before and after it",
        bloom_filters.skipped,
    ),
    at_most(
        "compaction-written",
        _AMPLIFICATION_MAX,
        "",
        "bytes written by flushes and compactions for 1 GiB of random overwrites of 1 GiB, against the values' bytes",
        partial(compaction_disk.amplification, is_slow=False),
    ),
    at_most(
        "compaction-written-slowly",
        _AMPLIFICATION_MAX,
        "",
        "the same, if each flush comes after the compactions of the one before",
        partial(compaction_disk.amplification, is_slow=True),
    ),
    at_most(
        "compaction-disk",
        1.2,
        "",
        "store files of 100 MB that were written ten times, when automatic compaction is idle, against once",
        compaction_disk.overwritten,
    ),
    at_most(
        "compaction-deleted",
        1.5,
        "",
        "scan(limit=1) of a table whose 100,000 rows were all deleted, some seconds later, against an empty table",
        compaction_deletes.deleted_rows,
    ),
    at_most(
        "compaction-queue",
        1.5,
        "",
        "the first of ten jobs left in a queue of 100,000, some seconds later, against a new queue of ten",
        compaction_deletes.queue_head,
    ),
)
