"""The figures of splits, merges and large bulk writes; measured only when they are named.

python -m bench split-pause merge-pause bulk-commit
"""

from __future__ import annotations

from bench.figure import at_most
from bench.workloads import bulk_commit, split_pause

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
        "bulk-commit",
        1.0,
        "s",
        "the commit of a bulk write of 1 GiB over 8 regions, after its last batch was staged",
        bulk_commit.commit,
    ),
)
