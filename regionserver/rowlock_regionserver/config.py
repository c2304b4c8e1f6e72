"""The region server's configuration: one frozen object, passed down. Units and bounds are in the names."""

from __future__ import annotations

from dataclasses import dataclass

KIB = 1024
MIB = 1024 * KIB
GIB = 1024 * MIB

# Settings that may be 0: no wait, no delay, no space kept free.
_MAY_BE_ZERO = frozenset(
    (
        "timestamp_ahead_ms_max",
        "log_quick_sync_us",
        "block_cache_bytes",
        "bulk_file_bytes_min",
        "long_work_pause_percent",
        "row_lock_wait_ms",
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
}


@dataclass(frozen=True, slots=True)
class Config:
    """Limits and sizes. The defaults fit a laptop; tests shrink them so that every edge is crossed."""

    # Limits of a request.
    row_bytes_max: int = 32 * KIB - 1
    qualifier_bytes_max: int = 32 * KIB
    cell_bytes_max: int = 10 * MIB
    request_bytes_max: int = 64 * MIB
    rows_per_request_max: int = 100_000
    timestamp_ahead_ms_max: int = 24 * 3600 * 1000
    filter_depth_max: int = 32

    # The log.
    log_segment_bytes: int = 64 * MIB
    log_segment_count_max: int = 16  # beyond it, the regions that pin the oldest segment are flushed
    log_pending_bytes_max: int = 64 * MIB  # appended and not yet written
    log_idle_marker_ms: int = 100
    log_quick_sync_us: int = 1000  # while syncs take less, the event loop blocks for a single caller's; 0: never
    write_numbers_per_leap: int = 1 << 20
    stamp_leap_ms: int = 1000

    # Memory. The bounds of the parts fit this `memory`; memory_plan.py scales them for another one.
    memory: int = 2 * GIB  # all parts together; the process takes 150 MiB more at most (docs/memory.md)
    memstore_bytes_max: int = 512 * MIB  # all regions; at half of it they are flushed, beyond it writes are refused
    memstore_flush_bytes: int = 128 * MIB  # a region that holds more is flushed
    immutable_segments_max: int = 16
    block_cache_bytes: int = 64 * MIB
    index_bytes_max: int = 32 * MIB  # reserved for block indexes and Bloom filters of store files
    flush_threads: int = 4
    flush_work_bytes_max: int = 48 * MIB  # what flushes read, merge and write; beyond it the next flush waits
    flush_window_bytes: int = 256 * KIB  # made into Arrow in one piece, while other threads wait
    flush_merge_window_bytes: int = 1 * MIB  # the same for all segments of a merge
    bulk_file_bytes_min: int = 256 * KIB  # a larger bulk batch is written as a file of its own
    request_bytes_in_flight_max: int = 512 * MIB  # large messages, bulk batches and requests that wait for a worker
    request_ids_bytes_max: int = 48 * MIB  # the idempotency table; beyond it the oldest answers are dropped

    # Scans.
    scan_batch_bytes: int = 1 * MIB
    scan_batch_rows: int = 50_000
    scan_window_bytes: int = 8 * MIB  # read at once from all sources of a scan; a larger row is read in parts
    merge_window_bytes_max: int = 64 * MIB  # held of the sources for the next windows
    scan_lease_ms: int = 10 * 60 * 1000
    scan_heartbeat_ms: int = 100  # after so long without a batch, a scan yields and reports its progress
    scans_open_max: int = 1000
    scan_bytes_held_max: int = 256 * MIB  # windows, and batches that clients have not taken; beyond it no scan begins

    # Snapshots.
    snapshots_open_max: int = 10_000
    snapshot_lease_ms: int = 3600 * 1000  # if the client names none
    snapshot_lease_ms_max: int = 24 * 3600 * 1000
    snapshot_ids_remembered: int = 100_000  # of ended ones, so that no id is reused

    # Sessions and locks.
    sessions_open_max: int = 10_000
    session_idle_ms: int = 300_000  # if the client names none
    session_idle_ms_max: int = 24 * 3600 * 1000
    session_ids_remembered: int = 10_000  # of ended ones, with when and why
    locks: int = 1  # 0: table operations take no locks, and clients can't take any
    lock_wait_ms: int = 10_000  # if the client names none
    lock_wait_ms_max: int = 600_000
    lock_requests_waiting_max: int = 10_000

    # Bulk writes.
    commit_identities_days: int = 30  # how long at least a commit with an identity is known
    commit_identities_max: int = 10_000  # texts, in each table

    # Files.
    open_store_files_max: int = 0  # descriptors that stay open; 0: half of the process's limit

    # Compactions.
    compaction_threads: int = 1  # compactions that run at once; 0: none ever runs
    compaction_check_ms: int = 1000  # how often all stores are looked at, also without a flush
    compaction_failures_max: int = 2  # in a row; then automatic compaction of the store stops
    compaction_pause_ms: int = 60_000  # of automatic compaction of a store, after one that did not succeed
    compaction_history_succeeded_max: int = 3  # ended compactions that are shown, of each store
    compaction_history_failed_max: int = 3
    compaction_history_attempted_max: int = 2
    compaction_window_bytes: int = 4 * MIB  # cells that a compaction merges at once
    compaction_bytes_per_second: int = 0  # of the input files; 0: as many as there is time for

    # Threads, queues and waiting.
    worker_threads: int = 8
    long_work_pause_percent: int = 100  # of the time of flushes and bulk batches, while gets and puts come; 0: never
    requests_in_flight_max: int = 10_000
    answer_bytes_held_max: int = 256 * MIB  # point answers that clients have not taken; beyond it no answer is made
    connections_max: int = 1000
    streams_per_connection_max: int = 1000  # beyond it gRPC queues a client's calls
    row_lock_wait_ms: int = 10_000  # for calls without a deadline
    retry_after_ms: int = 200
    request_ids_forgotten_after_ms: int = 3600 * 1000
    manifest_answers_bytes_max: int = 64 * KIB  # of saved answers in a manifest; more are in a file of their own
    disk_free_bytes_min: int = 64 * MIB  # below it writes are refused, so that a flush still fits

    def __post_init__(self) -> None:
        for name in self.__slots__:
            value = getattr(self, name)
            assert isinstance(value, int), f"{name} must be an int, not {value!r}"
            minimum = 0 if name in _MAY_BE_ZERO else 1
            if value < minimum:
                raise ValueError(f"{name} must be at least {minimum}, it is {value}")
            maximum = _MAXIMA.get(name, _MS_MAX if name.endswith(("_ms", "_ms_max")) else value)
            if value > maximum:
                raise ValueError(f"{name} must be at most {maximum}, it is {value}")
