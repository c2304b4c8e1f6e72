# Made from client/rowlock/aio/_ending_call.py by tools/async_to_sync.py: change that, then `make faces`.
"""Makes calls that end what the server holds for this client, also when they are interrupted (threads).

A call that Ctrl-C or the cancellation of its task interrupts may not have reached the server. What it should have ended
would stay until its lease or idle limit is over.
"""

from __future__ import annotations

import contextlib
from typing import TypeVar

from rowlock._transport.methods import Method
from rowlock._transport.servers import Servers
from rowlock.errors import RowlockError

Q = TypeVar("Q")
A = TypeVar("A")

# How long an interrupted caller waits for the call that is made after it.
_AFTER_INTERRUPTION_S = 2.0


def call_to_end(servers: Servers, method: Method[Q, A], request: Q, timeout_s: float, *, work_s: float = 0.0) -> None:
    """Makes an idempotent call as Servers.call does; if it is interrupted, makes it once more before it raises that."""
    try:
        servers.call(method, request, timeout_s, work_s=work_s)
    except BaseException as error:
        end_if_interrupted(error, servers, method, request)
        raise


def end_if_interrupted(error: BaseException, servers: Servers, method: Method[Q, A], request: Q) -> None:
    """Makes a call that ends something, if `error` is an interruption of the caller. Its own failure is dropped."""
    if not isinstance(error, Exception | GeneratorExit):
        with contextlib.suppress(RowlockError):
            servers.call(method, request, _AFTER_INTERRUPTION_S)
