"""The Catalog service: which tables and regions exist, and which server has each region."""

from __future__ import annotations

import asyncio
import functools
import importlib.metadata
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from google.protobuf.message import Message
from rowlock_proto.v1 import catalog_pb2

from rowlock_regionserver.cells import Durability, Family
from rowlock_regionserver.config import Config
from rowlock_regionserver.engine.workers import Workers
from rowlock_regionserver.host.compacting import CompactionThreads
from rowlock_regionserver.host.compaction_requests import compaction_jobs, request_compactions
from rowlock_regionserver.host.snapshots import Snapshot, Snapshots
from rowlock_regionserver.host.timestamps import TimestampRange
from rowlock_regionserver.locks.lock_matrix import Operation
from rowlock_regionserver.locks.table_locks import Caller
from rowlock_regionserver.region.region import Region
from rowlock_regionserver.rpc.grpc.calls import Context, Method
from rowlock_regionserver.rpc.messages.compactions import compaction_messages
from rowlock_regionserver.rpc.messages.enums import durability
from rowlock_regionserver.rpc.messages.failures import parsed
from rowlock_regionserver.rpc.messages.sessions import caller_of
from rowlock_regionserver.rpc.messages.tables import (
    families,
    snapshot_message,
    statistics_message,
    table_message,
)
from rowlock_regionserver.rpc.services.region_operations import RegionOperations, RegionsHost
from rowlock_regionserver.rpc.services.snapshot_operations import SnapshotOperations, SnapshotsHost
from rowlock_regionserver.rpc.services.worker_calls import in_worker, run_locked
from rowlock_regionserver.table import Table

PROTOCOL = 11


class CatalogHost(RegionsHost, SnapshotsHost, Protocol):
    """The region server as this service sees it. Thread-safe; methods that change tables block."""

    @property
    def incarnation_id(self) -> str: ...
    @property
    def snapshots(self) -> Snapshots: ...
    @property
    def compactions(self) -> CompactionThreads: ...
    def make_snapshot(
        self, name: str, snapshot_id: bytes, lease_ms: int, incarnation_id: str, caller: Caller
    ) -> Snapshot: ...
    def timestamp_range(self, table: str = "", reserve_ms: int = 0) -> TimestampRange: ...
    def uptime_ms(self) -> int: ...
    def create_table(
        self,
        name: str,
        families: Sequence[Family],
        durability: Durability,
        properties: Mapping[str, str],
        caller: Caller,
        splits: Sequence[bytes],
    ) -> Table: ...
    def alter_table(
        self,
        name: str,
        set_families: Sequence[Family],
        drop_families: Sequence[bytes],
        durability: Durability | None,
        set_properties: Mapping[str, str],
        drop_properties: Sequence[str],
        expected_properties: Mapping[str, str],
        caller: Caller,
    ) -> Table: ...
    def drop_table(self, name: str, caller: Caller, *, force: bool) -> None: ...
    def truncate_table(self, name: str, caller: Caller) -> Table: ...
    def regions_of(self, name: str) -> Sequence[Region]: ...
    def tables(self) -> Sequence[Table]: ...
    def table(self, name: str) -> Table: ...


class CatalogService:
    """The methods of rowlock.v1.Catalog.

    `server`: this server's address for clients, empty if it advertises none. `direct`: where it takes direct
    connections; None: nowhere. `procedures`: the row procedures that clients may call.
    """

    def __init__(
        self,
        host: CatalogHost,
        workers: Workers,
        server: str,
        data_folder_id: str,
        config: Config,
        direct: catalog_pb2.DirectAddress | None = None,
        procedures: Sequence[str] = (),
    ) -> None:
        self._host = host
        self._direct = direct
        self._procedures = procedures
        self._data_folder_id = data_folder_id
        self._workers = workers
        self._server = server
        self._config = config
        self._regions = RegionOperations(host, workers, server, data_folder_id, config)
        self._named_snapshots = SnapshotOperations(host, workers)

    def methods(self) -> dict[str, Method]:
        """Returns the methods by their names in catalog.proto. Each runs in a worker; slow ones have their own pool."""
        slow: dict[str, Callable[[bytes], Message]] = {
            "CancelCompactions": self._cancel_compactions,
            **self._named_snapshots.slow,
        }
        locked: dict[str, Method] = {
            "CreateTable": self._create_table,
            "AlterTable": self._alter_table,
            "DropTable": self._drop_table,
            "TruncateTable": self._truncate_table,
            "MakeSnapshot": self._make_snapshot,
            **self._regions.methods,
            **self._named_snapshots.methods,
        }
        quick: dict[str, Callable[[bytes], Message]] = {
            "DescribeTable": self._describe_table,
            "ListTables": self._list_tables,
            **self._regions.quick,
            "RenewSnapshot": self._renew_snapshot,
            "EndSnapshot": self._end_snapshot,
            "Compact": self._compact,
            "ListCompactions": self._list_compactions,
            "ServerInfo": self._server_info,
        }
        in_workers = {
            name: in_worker(pool, answer)
            for pool, answers in ((self._workers.tables, slow), (self._workers.quick, quick))
            for name, answer in answers.items()
        }
        return {**locked, **in_workers}

    async def _locked(
        self, operation: Operation, table: str, caller: Caller, work: Callable[[Caller], Message]
    ) -> bytes:
        """Calls `work` in a worker, with the locks of the operation."""
        message = await run_locked(self._host.clients, self._workers.tables, operation, table, caller, work)
        return message.SerializeToString()

    async def _create_table(self, data: bytes, context: Context) -> bytes:
        message = parsed(catalog_pb2.CreateTableRequest, data)
        name = message.table.name

        def create(caller: Caller) -> Message:
            table = self._host.create_table(
                name,
                families(message.table.families),
                durability(message.table.durability) or Durability.FSYNC,
                dict(message.table.properties),
                caller,
                tuple(message.splits),
            )
            return catalog_pb2.CreateTableResponse(table=table_message(table))

        return await self._locked(Operation.CREATE, name, caller_of(message.lock, context.peer()), create)

    async def _alter_table(self, data: bytes, context: Context) -> bytes:
        message = parsed(catalog_pb2.AlterTableRequest, data)

        def alter(caller: Caller) -> Message:
            table = self._host.alter_table(
                message.name,
                families(message.set_families),
                tuple(message.drop_families),
                durability(message.durability),
                dict(message.set_properties),
                tuple(message.drop_properties),
                dict(message.expected_properties),
                caller,
            )
            return catalog_pb2.AlterTableResponse(table=table_message(table))

        return await self._locked(Operation.ALTER, message.name, caller_of(message.lock, context.peer()), alter)

    async def _drop_table(self, data: bytes, context: Context) -> bytes:
        message = parsed(catalog_pb2.DropTableRequest, data)
        name, force, caller = message.name, message.force, caller_of(message.lock, context.peer())

        def drop(locked: Caller) -> Message:
            self._host.drop_table(name, locked, force=force)
            return catalog_pb2.DropTableResponse()

        # Before the lock is waited for: these sessions may hold it.
        check = functools.partial(self._host.clients.check_unused, name, caller, force=force)
        await asyncio.get_running_loop().run_in_executor(self._workers.tables, check)
        return await self._locked(Operation.DROP, name, caller, drop)

    async def _truncate_table(self, data: bytes, context: Context) -> bytes:
        message = parsed(catalog_pb2.TruncateTableRequest, data)

        def truncate(caller: Caller) -> Message:
            table = self._host.truncate_table(message.name, caller)
            return catalog_pb2.TruncateTableResponse(table=table_message(table))

        return await self._locked(Operation.TRUNCATE, message.name, caller_of(message.lock, context.peer()), truncate)

    def _describe_table(self, data: bytes) -> catalog_pb2.DescribeTableResponse:
        name = parsed(catalog_pb2.DescribeTableRequest, data).name
        regions = self._host.readable_regions_of(name)
        return catalog_pb2.DescribeTableResponse(
            table=table_message(self._host.readable_entry(name).table),
            regions=[statistics_message(region, self._server, self._data_folder_id) for region in regions],
        )

    def _list_tables(self, data: bytes) -> catalog_pb2.ListTablesResponse:
        parsed(catalog_pb2.ListTablesRequest, data)
        tables = sorted(self._host.tables(), key=lambda table: table.name)
        return catalog_pb2.ListTablesResponse(tables=[table_message(table) for table in tables])

    async def _make_snapshot(self, data: bytes, context: Context) -> bytes:
        message = parsed(catalog_pb2.MakeSnapshotRequest, data)

        def make(caller: Caller) -> Message:
            snapshot = self._host.make_snapshot(
                message.table, message.snapshot_id, message.lease_ms, message.incarnation_id, caller
            )
            return catalog_pb2.MakeSnapshotResponse(snapshot=snapshot_message(snapshot))

        return await self._locked(Operation.SNAPSHOT, message.table, caller_of(message.lock, context.peer()), make)

    def _renew_snapshot(self, data: bytes) -> catalog_pb2.RenewSnapshotResponse:
        snapshot = self._host.snapshots.renew(parsed(catalog_pb2.RenewSnapshotRequest, data).snapshot_id)
        return catalog_pb2.RenewSnapshotResponse(snapshot=snapshot_message(snapshot))

    def _end_snapshot(self, data: bytes) -> catalog_pb2.EndSnapshotResponse:
        self._host.snapshots.end(parsed(catalog_pb2.EndSnapshotRequest, data).snapshot_id)
        return catalog_pb2.EndSnapshotResponse()

    def _compact(self, data: bytes) -> catalog_pb2.CompactResponse:
        message = parsed(catalog_pb2.CompactRequest, data)
        ids = request_compactions(
            self._host,
            message.table,
            tuple(message.families),
            tuple(message.region_ids),
            is_major=message.major,
            properties=dict(message.properties),
        )
        return catalog_pb2.CompactResponse(ids=ids)

    def _list_compactions(self, data: bytes) -> catalog_pb2.ListCompactionsResponse:
        message = parsed(catalog_pb2.ListCompactionsRequest, data)
        jobs = compaction_jobs(self._host, message.table, tuple(message.ids))
        return catalog_pb2.ListCompactionsResponse(compactions=compaction_messages(jobs))

    def _cancel_compactions(self, data: bytes) -> catalog_pb2.CancelCompactionsResponse:
        jobs = self._host.compactions.cancel(parsed(catalog_pb2.CancelCompactionsRequest, data).ids)
        return catalog_pb2.CancelCompactionsResponse(compactions=compaction_messages(jobs))

    def _server_info(self, data: bytes) -> catalog_pb2.ServerInfoResponse:
        message = parsed(catalog_pb2.ServerInfoRequest, data)
        config = self._config
        timestamps = self._host.timestamp_range(message.table, message.reserve_ms)
        return catalog_pb2.ServerInfoResponse(
            version=version(),
            protocol=min(PROTOCOL, max(1, message.protocol)),
            now_ms=timestamps.now_ms,
            reserved_ms=timestamps.reserved_ms,
            data_folder_id=self._data_folder_id,
            incarnation_id=self._host.incarnation_id,
            uptime_ms=self._host.uptime_ms(),
            request_ids_remembered_ms=config.request_ids_forgotten_after_ms,
            direct=self._direct,
            procedures=self._procedures,
            limits=catalog_pb2.Limits(
                row_bytes_max=config.row_bytes_max,
                qualifier_bytes_max=config.qualifier_bytes_max,
                cell_bytes_max=config.cell_bytes_max,
                request_bytes_max=config.request_bytes_max,
                timestamp_ahead_ms_max=config.timestamp_ahead_ms_max,
            ),
        )


@functools.cache
def version() -> str:
    """Returns the distribution's version. Looked up only once, on demand, since that reads files."""
    return importlib.metadata.version("rowlock")
