"""What a server holds and does at a moment, as values, and their conversion from messages."""

from __future__ import annotations

from dataclasses import dataclass

from rowlock_proto.v1 import catalog_pb2

_Response = catalog_pb2.ServerStatusResponse


@dataclass(frozen=True, slots=True)
class MemoryPart:
    """One part of the server's memory: what it holds, the most since the server's start, and its bound, in bytes.

    setting: the setting that is the bound, see docs/memory.md.
    """

    setting: str
    bytes_held: int
    bytes_held_peak: int
    bytes_max: int


@dataclass(frozen=True, slots=True)
class TableStatus:
    """A table's sizes, over all its regions.

    damaged_region_count: regions that are closed because of damage; the other numbers leave them out.
    memstore_bytes: in memory, not flushed yet. store_file_bytes: on disk, compressed.
    """

    name: str
    region_count: int
    damaged_region_count: int
    memstore_bytes: int
    store_file_count: int
    store_file_bytes: int
    store_file_cells: int


@dataclass(frozen=True, slots=True)
class SnapshotStatus:
    """An open snapshot, and what it keeps the server from removing.

    snapshot_id: 16 bytes. made_ms: the server's clock, milliseconds since the epoch. lease_ms: it ends after this long
    without use; expires_in_ms: if nothing uses it from now on. scan_count: scans that read it now.
    writes_since: how many changes the table has got since; the server keeps what they replaced and deleted.
    """

    snapshot_id: bytes
    table: str
    made_ms: int
    lease_ms: int
    expires_in_ms: int
    scan_count: int
    writes_since: int


@dataclass(frozen=True, slots=True)
class ProcedureStatus:
    """A row procedure that clients may call.

    call_count: calls that have run since the server's start; failed_count: those that raised an error or took too long.
    """

    name: str
    call_count: int
    failed_count: int


@dataclass(frozen=True, slots=True)
class ServerStatus:
    """A server at a moment. Sizes are in bytes.

    version, data_folder_id, incarnation_id, uptime_ms, now_ms, address: as in ServerInfo.
    memory_bytes_max: the setting `memory`. memory_bytes_held: what the parts hold together. resident_bytes: of the
        process, without file pages; None: unknown on its system. memory_parts: see docs/memory.md.
    disk_free_bytes: of the data folder's file system. open_store_files: those whose descriptor is open.
    named_snapshot_count, named_snapshot_bytes: named snapshots, and the bytes of store files that they have and no
        table.
    log_segment_count, log_segment_bytes: of the write-ahead log. log_pending_bytes: not written yet. is_log_full: the
        disk is full, and the server refuses writes.
    tables: sorted by name. snapshots: oldest first.
    connection_count, call_count, scan_count: connections (gRPC's and direct ones), calls of any kind and scans, now.
        conversation_count: clients that send point operations, by gRPC or over a direct connection.
    compactions_queued, compactions_working: see `Client.compactions`.
    procedures: those that `Table.call` may call, sorted by name.
    """

    address: str
    version: str
    data_folder_id: str
    incarnation_id: str
    uptime_ms: int
    now_ms: int
    memory_bytes_max: int
    memory_bytes_held: int
    resident_bytes: int | None
    memory_parts: tuple[MemoryPart, ...]
    disk_free_bytes: int
    open_store_files: int
    named_snapshot_count: int
    named_snapshot_bytes: int
    log_segment_count: int
    log_segment_bytes: int
    log_pending_bytes: int
    is_log_full: bool
    tables: tuple[TableStatus, ...]
    snapshots: tuple[SnapshotStatus, ...]
    connection_count: int
    call_count: int
    scan_count: int
    conversation_count: int
    compactions_queued: int
    compactions_working: int
    procedures: tuple[ProcedureStatus, ...] = ()


def status_from(message: _Response, address: str) -> ServerStatus:
    """Returns a server's status from its message. address: the server's."""
    memory, log, calls = message.memory, message.log, message.calls
    return ServerStatus(
        address=address,
        version=message.version,
        data_folder_id=message.data_folder_id,
        incarnation_id=message.incarnation_id,
        uptime_ms=message.uptime_ms,
        now_ms=message.now_ms,
        memory_bytes_max=memory.bytes_max,
        memory_bytes_held=memory.bytes_held,
        resident_bytes=memory.resident_bytes or None,
        memory_parts=tuple(
            MemoryPart(part.setting, part.bytes_held, part.bytes_held_peak, part.bytes_max) for part in memory.parts
        ),
        disk_free_bytes=message.disk.free_bytes,
        open_store_files=message.disk.open_store_files,
        named_snapshot_count=message.disk.named_snapshot_count,
        named_snapshot_bytes=message.disk.named_snapshot_bytes,
        log_segment_count=log.segment_count,
        log_segment_bytes=log.segment_bytes,
        log_pending_bytes=log.pending_bytes,
        is_log_full=log.is_full,
        tables=tuple(_table(table) for table in message.tables),
        snapshots=tuple(_snapshot(snapshot) for snapshot in message.snapshots),
        connection_count=calls.connection_count,
        call_count=calls.call_count,
        scan_count=calls.scan_count,
        conversation_count=calls.conversation_count,
        compactions_queued=message.compactions.queued_count,
        compactions_working=message.compactions.working_count,
        procedures=tuple(ProcedureStatus(each.name, each.call_count, each.failed_count) for each in message.procedures),
    )


def _table(message: _Response.TableStatus) -> TableStatus:
    return TableStatus(
        message.name,
        message.region_count,
        message.damaged_region_count,
        message.memstore_bytes,
        message.store_file_count,
        message.store_file_bytes,
        message.store_file_cells,
    )


def _snapshot(message: _Response.SnapshotStatus) -> SnapshotStatus:
    made = message.snapshot
    return SnapshotStatus(
        made.snapshot_id,
        made.table,
        made.made_ms,
        made.lease_ms,
        message.expires_in_ms,
        message.scan_count,
        message.writes_since,
    )
