"""The table of all figures and their targets.

A new workload is a module in workloads/ and an entry here. Those of compactions are in
compaction_figures.py, and those of latency and floods in latency_figures.py.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from bench.figure import Figure, at_least, at_most
from bench.goals import Alternative
from bench.workloads import (
    batches,
    bulk,
    concurrent_points,
    edge_bounds,
    edge_waits,
    flushing,
    footprint,
    group_commit,
    many_tables,
    memory_and_files,
    point_cpu,
    recovery,
    scans,
    sequential_points,
    short_scans,
    typed_bulk,
    typed_points,
)


def _points(name: str, case: typed_points.Case, sentence: str) -> tuple[Figure, Figure]:
    """Returns the rate and the 99th percentile of gets from wide blocks, against those from blocks of cells."""
    p99 = f"the 99th percentile of gets from wide blocks, {sentence}, against that from blocks of cells"
    return (
        at_least(
            f"typed-get-{name}",
            0.9,
            f"gets of typed rows from wide blocks, {sentence}, against those from blocks of cells",
            partial(typed_points.rate, case=case),
        ),
        at_most(f"typed-get-{name}-p99", 1.2, "", p99, partial(typed_points.p99, case=case)),
    )


# Figures of rows with 15 typed columns; those from Spark are in bench/spark/typed_figures.py.
_TYPED = (
    replace(
        at_least(
            "typed-put-arrow",
            0.4,
            "put_arrow of 300,000 typed rows, against raw Arrow over a stream of gRPC plus write and fsync",
            typed_bulk.put_arrow,
        ),
        alternative=Alternative(bulk.PUT_RATE, 300_000),
    ),
    at_least(
        "typed-scan-to-arrow",
        0.5,
        "scan().to_arrow(mapping) of 300,000 typed rows, against raw Arrow over a stream of gRPC",
        typed_bulk.scan_to_arrow,
    ),
    *_points("warm", typed_points.WARM, "decoded in the cache"),
    *_points("cold", typed_points.COLD, "with data of at least 8 × the cache"),
    *_points("column", typed_points.ONE_COLUMN, "one column, with as small a cache"),
)

FIGURES = (
    at_least(
        "get-sequential",
        0.6,
        "gets by one sync client, against a raw grpcio stream echo of the same messages",
        sequential_points.gets,
    ),
    at_least(
        "get-framed",
        0.45,
        "gets by one sync client, against a raw echo of the same bytes in frames over a plain socket",
        sequential_points.gets_framed,
    ),
    at_least(
        "put-sequential",
        0.6,
        "puts by one sync client, against that echo plus one write and fdatasync of the same bytes",
        sequential_points.puts,
    ),
    at_least(
        "get-concurrent",
        5.0,
        "gets by 64 threads of one client, against a sequential unary echo",
        concurrent_points.gets,
    ),
    at_least(
        "put-concurrent",
        5.0,
        "puts by 64 threads of one client, against a sequential unary echo",
        concurrent_points.puts,
    ),
    at_least(
        "put-arrow",
        0.5,
        "put_arrow of 100,000 rows of 10 × 100 bytes, against raw Arrow over a stream of gRPC plus write, fsync and "
        "a sort of the same cells",
        bulk.put_arrow,
    ),
    at_least(
        "put-arrow-framed",
        0.5,
        "put_arrow of 100,000 rows of 10 × 100 bytes, against raw Arrow over a plain socket plus write, fsync and "
        "a sort of the same cells",
        bulk.put_arrow_framed,
    ),
    at_least(
        "batch-puts-rate",
        5.0,
        "batch() of 20,000 rows of 10 × 100 bytes from dicts, in columns, against the same as mutations",
        batches.puts,
    ),
    at_most(
        "batch-puts-beside",
        1.0,
        "",
        "the 99th percentile of another client's puts beside batches in columns, against beside batches of mutations",
        batches.puts_beside,
    ),
    at_least(
        "scan-to-arrow",
        0.4,
        "a full scan to Arrow cells, against raw Arrow over a stream of gRPC",
        scans.full_scan,
    ),
    *[
        at_least(
            f"short-scan-{row_count}-cpu",
            1.3,
            f"CPU of client and server of a scan with limit {row_count} by a call of its own, against one opened "
            "by a point request",
            partial(short_scans.cpu, row_count=row_count),
        )
        for row_count in (5, 50)
    ],
    at_least(
        "scan-compacted",
        0.7,
        "a full scan of a compacted table to Arrow cells, against raw Arrow over the same kind of socket",
        scans.compacted_scan,
    ),
    at_least(
        "slow-sync-puts",
        10.0,
        "64 putters against one, with 3 ms added to each sync",
        group_commit.puts_with_slow_sync,
    ),
    at_least(
        "slow-sync-increments",
        10.0,
        "64 incrementers of one row against one, with 3 ms added to each sync",
        group_commit.increments_with_slow_sync,
    ),
    at_least(
        "fsync-puts",
        0.6,
        "64 putters at fsync, against the same at os",
        group_commit.puts_at_fsync,
    ),
    at_least(
        "fsync-increments",
        0.6,
        "64 incrementers of one row at fsync, against the same at os",
        group_commit.increments_at_fsync,
    ),
    at_least(
        "get-from-files",
        0.7,
        "gets from store files, against gets from the memstore",
        memory_and_files.gets,
    ),
    at_least(
        "many-tables",
        0.5,
        "put_arrow to 500 tables evenly, with memory full, against the same to 4 tables",
        many_tables.put_arrow,
    ),
    at_most(
        "get-while-flushing",
        5.0,
        "",
        "the 99th percentile of a get while a flush runs, against a quiet server",
        flushing.gets,
    ),
    at_most(
        "ready",
        1.0,
        "s",
        "start to ready on an empty folder, pandas being installed",
        footprint.ready,
    ),
    at_most(
        "resident",
        150.0,
        "MB",
        "memory resident in an idle server",
        footprint.resident,
    ),
    at_most(
        "recover-puts",
        10.0,
        "s",
        "start to ready with a 100 MB log of 1 KiB puts",
        recovery.of_puts,
    ),
    at_most(
        "recover-increments",
        10.0,
        "s",
        "start to ready with a 100 MB log of increments",
        recovery.of_increments,
    ),
    *_TYPED,
)

# The cost of abusive clients to the server and to other clients; the sentences give the cost in earlier versions too.
# Measured only on request, by `python -m bench edges`.
EDGES = (
    at_most(
        "edges-refusals",
        1.0,
        "MB",
        "answers to a batch of 4,000 rows with a family that a table of 1,000 families lacks; formerly 516 MB, with "
        "2.6 GiB resident",
        edge_bounds.refusals,
    ),
    at_most(
        "edges-large-messages",
        2198.0,
        "MiB",
        "peak resident memory when 24 connections send 60 MiB each concurrently; formerly 3.8 GiB",
        edge_bounds.large_messages,
    ),
    at_most(
        "edges-mixed-batches",
        214.0,
        "MiB",
        "peak resident memory of a server of 64 MiB, the least, while eight clients put batches of four shapes: its "
        "memory and the allowance of 150 MiB; formerly 254 to 270",
        edge_bounds.mixed_batches,
    ),
    at_most(
        "edges-unread-gets",
        1024.0,
        "MiB",
        "peak resident memory while 40 clients get large rows and read nothing; formerly an increase of 3.1 GiB, and "
        "6.4 s for another client's call",
        edge_bounds.unread_gets,
    ),
    at_most(
        "edges-unread-scans",
        1024.0,
        "MiB",
        "peak resident memory while 40 clients scan large rows and read nothing; formerly 1.4 to 1.8 GiB",
        edge_bounds.unread_scans,
    ),
    at_most(
        "edges-answers-flush",
        165.0,
        "ms",
        "the longest wait of puts during the flush of 100,000 rows that were written with request ids; formerly "
        "330 ms, and a manifest of 21.6 MB",
        edge_waits.flush_of_answers,
    ),
    at_most(
        "edges-increments",
        625.0,
        "ms",
        "the longest wait of puts of other rows during one request of 100,000 increments and a flush; formerly 2.5 s",
        edge_waits.increments,
    ),
    at_most(
        "edges-bulk",
        46.0,
        "ms",
        "the longest wait of puts to another table during a bulk batch of 10,000 cells of one byte; formerly 46 to "
        "138 ms",
        edge_waits.small_bulk_batch,
    ),
)

# The CPU time of a point call. Measured only on request, by `python -m bench cpu`.
CPU = (
    at_most(
        "cpu-get",
        3.0,
        "",
        "CPU time of a get by one caller, client and server, against a raw framed echo of the same messages",
        point_cpu.gets,
    ),
    at_most(
        "cpu-put",
        5.0,
        "",
        "CPU time of a put at `os` by one caller, client and server, against that of a raw framed echo",
        point_cpu.puts,
    ),
    at_most(
        "cpu-increment",
        5.0,
        "",
        "CPU time of an increment at `os` by one caller, client and server, against that of a raw framed echo",
        point_cpu.increments,
    ),
)
