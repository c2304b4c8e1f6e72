"""The table of all figures from Spark and their targets, in the groups that measure them.

The figures of typed rows are in typed_figures.py.
"""

from __future__ import annotations

from collections.abc import Sequence

from bench.goals import Aim, Goal
from bench.spark.groups import Group
from bench.spark.hbase import HBasePeer
from bench.spark.typed_figures import typed_groups
from bench.spark.workloads.against_hbase import against_hbase
from bench.spark.workloads.gets_during_writes import gets_during_writes
from bench.spark.workloads.ranges import ranges
from bench.spark.workloads.reads import reads
from bench.spark.workloads.writes import writes


def groups(hbase: HBasePeer | None) -> Sequence[Group]:
    """Returns all groups; the one against HBase only if there is an HBase."""
    found = [_READS, _RANGES, _WRITES, _GETS_DURING_WRITES, *typed_groups()]
    if hbase is not None:
        found.append(Group([AGAINST_HBASE], lambda stage: against_hbase(stage, hbase)))
    return found


def goals() -> Sequence[Goal]:
    """Returns the goals of all figures, including the one against HBase."""
    return [goal for group in groups(None) for goal in group.goals] + [AGAINST_HBASE]


def _at_most(name: str, target: float, sentence: str) -> Goal:
    return Goal(name, sentence, Aim.AT_MOST, target, "")


_READS = Group(
    [
        _at_most("read-spark-cpu", 1.2, "CPU of Spark's processes reading all rows from files, against Parquet's"),
        _at_most("read-server-cpu", 1.5, "CPU of the server meanwhile, against that of Spark reading Parquet"),
        _at_most("read-wall", 3.0, "seconds of that read, against Parquet's"),
        _at_most("read-one-column", 0.5, "CPU of all processes with a mapping of one column, against one of ten"),
    ],
    reads,
)
_RANGES = Group(
    [
        _at_most("range-by-option", 0.03, "bytes that leave the server for 1 % of the keys by start and stop, of all"),
        _at_most("range-by-filter", 0.03, "the same by the option filter"),
    ],
    ranges,
)
_WRITES = Group(
    [_at_most("write-wall", 4.0, "seconds to write all rows at fsync, against the same job writing Parquet")],
    writes,
)
_GETS_DURING_WRITES = Group(
    [
        _at_most(
            "get-while-writing",
            3.0,
            "the 99th percentile of a get beside that job, against beside the job writing Parquet",
        )
    ],
    gets_during_writes,
)
AGAINST_HBASE = Goal(
    "write-against-hbase",
    "rows a second of a job at os, against HBase's batch put by happybase",
    Aim.AT_LEAST,
    2.0,
    "",
)
