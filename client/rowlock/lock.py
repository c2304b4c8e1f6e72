# Made from client/rowlock/aio/lock.py by tools/async_to_sync.py: change that, then `make faces`.
"""Locks of tables and regions (threads)."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from types import TracebackType

from rowlock_proto.v1 import sessions_pb2

from rowlock._core.lock_requests import LockPolicy, lock_request, purpose_of
from rowlock._core.session_requests import IDLE_S_DEFAULT, checked_ref
from rowlock._ending_call import call_to_end
from rowlock._locked_call import call_with_locks
from rowlock._transport import methods
from rowlock._transport.servers import Servers
from rowlock.errors import RowlockError, SessionEndedError
from rowlock.session import Session, open_session
from rowlock.session_info import LockMode


class Lock:
    """A lock that is held, returned by `Client.lock`. It is released at the end of its `with` block.

    It belongs to a session: when that has ended, the lock is gone. Then the block ends with SessionEndedError, unless
    it raises another error, because others may have had the lock meanwhile.
    """

    def __init__(
        self,
        servers: Servers,
        session: Session,
        request: sessions_pb2.TakeLockRequest,
        number: int,
        timeout_s: float,
        *,
        is_session_mine: bool,
    ) -> None:
        self._servers = servers
        self._request = request
        self._number = number
        self._timeout_s = timeout_s
        self._is_session_mine = is_session_mine
        self._is_released = False
        self._release_count = 0  # of the calls that were begun
        self._session = session

    @property
    def session(self) -> Session:
        """The session that holds it: its own, or the one that was passed."""
        return self._session

    @property
    def number(self) -> int:
        """Greater than that of every lock granted before it, also over restarts: a fencing token."""
        return self._number

    @property
    def tables(self) -> tuple[str, ...]:
        """The names of the locked tables."""
        return tuple([target.table for target in self._request.targets])

    @property
    def is_held(self) -> bool:
        """Whether it is held, as far as this client knows; a heartbeat or call finds out that it is lost."""
        return not self._is_released and self.session.is_open

    def __repr__(self) -> str:
        return f"<rowlock.Lock {self.number} of {', '.join(self.tables)}>"

    def check(self) -> None:
        """Asks the server whether it is held. Raises SessionEndedError if it is lost."""
        self.session.renew()

    def release(self) -> None:
        """Releases the lock. Raises SessionEndedError if it was lost before. Idempotent."""
        if self._is_released:
            return
        if self._is_session_mine:
            self._release_count += 1
            try:
                self.session._end()  # private to the package
            except SessionEndedError:
                if self._release_count == 1:  # Else another call may have released it.
                    raise
            finally:
                self._is_released = not self.session.is_open  # Else an interruption came before the call.
            return
        request = _release_of(self._request)
        with self.session.noting_its_end():
            try:
                call_to_end(self._servers, methods.RELEASE_LOCK, request, self._timeout_s)
            finally:
                self._is_released = True

    def __enter__(self) -> Lock:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self.release()
            return
        # The error of the block counts. If the server can't be reached, it ends the session without heartbeats.
        with contextlib.suppress(RowlockError):
            self.release()


def take_lock(
    servers: Servers,
    tables: str | Iterable[str],
    mode: LockMode,
    region: int | None,
    session: Session | None,
    purpose: str,
    policy: LockPolicy,
    timeout_s: float,
) -> Lock:
    """See Client.lock."""
    request = lock_request(tables, mode, region, purpose)
    is_mine = session is None
    if session is not None:
        checked_ref(session)
    try:
        if session is None:
            session = open_session(servers, purpose_of(request), None, None, IDLE_S_DEFAULT, timeout_s)
        request.session.CopyFrom(session.ref)
        with session.noting_its_end():
            taken = call_with_locks(servers, methods.TAKE_LOCK, request, policy, timeout_s, work_s=timeout_s)
    except BaseException:
        # The lock may have been taken, and the answer lost.
        with contextlib.suppress(RowlockError):
            if session is not None and is_mine:
                session.end()
            elif session is not None and session.is_open:
                servers.call(methods.RELEASE_LOCK, _release_of(request), timeout_s)
        raise
    return Lock(servers, session, request, taken.number, timeout_s, is_session_mine=is_mine)


def _release_of(request: sessions_pb2.TakeLockRequest) -> sessions_pb2.ReleaseLockRequest:
    return sessions_pb2.ReleaseLockRequest(session=request.session, lock_id=request.lock_id)
