"""The table of the figures of typed rows from Spark and their targets, in the groups that measure them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from bench.goals import Aim, Alternative, Goal
from bench.spark.groups import Group
from bench.spark.trips import ONE_FAMILY, THREE_FAMILIES, Layout
from bench.spark.usage import FLOOR_RATIO
from bench.spark.workloads.typed_bytes import typed_bytes
from bench.spark.workloads.typed_changes import typed_changes
from bench.spark.workloads.typed_overwrites import overwritten
from bench.spark.workloads.typed_queries import typed_queries
from bench.spark.workloads.typed_reads import typed_reads
from bench.spark.workloads.typed_tables import by_batch, with_versions
from bench.spark.workloads.typed_writes import typed_writes

# A read may also be within this of the floor, which no Python source can beat.
_OF_THE_FLOOR = Alternative(FLOOR_RATIO, 1.3)
# PySpark passes no selection of columns on, so a plain count() reads all of them; the requests may differ.
_ALL = 1.01


def typed_groups() -> Sequence[Group]:
    """Returns the groups of both layouts, then those of one."""
    return [
        *_groups_of(ONE_FAMILY),
        *_groups_of(THREE_FAMILIES),
        Group([_at_most("typed-batch-disk", 1.5, "disk of a table filled by batch(), against Parquet's")], by_batch),
        Group(
            [
                _at_most("typed-versions-disk", 6.0, "disk of a table with versions=5 written five times, of once"),
                _at_most("typed-versions-read", 2.0, "seconds to read the newest of them, against the table once"),
            ],
            with_versions,
        ),
        Group(
            [
                _at_most(
                    "typed-overwritten-disk", 1.2, "disk of a table written three times over, of one written once"
                ),
                _at_most("typed-overwritten-read", 1.2, "seconds to read it, against the table written once"),
            ],
            overwritten,
        ),
        Group(
            [
                _at_most("typed-changed-read", 1.5, "seconds to read after every tenth row was changed, of before"),
                _at_most("typed-changed-flushed", 1.3, "the same after a flush"),
            ],
            typed_changes,
        ),
        Group(
            [_at_most("typed-queries", 1.6, "seconds of ten analytic queries, against Parquet's; equal answers")],
            typed_queries,
        ),
    ]


def _groups_of(layout: Layout) -> Sequence[Group]:
    name = f"typed-{layout.name}"
    family = "family" if len(layout.families) == 1 else "families"
    where = f"{len(layout.families)} {family}"
    return [
        Group(
            [
                _at_most(f"{name}-read-wall", 2.2, f"seconds to read typed rows of {where}, against Parquet's", True),
                _at_most(f"{name}-read-spark-cpu", 1.8, "CPU of Spark's processes meanwhile, against Parquet's", True),
                _at_most(f"{name}-read-server-cpu", 0.7, "CPU of the server meanwhile, against Parquet's of Spark"),
                _at_most(f"{name}-column-cpu", 0.3, "CPU of the server for one column by .schema(), of all"),
                _at_most(f"{name}-keys-cpu", 0.25, "CPU of the server for counting from keys, of reading all"),
                _at_most(f"{name}-count-cpu", 1.0, "CPU of the server for a plain count(), of reading all"),
            ],
            partial(typed_reads, layout=layout),
        ),
        Group(
            [
                _at_most(f"{name}-column-sent", 0.3, f"bytes sent for one column of {where}, of all"),
                _at_most(f"{name}-keys-sent", 0.25, "bytes sent for counting from keys, of reading all"),
                _at_most(f"{name}-count-sent", _ALL, "bytes sent for a plain count(), of reading all"),
                _at_most(f"{name}-range-read", 1.0, "bytes read for 1 % of the keys, of 3 % and two blocks a file"),
            ],
            partial(typed_bytes, layout=layout),
        ),
        Group(
            [
                _at_most(f"{name}-write-wall", 2.5, f"seconds to write {where} at fsync, against Parquet's"),
                _at_most(f"{name}-write-cpu", 2.5, "CPU of all processes meanwhile, against Parquet's"),
                _at_most(f"{name}-disk", 1.5, "bytes of store files after the flush, against Parquet's"),
                _at_most(f"{name}-memory", 1.0, "peak resident memory of the server, of its setting `memory`"),
            ],
            partial(typed_writes, layout=layout),
        ),
    ]


def _at_most(name: str, target: float, sentence: str, is_bound_by_floor: bool = False) -> Goal:
    alternative = _OF_THE_FLOOR if is_bound_by_floor else None
    return Goal(name, sentence, Aim.AT_MOST, target, "", alternative=alternative)
