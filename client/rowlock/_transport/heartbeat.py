"""The heartbeats of a session (threads): a thread that ends with the session, or when nothing refers to it any more.

A thread is not copied by a fork: in the child nobody sends heartbeats, and the parent's go on.
"""

from __future__ import annotations

import threading
import weakref

from rowlock_proto.v1 import sessions_pb2

from rowlock._core.session_requests import OpenedSession
from rowlock._transport import methods
from rowlock._transport.servers import Servers
from rowlock.errors import ClosedError, RowlockError, SessionEndedError


class Heartbeat:
    """Sends heartbeats until the session ends."""

    def __init__(self, servers: Servers, session: OpenedSession, timeout_s: float) -> None:
        self._stopping = threading.Event()
        of = weakref.ref(session, lambda _: self._stopping.set())
        self._thread = threading.Thread(
            target=_beat, args=(servers, of, timeout_s, self._stopping), name="rowlock-heartbeat", daemon=True
        )
        self._thread.start()

    def stop(self) -> None:
        """Sends no more. Idempotent."""
        self._stopping.set()


def _beat(servers: Servers, of: weakref.ref[OpenedSession], timeout_s: float, stopping: threading.Event) -> None:
    has_failed = False
    while (session := of()) is not None and session.is_open:
        pause_s, request = session.pause_s(has_failed=has_failed), sessions_pb2.RenewSessionRequest(session=session.ref)
        del session  # A session that its owner has dropped must not live on because of its heartbeats.
        if stopping.wait(pause_s):
            return
        try:
            servers.call(methods.RENEW_SESSION, request, timeout_s)
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
