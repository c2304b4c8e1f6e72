"""What clients have on the server for longer than one call: sessions, and the locks that they and running calls hold.

Every table operation takes its locks here, by `locked`, from the one matrix (locks/lock_matrix.py). A front end takes
them before, by `take_for`, on its event loop: then no worker waits. The operation checks that they are the right ones.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial

from rowlock_regionserver.clock import Clock
from rowlock_regionserver.config import Config
from rowlock_regionserver.errors import (
    InvalidRequestError,
    LockUnavailableError,
    SessionEndedError,
    TableInUseError,
)
from rowlock_regionserver.host.session_lock import SessionLock, places_text
from rowlock_regionserver.locks.lock import LockHolder, LockKey, Mode, wanted_of
from rowlock_regionserver.locks.lock_matrix import Operation, wanted_by
from rowlock_regionserver.locks.table_locks import Caller, TableLocks
from rowlock_regionserver.sessions.numbers import SessionNumbers
from rowlock_regionserver.sessions.session import SessionInfo, SessionRef, check_session_id
from rowlock_regionserver.sessions.sessions import Sessions

_NAMED_MAX = 5


class ClientState:
    """Sessions and locks of one server. Thread-safe; coroutines for its event loop."""

    def __init__(self, config: Config, clock: Clock, numbers_until: int, reserve: Callable[[int], None]) -> None:
        """See SessionNumbers for the last two."""
        self.numbers = SessionNumbers(numbers_until, reserve)
        self.sessions = Sessions(config, clock, self.numbers.next_prepared)
        self.locks = TableLocks(config, clock, self.numbers.next)
        # Explicit locks, by the number of their session and their id. Each change is one step.
        self._session_locks: dict[tuple[int, str], SessionLock] = {}

    # Locks of operations.

    @contextlib.contextmanager
    def locked(
        self, operation: Operation, table: str, caller: Caller, region_ids: Iterable[int] = ()
    ) -> Iterator[None]:
        """Returns a context that holds the locks of the operation; takes them unless the caller has. Blocks.

        Raises LockUnavailableError, RegionTooBusyError and SessionEndedError.
        """
        wanted = wanted_by(operation, table, region_ids)
        if caller.held is not None:
            assert dict(caller.held.wanted).items() >= dict(wanted).items(), (caller.held, operation)
            yield
            return
        holder = self.locks.holder_of(caller, operation.value)
        with self.using(caller.session), self.locks.holding(holder, wanted, self.locks.wait_s(caller.wait_ms)):
            yield

    async def take_for(
        self, operation: Operation, table: str, caller: Caller, region_ids: Iterable[int] = ()
    ) -> Caller:
        """Takes the locks of an operation, and returns the caller with them; `caller.held` must be released.

        Raises as `locked`, and then holds nothing.
        """
        holder = self.locks.holder_of(caller, operation.value)
        wanted = wanted_by(operation, table, region_ids)
        with self.using(caller.session):
            request = await self.locks.taken(holder, wanted, self.locks.wait_s(caller.wait_ms))
        return replace(caller, held=request)

    def using(self, session: SessionRef | None) -> contextlib.AbstractContextManager[object]:
        """Returns a context for a call of this session, or of none."""
        return contextlib.nullcontext() if session is None else self.sessions.using(session)

    # Locks that clients take.

    async def take_lock(
        self,
        ref: SessionRef,
        lock_id: str,
        keys: Sequence[tuple[LockKey, Mode]],
        wait_ms: int | None,
        purpose: str,
        check: Callable[[], None],
    ) -> SessionLock:
        """Takes locks for a session; returns those that it has taken by this id already, if they are the same.

        `check` raises if a table or region is not there; it is called when the locks are held. The numbers must have
        been prepared. Raises LockUnavailableError, RegionTooBusyError, SessionEndedError and InvalidRequestError.
        """
        check_session_id(lock_id)
        if not self.locks.is_on:
            raise InvalidRequestError("locks are switched off in this server (--config locks=0), so none can be taken")
        wanted = wanted_of(keys)
        with self.sessions.using(ref) as session:
            known = self._known(session.number, lock_id)
            if known is not None:
                if known.request.wanted != wanted:
                    raise InvalidRequestError(
                        f"lock {lock_id!r} of session {ref.session_id!r} is that of {places_text(known.request.wanted)}"
                        "; choose another id"
                    )
                return known
            holder = LockHolder(
                session.session_id, session.owner, purpose or session.purpose, session.ref, is_explicit=True
            )
            wait_s = self.locks.wait_s(wait_ms)
            request, granted = self.locks.requested(holder, wanted, wait_s)
            place = (session.number, lock_id)
            lock = SessionLock(self.locks, request, partial(self._session_locks.pop, place, None))
            try:
                self.sessions.attach(session.ref, lock)
                await self.locks.until_granted(request, granted, wait_s)
                check()
                self._session_locks[place] = lock
                self.sessions.check(session.ref)
            except BaseException as error:
                self._session_locks.pop(place, None)
                self.sessions.detach(session.ref, lock)
                self.locks.release(request)
                if isinstance(error, LockUnavailableError):
                    self.sessions.check(session.ref)  # It was withdrawn because the session has ended.
                raise
            return lock

    def release_lock(self, ref: SessionRef, lock_id: str) -> None:
        """Releases the locks that the session has taken by this id, if there are any. Raises SessionEndedError."""
        with self.sessions.using(ref) as session:
            lock = self._session_locks.pop((session.number, lock_id), None)
            if lock is not None:
                self.sessions.detach(session.ref, lock)
                self.locks.release(lock.request)

    def _known(self, number: int, lock_id: str) -> SessionLock | None:
        lock = self._session_locks.get((number, lock_id))
        return lock if lock is not None and self.locks.is_held(lock.request) else None

    # Tables in use.

    def users_of(self, table: str, caller: Caller) -> list[SessionInfo]:
        """Returns the sessions, but for the caller's own, that hold something of the table."""
        return [
            info
            for info in self.sessions.infos()
            if info.ref != caller.session and any(item.table == table and not item.is_waiting for item in info.held)
        ]

    def check_unused(self, table: str, caller: Caller, *, force: bool = False) -> None:
        """Raises TableInUseError if sessions hold something of the table. With `force` ends them instead; blocks."""
        users = self.users_of(table, caller)
        if users and not force:
            named = [f"{info.session_id} of {info.owner} ({_held_text(info, table)})" for info in users[:_NAMED_MAX]]
            if len(users) > _NAMED_MAX:
                named.append(f"{len(users) - _NAMED_MAX} more")
            raise TableInUseError(
                f"open sessions use table {table!r}: {', '.join(named)}; nothing was changed. End them, or drop the "
                "table with force, which ends them",
                table=table,
                holders=[info.session_id for info in users],
            )
        for info in users:
            with contextlib.suppress(SessionEndedError):
                self.sessions.end(info.ref, f"its table {table!r} was dropped by {caller.owner}")


def _held_text(info: SessionInfo, table: str) -> str:
    return ", ".join([item.text for item in info.held if item.table == table])
