"""The client's calls on sessions and locks (asyncio)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, TypeVar, overload

from google.protobuf.message import Message
from rowlock_proto.v1 import sessions_pb2, types_pb2

from rowlock._codec.columns import Name
from rowlock._core.catalog import check_table_name
from rowlock._core.lock_requests import DEFAULT_LOCK_POLICY, LockingRequest, LockPolicy
from rowlock._core.retry import TABLE_OPERATION_S, Kind
from rowlock._core.session_requests import IDLE_S_DEFAULT, checked_id, checked_text, default_owner, infos_from
from rowlock._core.snapshot_requests import TakenSnapshot
from rowlock._transport import methods
from rowlock._transport.methods import Method
from rowlock._uninterrupted import Uninterrupted
from rowlock.aio._locked_call import call_with_locks
from rowlock.aio._transport.servers import Servers
from rowlock.aio._unfinished import MakingBulkWrite, MakingLock, MakingSession, MakingTypedBulkWrite
from rowlock.aio.lock import take_lock
from rowlock.aio.session import Session, open_session
from rowlock.errors import InvalidArgumentError
from rowlock.session_info import LockInfo, LockMode, SessionInfo, lock_info_from, session_info_from

if TYPE_CHECKING:
    from rowlock._codec.key_scalars import Key
    from rowlock._core.typed_rows import Row
    from rowlock.aio.typed_table import TypedTable

A = TypeVar("A")


class SessionCalls:
    """The part of Client for sessions and locks."""

    def __init__(self, servers: Servers, timeout_s: float, lock_policy: LockPolicy = DEFAULT_LOCK_POLICY) -> None:
        self._servers = servers
        self._timeout_s = timeout_s
        self._lock_policy = lock_policy

    def session(
        self,
        purpose: str = "",
        *,
        session_id: str | None = None,
        owner: str | None = None,
        idle_s: float = IDLE_S_DEFAULT,
    ) -> MakingSession:
        """Opens a session, to which snapshots, scans, locks and bulk writes may belong; see Session.

        Use `async with db.session(...)`, which ends it, or `await db.session(...)`.

        purpose: what it is for, in words, for lists of sessions. session_id: an id of your choice, 1 to 128 of
        letters, digits, '_', '.', ':' and '-'; if this owner has such a session open, returns that one. None: a random
        id. owner: None: user, host, process and program. idle_s: it ends after this many seconds without a heartbeat,
        at most a day.
        """
        return MakingSession(lambda: open_session(self._servers, purpose, session_id, owner, idle_s, self._timeout_s))

    async def sessions(self, *, ended: bool = False) -> list[SessionInfo]:
        """Returns the open sessions, in the order of their opening, then the snapshots and scans that name none.

        ended: before them also those that have ended, as far as the server remembers them.
        """
        request = sessions_pb2.ListSessionsRequest(ended_too=ended)
        return infos_from(await self._servers.call(methods.LIST_SESSIONS, request, self._timeout_s))

    async def end_session(self, session_id: str, *, reason: str = "") -> SessionInfo:
        """Ends a session of any owner; returns it when everything that it held is released.

        reason: for the owner, whose calls raise SessionEndedError with it. Raises SessionEndedError if it has ended.
        """
        request = sessions_pb2.EndSessionRequest(
            session=types_pb2.SessionRef(session_id=checked_id(session_id)),
            reason=checked_text("reason", reason) or f"{default_owner()} ended it",
        )
        answer = await self._servers.call(
            methods.END_SESSION, request, self._timeout_s, Kind.PLAIN_CHANGE, work_s=TABLE_OPERATION_S
        )
        return session_info_from(answer.session)

    def lock(
        self,
        tables: str | Iterable[str],
        mode: LockMode,
        *,
        region: int | None = None,
        session: Session | None = None,
        purpose: str = "",
        wait_s: float | None = None,
        retries: int | None = None,
    ) -> MakingLock:
        """Locks tables, or one region, for a job of yours: against table operations, snapshots, and others that lock.

        Use `async with db.lock("t", "exclusive")`. Reading and changing rows takes no such lock, and is not held up.

        tables: a name, or several. mode: "shared" goes together with "shared", "exclusive" with nothing. region: the id
        of a region, to lock only that one. session: None: one of its own. purpose: for lists of locks. wait_s,
        retries: how long each try waits on the server, and how many follow the first; None: the client's.

        Raises LockUnavailableError when others hold it to the end, and TableNotFoundError. docs/locks.md.
        """
        policy = self._lock_policy.changed(wait_s, retries)
        return MakingLock(
            lambda: take_lock(self._servers, tables, mode, region, session, purpose, policy, self._timeout_s)
        )

    @overload
    def bulk_write(
        self,
        table: str,
        *,
        replace: bool = False,
        prefix: Name | None = None,
        start: Name | None = None,
        stop: Name | None = None,
        snapshot: TakenSnapshot | bytes | None = None,
        identity: tuple[str, int] | None = None,
        session: Session | None = None,
        purpose: str = "",
    ) -> MakingBulkWrite: ...

    @overload
    def bulk_write(
        self,
        table: TypedTable[Row],
        *,
        replace: bool = False,
        prefix: Key | None = None,
        start: Key | None = None,
        stop: Key | None = None,
        snapshot: TakenSnapshot | bytes | None = None,
        identity: tuple[str, int] | None = None,
        session: Session | None = None,
        purpose: str = "",
    ) -> MakingTypedBulkWrite[Row]: ...

    def bulk_write(
        self,
        table: str | TypedTable[Row],
        *,
        replace: bool = False,
        prefix: Key | None = None,
        start: Key | None = None,
        stop: Key | None = None,
        snapshot: TakenSnapshot | bytes | None = None,
        identity: tuple[str, int] | None = None,
        session: Session | None = None,
        purpose: str = "",
    ) -> MakingBulkWrite | MakingTypedBulkWrite[Row]:
        """Changes any number of rows of a table at one moment: readers see all of it or nothing.

        Use `async with db.bulk_write("t") as write`, which commits at its end and aborts at an exception.

        table: its name, for a BulkWrite of bytes; or a TypedTable, for a TypedBulkWrite. replace: the commit hides
        everything older, of the whole table or of the range. prefix, start, stop: the rows that may be written, of a
        TypedTable as in its `scan`. snapshot: refuse the commit with ConflictError if a row has changed since.
        identity: a text and a number; a second commit of this table with the same does nothing, for at least 30 days.
        session: None: one of its own. purpose: for lists of sessions.

        Raises TableNotFoundError and SessionEndedError. docs/bulk_writes.md.
        """
        # Here, because pyarrow is slow to import.
        with Uninterrupted():
            from rowlock._core.bulk_write_requests import write_options
            from rowlock.aio.bulk_write import open_bulk_write
            from rowlock.aio.typed_bulk_write import encoded_range, open_typed_bulk_write
            from rowlock.aio.typed_table import TypedTable

        if not isinstance(table, TypedTable):
            check_table_name(table, "table")
            options = write_options(table, replace, start, stop, prefix, snapshot, identity)
            return MakingBulkWrite(
                lambda: open_bulk_write(self._servers, options, purpose, session, self._lock_policy, self._timeout_s)
            )
        if table._servers is not self._servers:
            raise InvalidArgumentError(f"the typed table {table.name!r} is one of another client; open it by this one")
        first, last, begins = encoded_range(table, start, stop, prefix)
        options = write_options(table.name, replace, first, last, begins, snapshot, identity)
        return MakingTypedBulkWrite(
            lambda: open_typed_bulk_write(
                self._servers, table, options, purpose, session, self._lock_policy, self._timeout_s
            )
        )

    async def locks(self, table: str | None = None) -> list[LockInfo]:
        """Returns the locks of a table, or of all, that are held or waited for. Raises TableNotFoundError."""
        if table is not None:
            check_table_name(table)
        request = sessions_pb2.ListLocksRequest(table=table or "")
        answer = await self._servers.call(methods.LIST_LOCKS, request, self._timeout_s)
        return [lock_info_from(each) for each in answer.locks]

    async def _call_locked(
        self, method: Method[Message, A], request: LockingRequest, kind: Kind = Kind.PLAIN_CHANGE
    ) -> A:
        """Makes a call that takes locks, with retries while others hold them."""
        return await call_with_locks(self._servers, method, request, self._lock_policy, self._timeout_s, kind)
