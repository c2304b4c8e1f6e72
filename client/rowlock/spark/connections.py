"""Caches one client per server in a Python worker of Spark, for all of its tasks.

Workers are forked, run many tasks, and are killed without notice. A client survives a fork and needs no close. It is
never pickled.
"""

from __future__ import annotations

import threading

from pyspark import TaskContext

from rowlock._transport.channels import parse_addresses
from rowlock._transport.servers import Servers
from rowlock.client import Client
from rowlock.errors import ServerUnavailableError

# By default Spark runs a failing task four times. The first attempt waits the full timeout; the three others together
# wait no longer than that.
_RETRY_SHARE = 1 / 4

_lock = threading.Lock()
# Guarded by _lock. By server and timeout.
_clients: dict[tuple[str, float], Client] = {}


def client_of(server: str, timeout_s: float) -> Client:
    """Returns the process's client of `host:port`, or of several, separated by commas.

    Its calls wait `timeout_s` for an unreachable server. Sends no request.
    """
    with _lock:
        client = _clients.get((server, timeout_s))
        if client is None:
            client = _clients[server, timeout_s] = Client(Servers(parse_addresses(server)), timeout_s)
        return client


def patience_s(timeout_s: float) -> float:
    """Returns how long this task waits for an unreachable server: the timeout, or a quarter of it in a retry."""
    context = TaskContext.get()
    return timeout_s if context is None or not context.attemptNumber() else timeout_s * _RETRY_SHARE


def unreachable(server: str, error: ServerUnavailableError, waited_s: float) -> ServerUnavailableError:
    """Returns the error for a Spark user when a server did not answer within `waited_s`."""
    reason = error.message.removeprefix(f"no server answers at {server}: ")
    return ServerUnavailableError(
        f"no rowlock server answered at {server} within {waited_s:g} s: {reason}. Is it running, and can the driver "
        "and every executor reach that address? If it only needs longer to restart, raise the option timeout and run "
        "the job again"
    )
