"""The heartbeats of a session (asyncio): a task that ends with the session, or when nothing refers to it any more."""

from __future__ import annotations

import asyncio
import weakref

from rowlock_proto.v1 import sessions_pb2

from rowlock._core.session_requests import OpenedSession
from rowlock._transport import methods
from rowlock.aio._transport.servers import Servers
from rowlock.errors import ClosedError, RowlockError, SessionEndedError


class Heartbeat:
    """Sends heartbeats until the session ends."""

    def __init__(self, servers: Servers, session: OpenedSession, timeout_s: float) -> None:
        self._task = asyncio.get_running_loop().create_task(_beat(servers, weakref.ref(session), timeout_s))

    def stop(self) -> None:
        """Sends no more. Idempotent."""
        self._task.cancel()


async def _beat(servers: Servers, of: weakref.ref[OpenedSession], timeout_s: float) -> None:
    has_failed = False
    while (session := of()) is not None and session.is_open:
        pause_s, request = session.pause_s(has_failed=has_failed), sessions_pb2.RenewSessionRequest(session=session.ref)
        del session  # A session that its owner has dropped must not live on because of its heartbeats.
        await asyncio.sleep(pause_s)
        if of() is None:
            return
        try:
            await servers.call(methods.RENEW_SESSION, request, timeout_s)
            has_failed = False
        except SessionEndedError as error:
            ended = of()
            if ended is not None:
                ended.note_ended(error)
            return
        except ClosedError:
            return
        except RowlockError:
            has_failed = True
