"""The Catalog's calls on named snapshots: they create, list, restore and drop them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from google.protobuf.message import Message
from rowlock_proto.v1 import catalog_pb2

from rowlock_regionserver.catalog.named_snapshots import NamedSnapshot
from rowlock_regionserver.engine.workers import Workers
from rowlock_regionserver.host.client_state import ClientState
from rowlock_regionserver.host.named_snapshot_sizes import HeldBySnapshots, SnapshotSizes
from rowlock_regionserver.locks.lock_matrix import Operation
from rowlock_regionserver.locks.table_locks import Caller
from rowlock_regionserver.rpc.grpc.calls import Context, Method
from rowlock_regionserver.rpc.messages.failures import parsed
from rowlock_regionserver.rpc.messages.sessions import caller_of
from rowlock_regionserver.rpc.messages.tables import table_message
from rowlock_regionserver.rpc.services.worker_calls import run_locked
from rowlock_regionserver.table import Table


class SnapshotsHost(Protocol):
    """The region server as these calls see it. Thread-safe; all but `named_snapshots` block."""

    @property
    def clients(self) -> ClientState: ...
    @property
    def named_snapshots(self) -> Sequence[NamedSnapshot]: ...
    def held_by_snapshots(self, snapshots: Sequence[NamedSnapshot]) -> HeldBySnapshots: ...
    def create_named_snapshot(self, name: str, table: str, caller: Caller) -> NamedSnapshot: ...
    def restore_named_snapshot(self, name: str, table: str, caller: Caller) -> Table: ...
    def drop_named_snapshot(self, name: str) -> None: ...


class SnapshotOperations:
    """Some of the methods of rowlock.v1.Catalog."""

    def __init__(self, host: SnapshotsHost, workers: Workers) -> None:
        self._host = host
        self._workers = workers

    @property
    def methods(self) -> dict[str, Method]:
        """The methods that take locks, by their names in catalog.proto."""
        return {"CreateNamedSnapshot": self._create, "RestoreNamedSnapshot": self._restore}

    @property
    def slow(self) -> dict[str, Callable[[bytes], Message]]:
        """The methods that wait for the disk."""
        return {"DropNamedSnapshot": self._drop, "ListNamedSnapshots": self._list}

    async def _create(self, data: bytes, context: Context) -> bytes:
        message = parsed(catalog_pb2.CreateNamedSnapshotRequest, data)

        def create(caller: Caller) -> Message:
            made = self._host.create_named_snapshot(message.name, message.table, caller)
            (sizes,) = self._host.held_by_snapshots([made]).sizes
            return catalog_pb2.CreateNamedSnapshotResponse(snapshot=_message(made, sizes))

        return await self._locked(Operation.CREATE_NAMED_SNAPSHOT, message, context, create)

    async def _restore(self, data: bytes, context: Context) -> bytes:
        message = parsed(catalog_pb2.RestoreNamedSnapshotRequest, data)

        def restore(caller: Caller) -> Message:
            table = self._host.restore_named_snapshot(message.name, message.table, caller)
            return catalog_pb2.RestoreNamedSnapshotResponse(table=table_message(table))

        return await self._locked(Operation.RESTORE_NAMED_SNAPSHOT, message, context, restore)

    async def _locked(
        self,
        operation: Operation,
        message: catalog_pb2.CreateNamedSnapshotRequest | catalog_pb2.RestoreNamedSnapshotRequest,
        context: Context,
        work: Callable[[Caller], Message],
    ) -> bytes:
        """Calls `work` in a worker, with the locks of the operation on the message's table."""
        caller = caller_of(message.lock, context.peer())
        answer = await run_locked(self._host.clients, self._workers.tables, operation, message.table, caller, work)
        return answer.SerializeToString()

    def _list(self, data: bytes) -> catalog_pb2.ListNamedSnapshotsResponse:
        parsed(catalog_pb2.ListNamedSnapshotsRequest, data)
        found = self._host.named_snapshots
        sizes = self._host.held_by_snapshots(found).sizes
        return catalog_pb2.ListNamedSnapshotsResponse(
            snapshots=[_message(snapshot, of_snapshot) for snapshot, of_snapshot in zip(found, sizes, strict=True)]
        )

    def _drop(self, data: bytes) -> catalog_pb2.DropNamedSnapshotResponse:
        self._host.drop_named_snapshot(parsed(catalog_pb2.DropNamedSnapshotRequest, data).name)
        return catalog_pb2.DropNamedSnapshotResponse()


def _message(snapshot: NamedSnapshot, sizes: SnapshotSizes) -> catalog_pb2.NamedSnapshot:
    return catalog_pb2.NamedSnapshot(
        name=snapshot.name,
        table=table_message(snapshot.entry.table),
        made_ms=snapshot.made_ms,
        region_count=len(snapshot.entry.regions),
        store_file_count=sizes.store_file_count,
        store_file_bytes=sizes.store_file_bytes,
        own_bytes=sizes.own_bytes,
        error=sizes.error,
    )
