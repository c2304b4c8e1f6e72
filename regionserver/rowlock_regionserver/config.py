"""The region server's configuration: one frozen object, passed down. Units and bounds are in the names.

`rowlock-server --config help` prints the descriptions.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

KIB = 1024
MIB = 1024 * KIB
GIB = 1024 * MIB

# Settings that may be 0: no wait, no delay, no space kept free.
_MAY_BE_ZERO = frozenset(
    (
        "timestamp_ahead_ms_max",
        "log_quick_sync_us",
        "block_cache_bytes",
        "block_cache_bytes_max",
        "bulk_file_bytes_min",
        "long_work_pause_percent",
        "row_lock_wait_ms",
        "slow_call_ms",
        "retry_after_ms",
        "disk_free_bytes_min",
        "open_store_files_max",
        "compaction_bytes_per_second",
        "locks",
        "lock_wait_ms",
        "compaction_threads",
        "compaction_history_succeeded_max",
        "compaction_history_failed_max",
        "compaction_history_attempted_max",
    )
)

# Python waits for up to 63 bits of nanoseconds, which is three times as long.
_MS_MAX = 100 * 365 * 24 * 3600 * 1000

_MAXIMA = {
    # The log has two bytes for these lengths (wal/mutation.py).
    "row_bytes_max": (1 << 16) - 1,
    "qualifier_bytes_max": (1 << 16) - 1,
    # gRPC has 31 bits for the length of a message, and its limit is set 1 MiB higher (rpc/grpc/listener.py).
    "request_bytes_max": (1 << 31) - 1 - MIB,
    # A cell that fits no message could not be read.
    "cell_bytes_max": (1 << 31) - 1 - MIB,
    # The protocol has 32 bits for it.
    "retry_after_ms": (1 << 32) - 1,
    # The log has four bytes for an offset in a segment (wal/record.py).
    "log_segment_bytes": 1 << 31,
    # What is merged at once must fit one Arrow column of bytes, together with the excess of its last cells.
    "scan_window_bytes": 256 * MIB,
    "merge_window_bytes_max": GIB,
    "flush_window_bytes": 256 * MIB,
    "flush_merge_window_bytes": 256 * MIB,
    "compaction_window_bytes": 256 * MIB,
    # Each start may use up a reserved block: in 63 bits that allows two billion starts, and stamps a day ahead at most.
    "write_numbers_per_leap": 1 << 32,
    "stamp_leap_ms": 24 * 3600 * 1000,
    # gRPC has 31 bits for twice the connections (rpc/grpc/listener.py), and for the streams.
    "connections_max": (1 << 30) - 1,
    "streams_per_connection_max": (1 << 31) - 1,
    # A start makes those of compactions and of procedures at once.
    "compaction_threads": 1000,
    "flush_threads": 1000,
    "worker_threads": 1000,
    "procedure_processes": 1000,
}


# Settings that are text.
TEXTS = frozenset(("procedures",))


@dataclass(frozen=True, slots=True)
class Config:
    """Limits and sizes. The defaults fit a laptop; tests shrink them so that every edge is crossed."""

    # Limits of a request.
    row_bytes_max: Annotated[int, "the longest row key"] = 32 * KIB - 1
    qualifier_bytes_max: Annotated[int, "the longest qualifier"] = 32 * KIB
    cell_bytes_max: Annotated[int, "the longest value"] = 10 * MIB
    request_bytes_max: Annotated[int, "the longest message, both ways"] = 64 * MIB
    rows_per_request_max: Annotated[int, "rows of one get, batch or bulk message of rows"] = 100_000
    timestamp_ahead_ms_max: Annotated[int, "how far in the future a timestamp may be"] = 24 * 3600 * 1000
    filter_depth_max: Annotated[int, "filters within filters"] = 32

    # The log.
    log_segment_bytes: Annotated[int, "one file of the log"] = 64 * MIB
    log_segment_count_max: Annotated[int, "beyond it, the regions that pin the oldest segment are flushed"] = 16
    log_pending_bytes_max: Annotated[int, "appended and not yet written; beyond it writes are refused"] = 64 * MIB
    log_idle_marker_ms: Annotated[int, "after this long without a write, the end of the log is marked"] = 100
    log_quick_sync_us: Annotated[
        int, "while the log's syncs and writes take less, the event loop waits for a single sync, and writes; 0: never"
    ] = 1000
    write_numbers_per_leap: Annotated[int, "write numbers that are reserved at once"] = 1 << 20
    stamp_leap_ms: Annotated[int, "timestamps that are reserved at once"] = 1000

    # Memory. The bounds of the parts fit this `memory`; memory_plan.py scales them for another one.
    memory: Annotated[int, "all parts together; the process takes 150 MiB more at most; scales the others"] = 2 * GIB
    memstore_bytes_max: Annotated[int, "all regions; at half of it they are flushed, beyond it writes are refused"] = (
        512 * MIB
    )
    memstore_flush_bytes: Annotated[int, "a region that holds more is flushed"] = 128 * MIB
    immutable_segments_max: Annotated[int, "of a region; with this many it is flushed"] = 16
    block_cache_bytes: Annotated[int, "blocks of store files that are kept"] = 64 * MIB
    block_cache_bytes_max: Annotated[int, "the same, while the other parts leave this much of memory unused"] = 1 * GIB
    index_bytes_max: Annotated[int, "reserved for block indexes and Bloom filters of store files"] = 32 * MIB
    flush_threads: Annotated[int, "flushes that run at once"] = 4
    flush_work_bytes_max: Annotated[int, "what flushes read, merge and write; beyond it the next flush waits"] = (
        48 * MIB
    )
    flush_window_bytes: Annotated[int, "made into Arrow in one piece, while other threads wait"] = 256 * KIB
    flush_merge_window_bytes: Annotated[int, "the same for all segments of a merge"] = 1 * MIB
    bulk_file_bytes_min: Annotated[int, "a larger bulk batch is written as a file of its own; 0: each"] = 256 * KIB
    request_bytes_in_flight_max: Annotated[int, "large messages, bulk batches and requests that wait for a worker"] = (
        512 * MIB
    )
    request_ids_bytes_max: Annotated[int, "the idempotency table; beyond it the oldest answers are dropped"] = 48 * MIB

    # Scans.
    scan_batch_bytes: Annotated[int, "one message of a scan"] = 1 * MIB
    scan_batch_rows: Annotated[int, "the same in rows"] = 50_000
    scan_window_bytes: Annotated[int, "read at once from all sources of a scan; a larger row is read in parts"] = (
        8 * MIB
    )
    merge_window_bytes_max: Annotated[int, "held of the sources for the next windows"] = 64 * MIB
    scan_lease_ms: Annotated[int, "a scan whose client takes nothing for this long is ended"] = 10 * 60 * 1000
    scan_held_ms: Annotated[int, "how long a scan that a point request has opened waits for its client to go on"] = (
        10_000
    )
    scan_heartbeat_ms: Annotated[int, "after this long without a batch, a scan yields and reports its progress"] = 100
    scans_open_max: Annotated[int, "beyond it no scan begins"] = 1000
    scan_bytes_held_max: Annotated[
        int, "windows, and batches that clients have not taken; beyond it no scan begins"
    ] = 256 * MIB

    # Snapshots.
    snapshots_open_max: Annotated[int, "beyond it no snapshot begins"] = 10_000
    snapshot_lease_ms: Annotated[int, "of a snapshot whose client names none"] = 3600 * 1000
    snapshot_lease_ms_max: Annotated[int, "the longest that a client may name"] = 24 * 3600 * 1000
    snapshot_ids_remembered: Annotated[int, "of ended ones, so that no id is reused"] = 100_000

    # Sessions and locks.
    sessions_open_max: Annotated[int, "beyond it no session begins"] = 10_000
    session_idle_ms: Annotated[int, "of a session whose client names none; without heartbeats it ends then"] = 300_000
    session_idle_ms_max: Annotated[int, "the longest that a client may name"] = 24 * 3600 * 1000
    session_ids_remembered: Annotated[int, "of ended ones, with when and why"] = 10_000
    locks: Annotated[int, "0: table operations take no locks, and clients can't take any"] = 1
    lock_wait_ms: Annotated[int, "how long a request for a lock waits, if the client names no time"] = 10_000
    lock_wait_ms_max: Annotated[int, "the longest that a client may name"] = 600_000
    lock_requests_waiting_max: Annotated[int, "beyond it requests for locks are refused"] = 10_000

    # Row procedures.
    procedures: Annotated[
        str, "installed row procedures that clients may call, with commas between names; none: procedures are off"
    ] = ""
    procedure_processes: Annotated[int, "that run procedures, each one call at a time"] = 2
    procedure_memory_bytes_max: Annotated[int, "of the data of each such process, beside `memory`"] = 256 * MIB
    procedure_ms_max: Annotated[int, "how long a call may hold its row; then its process is killed"] = 200
    procedure_read_bytes_max: Annotated[
        int, "the argument, and the cells that a call reads, 100 bytes more for each"
    ] = 1 * MIB
    procedure_write_bytes_max: Annotated[
        int, "the answer of a call, and the cells that it writes, 100 bytes more for each"
    ] = 256 * KIB

    # Regions.
    regions_per_table_max: Annotated[int, "of a new table; splits may make more"] = 1000
    named_snapshots_max: Annotated[int, "beyond it none is created"] = 1000

    # Bulk writes.
    commit_identities_days: Annotated[int, "how long at least a commit with an identity is known"] = 30
    commit_identities_max: Annotated[int, "ranges of numbers, at least one for each text, in each table"] = 10_000

    # Files.
    open_store_files_max: Annotated[int, "descriptors that stay open; 0: half of the process's limit"] = 0

    # Compactions.
    compaction_threads: Annotated[int, "compactions that run at once; 0: none ever runs"] = 1
    compaction_check_ms: Annotated[int, "how often all stores are looked at, also without a flush"] = 1000
    compaction_failures_max: Annotated[int, "in a row; then automatic compaction of the store stops"] = 2
    compaction_pause_ms: Annotated[int, "of automatic compaction of a store, after one that did not succeed"] = 60_000
    compaction_history_succeeded_max: Annotated[int, "ended compactions that are shown, of each store"] = 3
    compaction_history_failed_max: Annotated[int, "the same for those that failed"] = 3
    compaction_history_attempted_max: Annotated[int, "the same for those that could not begin"] = 2
    compaction_window_bytes: Annotated[int, "cells that a compaction merges at once"] = 4 * MIB
    compaction_bytes_per_second: Annotated[int, "of the input files; 0: as many as there is time for"] = 0

    # Threads, queues and waiting.
    worker_threads: Annotated[int, "threads for requests that may have to wait"] = 8
    long_work_pause_percent: Annotated[
        int,
        "of the time of bulk batches, and three times that of flushes, while gets and puts come; longer while the "
        "event loop is busy; 0: never",
    ] = 100
    requests_in_flight_max: Annotated[int, "point requests; beyond it they are refused"] = 10_000
    answer_bytes_held_max: Annotated[int, "point answers that clients have not taken; beyond it no answer is made"] = (
        256 * MIB
    )
    connections_max: Annotated[int, "of gRPC and direct ones, each"] = 1000
    streams_per_connection_max: Annotated[int, "beyond it gRPC queues a client's calls"] = 1000
    slow_call_ms: Annotated[int, "a call of rows that takes longer is a line in the log; 0: none is"] = 10_000
    row_lock_wait_ms: Annotated[int, "how long a call without a deadline waits for row locks"] = 10_000
    retry_after_ms: Annotated[int, "the pause that a refusal suggests to the client"] = 200
    request_ids_forgotten_after_ms: Annotated[int, "how long a client that sends nothing is remembered"] = 3600 * 1000
    manifest_answers_bytes_max: Annotated[int, "of saved answers in a manifest; more are in a file of their own"] = (
        64 * KIB
    )
    disk_free_bytes_min: Annotated[int, "below it writes are refused, so that a flush still fits"] = 64 * MIB

    def __post_init__(self) -> None:
        for name in self.__slots__:
            value = getattr(self, name)
            if name in TEXTS:
                assert isinstance(value, str), f"{name} must be a str, not {value!r}"
                continue
            assert isinstance(value, int), f"{name} must be an int, not {value!r}"
            minimum = 0 if name in _MAY_BE_ZERO else 1
            if value < minimum:
                raise ValueError(f"{name} must be at least {minimum}, it is {value}")
            maximum = _MAXIMA.get(name, _MS_MAX if name.endswith(("_ms", "_ms_max")) else value)
            if value > maximum:
                raise ValueError(f"{name} must be at most {maximum}, it is {value}")
