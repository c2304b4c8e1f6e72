"""The command status: what the server holds and does at this moment."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING

from rowlock.cli.quantities import clock_text, count_text, duration_text, size_text
from rowlock.cli.session import Call

if TYPE_CHECKING:
    from rowlock.status import ProcedureStatus, ServerStatus, SnapshotStatus, TableStatus


def status(call: Call) -> None:
    """Shows the server: its memory and the parts of it, log, disk, tables, procedures, open scans and
    snapshots.

    A part of the memory is named by the setting that bounds it, see docs/memory.md. An open snapshot keeps the server
    from removing what was replaced or deleted since.

    --json: {"address", "version", "uptime_ms", "memory_bytes_held", "memory_parts": [...], "tables": [...],
    "snapshots": [...], ...}, as rowlock.ServerStatus
    """
    found = call.client.status()
    if call.json_lines:
        snapshots = [{**asdict(each), "snapshot_id": each.snapshot_id.hex()} for each in found.snapshots]
        call.output.record({**asdict(found), "snapshots": snapshots}, "")
    else:
        call.output.settings(_groups(found))


def _groups(found: ServerStatus) -> Iterator[tuple[str, Mapping[str, str]]]:
    yield "", _server(found)
    yield (
        "memory",
        {
            part.setting: f"{size_text(part.bytes_held)} of {size_text(part.bytes_max)}; "
            f"highest {size_text(part.bytes_held_peak)}"
            for part in found.memory_parts
        },
    )
    if found.tables:
        yield "tables", {table.name: _table(table) for table in found.tables}
    if found.procedures:
        yield "procedures", {each.name: _procedure(each) for each in found.procedures}
    if found.snapshots:
        yield "snapshots", {each.snapshot_id.hex(): _snapshot(each, found.now_ms) for each in found.snapshots}


def _server(found: ServerStatus) -> dict[str, str]:
    resident = "" if found.resident_bytes is None else f"; {size_text(found.resident_bytes)} resident"
    unwritten = f", {size_text(found.log_pending_bytes)} not written yet" if found.log_pending_bytes else ""
    full = "; the disk is full, and writes are refused" if found.is_log_full else ""
    return {
        "server": f"{found.address}, rowlock {found.version}",
        "uptime": duration_text(found.uptime_ms / 1000),
        "clients": f"{count_text(found.connection_count, 'connection')}, {count_text(found.call_count, 'call')}, "
        f"{count_text(found.conversation_count, 'client')} with point operations",
        "scans": f"{found.scan_count} open",
        "memory": f"{size_text(found.memory_bytes_held)} of {size_text(found.memory_bytes_max)}{resident}",
        "log": f"{count_text(found.log_segment_count, 'segment')}, {size_text(found.log_segment_bytes)}"
        f"{unwritten}{full}",
        "disk": f"{size_text(found.disk_free_bytes)} free",
        "store files": f"{found.open_store_files} open",
        "named snapshots": f"{found.named_snapshot_count}, which alone hold {size_text(found.named_snapshot_bytes)}",
        "compactions": f"{found.compactions_working} working, {found.compactions_queued} queued",
    }


def _table(found: TableStatus) -> str:
    damaged = f", {found.damaged_region_count} of them closed because of damage" if found.damaged_region_count else ""
    return (
        f"{count_text(found.region_count, 'region')}{damaged}; {size_text(found.memstore_bytes)} in memory; "
        f"{count_text(found.store_file_count, 'file')}, {size_text(found.store_file_bytes)}, "
        f"{count_text(found.store_file_cells, 'cell')}"
    )


def _procedure(found: ProcedureStatus) -> str:
    failed = f", {found.failed_count} of them failed" if found.failed_count else ""
    return f"{count_text(found.call_count, 'call')}{failed}"


def _snapshot(found: SnapshotStatus, now_ms: int) -> str:
    age = duration_text((now_ms - found.made_ms) / 1000)
    return (
        f"of {found.table}; made {clock_text(found.made_ms)}, {age} ago; "
        f"ends in {duration_text(found.expires_in_ms / 1000)} if unused; {count_text(found.scan_count, 'scan')}; "
        f"keeps what {count_text(found.writes_since, 'later change')} replaced or deleted"
    )
