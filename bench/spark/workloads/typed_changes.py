"""Reads of typed trips after one column of every tenth row was changed, spread evenly over the table."""

from __future__ import annotations

import shutil
import struct
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial

import rowlock

from bench.measure import Measurement
from bench.spark import usage
from bench.spark.rows import read_all
from bench.spark.stage import Stage, running_server
from bench.spark.trip_files import TABLE
from bench.spark.trips import ONE_FAMILY, trip_reader
from bench.spark.usage import Usage
from bench.targets.typed_rows import trip_key

_CHANGED_COLUMN = "tip"
_CHANGED_EVERY = 10
# No flush but the one that is asked for.
_SETTINGS = ["memstore_flush_bytes=1GiB"]


def typed_changes(stage: Stage) -> Mapping[str, Measurement]:
    """Measures reads of three copies of one data folder in turns: unchanged, changed in memory, changed and flushed."""
    with ExitStack() as stack:
        reads = {
            name: stack.enter_context(_copy(stage, name, change))
            for name, change in (("before", _nothing), ("changed", _change), ("flushed", _change_and_flush))
        }
        measured = usage.turns(reads, stage.rounds, stage.warm_up_rounds)
    before = measured["before"]

    def figure(name: str) -> Measurement:
        return Measurement(
            usage.ratio(measured[name], before, lambda used: used.wall),
            {
                "CPU of all processes": usage.ratio(measured[name], before, lambda used: used.all_cpu),
                **usage.details("before", before),
                **usage.details(name, measured[name]),
            },
        )

    return {"typed-changed-read": figure("changed"), "typed-changed-flushed": figure("flushed")}


@contextmanager
def _copy(stage: Stage, name: str, change: Callable[[rowlock.Client, int], None]) -> Iterator[Callable[[], Usage]]:
    """Runs a server on a copy of the loaded data, changes it, and returns a function that measures a read of it."""
    data = stage.fresh_path(name)
    # The server was killed, so its socket is still there.
    shutil.copytree(stage.trips.loaded(ONE_FAMILY), data, ignore=shutil.ignore_patterns("direct"))
    with running_server(data, settings=_SETTINGS) as (server, client):
        change(client, stage.trips.trip_count)
        reader = trip_reader(stage.spark, server.address, TABLE, ONE_FAMILY)
        yield partial(stage.meter(server).usage, lambda: read_all(reader.load()))
    shutil.rmtree(data)


def _nothing(client: rowlock.Client, trip_count: int) -> None:
    pass


def _change(client: rowlock.Client, trip_count: int) -> None:
    """Changes each row by a put of its own. A batch carries many puts in one message, which changes only the speed."""
    column = ONE_FAMILY.columns[_CHANGED_COLUMN]
    with client.table(TABLE).batch(size=1000) as batch:
        for number in range(0, trip_count, _CHANGED_EVERY):
            batch.put(trip_key(number), {column: struct.pack(">d", number / 100)})
    assert sum(region.memstore_bytes for region in client.describe(TABLE).regions), "the changes are not in memory"


def _change_and_flush(client: rowlock.Client, trip_count: int) -> None:
    _change(client, trip_count)
    client.flush(TABLE)
