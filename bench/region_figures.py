"""The figures of splits, merges, snapshots, flushes, large bulk writes and many tables; measured only when named.

python -m bench split-pause merge-pause snapshot-pause flush-pause bulk-commit tables-start

The pauses of a split and a merge are measured 150 times, whatever --rounds says, in fifteen minutes for both figures on
an idle machine, that of a snapshot fifty times, in two minutes, and that of a flush twenty times, in two minutes. A
round of bulk-commit takes half a minute.
"""

from __future__ import annotations

from bench.figure import at_most
from bench.workloads import bulk_commit, flush_pause, snapshot_pause, split_pause, tables_start

REGIONS = (
    at_most(
        "split-pause",
        1.0,
        "",
        "the 99th percentile of the pause of writes when a region of 100,000 rows is split, against 20 ms and 3 syncs",
        split_pause.split,
    ),
    at_most(
        "merge-pause",
        1.0,
        "",
        "the same when two regions are merged",
        split_pause.merge,
    ),
    at_most(
        "snapshot-pause",
        1.0,
        "",
        "the 99th percentile of the pause of writes when a snapshot of a table of 100,000 rows in 4 regions is taken, "
        "against 20 ms and 3 syncs for each region",
        snapshot_pause.create,
    ),
    at_most(
        "flush-pause",
        1.0,
        "",
        "the 99th percentile of the pause of writes when 60 MB of another table are flushed, against 20 ms and 3 syncs",
        flush_pause.flush,
    ),
    at_most(
        "bulk-commit",
        1.0,
        "s",
        "the commit of a bulk write of 1 GiB over 8 regions, after its last batch was staged",
        bulk_commit.commit,
    ),
    at_most(
        "tables-start",
        5.0,
        "s",
        "the start of a server with 2,000 tables of a row, until a client is connected",
        tables_start.start,
    ),
)
