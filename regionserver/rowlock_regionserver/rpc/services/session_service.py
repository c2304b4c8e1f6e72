"""The Sessions service: what clients have on the server for longer than one call."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

from rowlock_proto.v1 import sessions_pb2

from rowlock_regionserver.engine.engine import Engine
from rowlock_regionserver.errors import InvalidRequestError, SessionEndedError
from rowlock_regionserver.host.bulk_commit import (
    CommitHost,
    CommitRequest,
    CommitResult,
    RegionsMovedError,
    commit_bulk_write,
    known_commit,
    regions_locked,
)
from rowlock_regionserver.host.session_snapshots import implicit_sessions, snapshot_id_of
from rowlock_regionserver.locks.lock import LockKey, Mode
from rowlock_regionserver.locks.table_locks import Caller
from rowlock_regionserver.rpc.grpc.calls import Context, Method
from rowlock_regionserver.rpc.messages.commits import commit_message, commit_request
from rowlock_regionserver.rpc.messages.failures import parsed
from rowlock_regionserver.rpc.messages.sessions import (
    caller_of,
    lock_message,
    lock_targets,
    session_message,
    session_ref,
)
from rowlock_regionserver.rpc.services.worker_calls import in_worker, run_locked
from rowlock_regionserver.sessions.session import SessionInfo, session_ended_error


class SessionHost(CommitHost, Protocol):
    """The region server as this service sees it. Thread-safe."""


class SessionService:
    """The methods of rowlock.v1.Sessions. Used on the event loop."""

    def __init__(self, host: SessionHost, engine: Engine) -> None:
        self._host = host
        self._clients = host.clients
        self._sessions = host.clients.sessions
        self._engine = engine
        self._workers = engine.workers

    def methods(self) -> dict[str, Method]:
        """Returns the methods by their names in sessions.proto."""
        slow, quick = self._workers.tables, self._workers.quick
        return {
            # The first session after a start writes the catalog, and an end may remove files.
            "OpenSession": in_worker(slow, self._open_session),
            "EndSession": in_worker(slow, self._end_session),
            "RenewSession": in_worker(quick, self._renew_session),
            "ListSessions": in_worker(quick, self._list_sessions),
            "TakeLock": self._take_lock,
            "ReleaseLock": in_worker(quick, self._release_lock),
            "ListLocks": in_worker(quick, self._list_locks),
            "OpenBulkWrite": in_worker(slow, self._open_bulk_write),
            "CommitBulkWrite": self._commit_bulk_write,
            "AbortBulkWrite": in_worker(slow, self._abort_bulk_write),
        }

    def _open_session(self, data: bytes) -> sessions_pb2.OpenSessionResponse:
        message = parsed(sessions_pb2.OpenSessionRequest, data)
        info = self._sessions.open(message.session_id, message.owner, message.purpose, message.idle_ms)
        return sessions_pb2.OpenSessionResponse(session=session_message(info))

    def _renew_session(self, data: bytes) -> sessions_pb2.RenewSessionResponse:
        ref = session_ref(parsed(sessions_pb2.RenewSessionRequest, data).session)
        return sessions_pb2.RenewSessionResponse(session=session_message(self._sessions.heartbeat(ref)))

    def _end_session(self, data: bytes) -> sessions_pb2.EndSessionResponse:
        message = parsed(sessions_pb2.EndSessionRequest, data)
        ref, reason = session_ref(message.session), message.reason or "its owner ended it"
        try:
            info = self._sessions.end(ref, reason)
        except SessionEndedError:
            # A session that a client opened may have the id under which a scan or snapshot is listed.
            implicit = {} if ref.number else {info.session_id: info for info in self._implicit()}
            if ref.session_id not in implicit:
                raise
            info = implicit[ref.session_id]
            self._end_implicit(info, reason)
        return sessions_pb2.EndSessionResponse(session=session_message(info))

    def _end_implicit(self, info: SessionInfo, reason: str) -> None:
        snapshot_id = snapshot_id_of(info.session_id)
        if snapshot_id is not None:
            self._host.snapshots.end(snapshot_id, reason)
        else:
            self._engine.scans.end(info.session_id, session_ended_error(info.session_id, reason))

    def _implicit(self) -> list[SessionInfo]:
        return [*implicit_sessions(self._host.snapshots), *self._engine.scans.implicit_sessions()]

    def _list_sessions(self, data: bytes) -> sessions_pb2.ListSessionsResponse:
        message = parsed(sessions_pb2.ListSessionsRequest, data)
        infos = [*self._sessions.infos(ended_too=message.ended_too), *self._implicit()]
        return sessions_pb2.ListSessionsResponse(sessions=[session_message(info) for info in infos])

    async def _take_lock(self, data: bytes, _: Context) -> bytes:
        message = parsed(sessions_pb2.TakeLockRequest, data)
        keys = lock_targets(message.targets)
        self._check_targets(keys)
        await asyncio.get_running_loop().run_in_executor(self._workers.tables, self._clients.numbers.prepare)
        lock = await self._clients.take_lock(
            session_ref(message.session),
            message.lock_id,
            keys,
            message.wait_ms if message.HasField("wait_ms") else None,
            message.purpose,
            lambda: self._check_targets(keys),
        )
        return sessions_pb2.TakeLockResponse(number=lock.request.number).SerializeToString()

    def _check_targets(self, keys: Sequence[tuple[LockKey, Mode]]) -> None:
        """Raises TableNotFoundError, and InvalidRequestError for a region that is not the table's."""
        region_ids: dict[str, set[int]] = {}
        for key, _ in keys:
            self._host.table(key.table)
            if not key.region_id:
                continue
            if key.table not in region_ids:
                region_ids[key.table] = {region.region_id for region in self._host.regions_of(key.table)}
            if key.region_id not in region_ids[key.table]:
                raise InvalidRequestError(
                    f"region {key.region_id} is not one of table {key.table!r}; list its regions", table=key.table
                )

    def _open_bulk_write(self, data: bytes) -> sessions_pb2.OpenBulkWriteResponse:
        message = parsed(sessions_pb2.OpenBulkWriteRequest, data)
        number = self._host.bulk_writes.open(session_ref(message.session), self._host.table(message.table))
        return sessions_pb2.OpenBulkWriteResponse(number=number)

    def _abort_bulk_write(self, data: bytes) -> sessions_pb2.AbortBulkWriteResponse:
        message = parsed(sessions_pb2.AbortBulkWriteRequest, data)
        self._host.bulk_writes.abort(session_ref(message.session), self._host.table(message.table))
        return sessions_pb2.AbortBulkWriteResponse()

    async def _commit_bulk_write(self, data: bytes, context: Context) -> bytes:
        message = parsed(sessions_pb2.CommitBulkWriteRequest, data)
        request = commit_request(message)
        result = known_commit(self._host, request)
        if result is None:
            caller = replace(caller_of(message.lock, context.peer()), session=request.session)
            while True:
                with contextlib.suppress(RegionsMovedError):
                    return commit_message(await self._committed(request, caller)).SerializeToString()
        return commit_message(result).SerializeToString()

    async def _committed(self, request: CommitRequest, caller: Caller) -> CommitResult:
        """Takes the locks of the regions, and commits. Raises RegionsMovedError if these were replaced meanwhile."""
        region_ids = regions_locked(self._host, request)
        return await run_locked(
            self._clients,
            self._workers.tables,
            request.operation,
            request.table,
            caller,
            lambda locked: commit_bulk_write(self._host, request, locked, region_ids),
            region_ids,
        )

    def _release_lock(self, data: bytes) -> sessions_pb2.ReleaseLockResponse:
        message = parsed(sessions_pb2.ReleaseLockRequest, data)
        self._clients.release_lock(session_ref(message.session), message.lock_id)
        return sessions_pb2.ReleaseLockResponse()

    def _list_locks(self, data: bytes) -> sessions_pb2.ListLocksResponse:
        table = parsed(sessions_pb2.ListLocksRequest, data).table
        if table:
            self._host.table(table)
        heartbeats = {info.ref: info.heartbeat_ms for info in self._sessions.infos()}
        return sessions_pb2.ListLocksResponse(
            locks=[
                lock_message(info, heartbeats.get(info.holder.session, 0) if info.holder.session else 0)
                for info in self._clients.locks.infos(table)
            ]
        )
