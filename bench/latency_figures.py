"""Figures of latency and of floods, measured by `make bench ARGS=--latency` and `ARGS=--floods`."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from bench.figure import Figure, at_least, at_most
from bench.goals import Alternative
from bench.workloads import floods, latencies

# Where a raw echo's p99 is more than three times its p50, the machine is not quiet enough to judge rowlock's.
_UNQUIET = Alternative(latencies.ECHO_P50_OF_P99, 1 / 3)


def _of(name: str, verb: str, operations: latencies.Operations, echo_method: bytes) -> tuple[Figure, Figure]:
    quiet = at_most(
        f"latency-{name}-quiet",
        5.0,
        "",
        f"the 99th percentile of {verb} against their median, in an open loop at 70 % of the highest rate, and in a "
        "closed loop; the worse of the two",
        partial(latencies.quiet, operations=operations, echo_method=echo_method),
    )
    busy = at_most(
        f"latency-{name}-busy",
        3.0,
        "",
        f"the 99th percentile of {verb} at 70 % of the highest rate, while the server flushes and compacts all the "
        "time, against the quiet one",
        partial(latencies.busy, operations=operations, echo_method=echo_method),
    )
    return replace(quiet, alternative=_UNQUIET), busy


LATENCY = (
    *_of("get", "gets", latencies.get_of, b"G"),
    *_of("put", "puts at os", latencies.put_of, b"P"),
)

FLOODS = (
    at_most(
        "floods-get",
        3.0,
        "",
        "the 99th percentile of a client's gets beside a connection that sends gets without waiting and four scans, "
        "against the quiet one",
        floods.gets,
    ),
    at_least(
        "floods-scans",
        0.7,
        "rows a second of four scans beside that connection and that client, against the scans alone",
        floods.scans,
    ),
)
