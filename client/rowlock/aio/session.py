"""Sessions (asyncio): what a client has on the server for longer than one call."""

from __future__ import annotations

import contextlib
import time
from types import TracebackType

from rowlock_proto.v1 import sessions_pb2, types_pb2

from rowlock._core.retry import TABLE_OPERATION_S
from rowlock._core.session_requests import OpenedSession, open_request
from rowlock._transport import methods
from rowlock.aio._ending_call import call_to_end, end_if_interrupted
from rowlock.aio._transport.heartbeat import Heartbeat
from rowlock.aio._transport.servers import Servers
from rowlock.errors import RowlockError, SessionEndedError

# How long closing a client may wait for its sessions to end.
_CLOSING_S = 2.0


class Session(OpenedSession):
    """A session, returned by `Client.session`. Pass it to snapshots, scans, locks, bulk writes and table operations.

    It sends heartbeats as long as it is open and something refers to it. It ends with its `async with` block, by
    `end`, without heartbeats for `idle_s`, when an operator or the server ends it, and with its client if its id is
    random. Then everything that it held is released, and calls that name it raise SessionEndedError. docs/sessions.md.
    """

    def __init__(self, servers: Servers, message: sessions_pb2.Session, timeout_s: float) -> None:
        super().__init__(message)
        self._servers = servers
        self._timeout_s = timeout_s
        self._heartbeat = Heartbeat(servers, self, timeout_s)

    def __repr__(self) -> str:
        return f"<rowlock.aio.Session {self.id} {'open' if self.is_open else 'ended'}>"

    async def renew(self) -> None:
        """Sends a heartbeat now. Raises SessionEndedError if the session has ended."""
        self.check()
        request = sessions_pb2.RenewSessionRequest(session=self.ref)
        with self.noting_its_end():
            await self._servers.call(methods.RENEW_SESSION, request, self._timeout_s)

    async def end(self) -> None:
        """Ends the session; returns when everything that it held is released. Idempotent."""
        if self.is_open:
            with contextlib.suppress(SessionEndedError):
                await self._end()
        self._heartbeat.stop()

    async def _end(self) -> None:
        """Ends the session. Raises SessionEndedError if it has ended before.

        An interruption before the call leaves the session open.
        """
        self.check()
        request = sessions_pb2.EndSessionRequest(session=self.ref)
        try:
            await call_to_end(self._servers, methods.END_SESSION, request, self._timeout_s, work_s=TABLE_OPERATION_S)
        finally:
            self._is_ended_here()

    def _is_ended_here(self) -> None:
        self.note_ended(None)
        self._heartbeat.stop()

    async def __aenter__(self) -> Session:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # If the server can't be reached, it ends the session when its idle limit is over.
        with contextlib.suppress(RowlockError):
            await self.end()


async def open_session(
    servers: Servers, purpose: str, session_id: str | None, owner: str | None, idle_s: float, timeout_s: float
) -> Session:
    """See Client.session."""
    request = open_request(purpose, session_id, owner, idle_s)
    if session_id is not None:  # One that is interrupted stays: it may have been open before.
        answer = await servers.call(methods.OPEN_SESSION, request, timeout_s)
        return Session(servers, answer.session, timeout_s)
    with servers.sessions.opening(request.session_id):
        try:
            answer = await servers.call(methods.OPEN_SESSION, request, timeout_s)
            session = Session(servers, answer.session, timeout_s)
            servers.sessions.add(session)
            return session
        except BaseException as error:
            await end_if_interrupted(error, servers, methods.END_SESSION, _end_of(request.session_id))
            raise


async def end_own_sessions(servers: Servers) -> None:
    """Ends the sessions that the client has opened, with random ids, and opens no more.

    It tries for two seconds; the server ends the others when their idle limits are over.
    """
    stop = time.monotonic() + _CLOSING_S
    opening = servers.sessions.close()
    sessions = [session for session in servers.sessions.open_ones() if isinstance(session, Session)]
    requests = [_end_of(session_id) for session_id in opening]
    requests += [sessions_pb2.EndSessionRequest(session=session.ref) for session in sessions]
    try:
        for request in requests:
            remaining_s = stop - time.monotonic()
            if remaining_s > 0:
                with contextlib.suppress(RowlockError):
                    await servers.call(methods.END_SESSION, request, remaining_s)
    finally:
        for session in sessions:
            session._is_ended_here()


def _end_of(session_id: str) -> sessions_pb2.EndSessionRequest:
    """Returns the request to end a session that may not be open yet; the server waits for its opening."""
    return sessions_pb2.EndSessionRequest(session=types_pb2.SessionRef(session_id=session_id))
