# Made from client/rowlock/aio/_locked_call.py by tools/async_to_sync.py: change that, then `make faces`.
"""Makes calls that take locks, and repeats them while others hold the locks (threads)."""

from __future__ import annotations

import time
from typing import TypeVar

from google.protobuf.message import Message
from rowlock_proto.v1 import sessions_pb2

from rowlock._core.lock_requests import LockAttempts, LockingRequest, LockPolicy
from rowlock._core.retry import TABLE_OPERATION_S, Kind
from rowlock._transport.methods import Method
from rowlock._transport.servers import Servers
from rowlock.errors import LockUnavailableError

A = TypeVar("A")


def call_with_locks(
    servers: Servers,
    method: Method[Message, A],
    request: LockingRequest,
    policy: LockPolicy,
    timeout_s: float,
    kind: Kind = Kind.READ,
    *,
    work_s: float = TABLE_OPERATION_S,
) -> A:
    """Makes the call as Servers.call does, repeatedly while others hold its locks. Returns its answer.

    policy: how to wait for the locks. work_s: how long the server may work once it has them. Raises the call's error.
    """
    attempts = LockAttempts(policy)
    waiting = request if isinstance(request, sessions_pb2.TakeLockRequest) else request.lock
    while True:
        wait_s = attempts.set_wait(waiting)
        try:
            return servers.call(method, request, timeout_s, kind, work_s=work_s + wait_s)
        except LockUnavailableError as error:
            time.sleep(attempts.pause_s(error))
