"""The method ServerStatus of the Catalog service: what the server holds and does at this moment."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from rowlock_proto.v1 import catalog_pb2

from rowlock_regionserver.clock import Clock
from rowlock_regionserver.compaction.job import State
from rowlock_regionserver.engine.workers import Workers
from rowlock_regionserver.files import Files
from rowlock_regionserver.host.snapshots import OpenSnapshot
from rowlock_regionserver.host.status import StatusHost, TableStatus, folder_bytes, table_statuses, writes_since
from rowlock_regionserver.ledger import Ledger
from rowlock_regionserver.procedures.runner import ProcedureStatistics
from rowlock_regionserver.resident import anonymous_bytes
from rowlock_regionserver.rpc.grpc.calls import Method
from rowlock_regionserver.rpc.messages.failures import parsed
from rowlock_regionserver.rpc.messages.tables import snapshot_message
from rowlock_regionserver.rpc.services.catalog_service import version
from rowlock_regionserver.rpc.services.worker_calls import in_worker

_Response = catalog_pb2.ServerStatusResponse


@dataclass(frozen=True, slots=True)
class CallCounts:
    """What clients do at this moment."""

    connections: int
    calls: int
    scans: int
    conversations: int


class StatusService:
    """Answers ServerStatus. `call_counts` is called from any thread."""

    def __init__(
        self,
        host: StatusHost,
        workers: Workers,
        ledger: Ledger,
        folder: Path,
        files: Files,
        clock: Clock,
        ids: tuple[str, str],
        call_counts: Callable[[], CallCounts],
        procedures: Callable[[], Sequence[ProcedureStatistics]] = tuple,
    ) -> None:
        """`ids`: of the data folder and of the incarnation."""
        self._host = host
        self._workers = workers
        self._ledger = ledger
        self._folder = folder
        self._files = files
        self._clock = clock
        self._ids = ids
        self._call_counts = call_counts
        self._procedures = procedures

    def methods(self) -> dict[str, Method]:
        """Returns the method by its name in catalog.proto."""
        return {"ServerStatus": in_worker(self._workers.quick, self._status)}

    def _status(self, data: bytes) -> _Response:
        parsed(catalog_pb2.ServerStatusRequest, data)
        host = self._host
        statistics = host.statistics()
        counts = self._call_counts()
        folder_id, incarnation_id = self._ids
        return _Response(
            version=version(),
            data_folder_id=folder_id,
            incarnation_id=incarnation_id,
            uptime_ms=host.uptime_ms(),
            now_ms=self._clock.now_ms(),
            memory=self._memory(),
            disk=self._disk(statistics.open_files.open_count),
            log=_Response.Log(
                segment_count=statistics.log.segment_count,
                segment_bytes=folder_bytes(self._folder / "log"),
                pending_bytes=statistics.log.pending_bytes,
                is_full=statistics.log.is_full,
            ),
            tables=[_table_message(status) for status in table_statuses(host.table_entries, host.region)],
            snapshots=[_snapshot_message(opened) for opened in host.snapshots.opened()],
            calls=_Response.Calls(
                connection_count=counts.connections,
                call_count=counts.calls,
                scan_count=counts.scans,
                conversation_count=counts.conversations,
            ),
            compactions=self._compactions(),
            procedures=[
                _Response.Procedure(name=each.name, call_count=each.call_count, failed_count=each.failed_count)
                for each in self._procedures()
            ],
        )

    def _disk(self, open_store_files: int) -> _Response.Disk:
        snapshots = self._host.named_snapshots
        return _Response.Disk(
            free_bytes=self._files.free_bytes(self._folder),
            open_store_files=open_store_files,
            named_snapshot_count=len(snapshots),
            named_snapshot_bytes=self._host.held_by_snapshots(snapshots).held_bytes,
        )

    def _memory(self) -> _Response.Memory:
        parts = [
            _Response.Part(
                setting=setting,
                bytes_max=account.bytes_max,
                bytes_held=account.bytes_held,
                bytes_held_peak=account.bytes_held_peak,
            )
            for setting, account in self._ledger.statistics().items()
        ]
        return _Response.Memory(
            bytes_max=self._ledger.bytes_max,
            bytes_held=sum(part.bytes_held for part in parts),
            resident_bytes=anonymous_bytes(),
            parts=parts,
        )

    def _compactions(self) -> _Response.Compactions:
        states = [job.state for job in self._host.compactions.jobs()]
        return _Response.Compactions(queued_count=states.count(State.QUEUED), working_count=states.count(State.WORKING))


def _table_message(status: TableStatus) -> _Response.TableStatus:
    return _Response.TableStatus(
        name=status.name,
        region_count=status.region_count,
        damaged_region_count=status.damaged_region_count,
        memstore_bytes=status.memstore_bytes,
        store_file_count=status.store_file_count,
        store_file_bytes=status.store_file_bytes,
        store_file_cells=status.store_file_cells,
    )


def _snapshot_message(opened: OpenSnapshot) -> _Response.SnapshotStatus:
    return _Response.SnapshotStatus(
        snapshot=snapshot_message(opened.snapshot),
        expires_in_ms=opened.expires_in_ms,
        scan_count=opened.scan_count,
        writes_since=writes_since(opened),
    )
