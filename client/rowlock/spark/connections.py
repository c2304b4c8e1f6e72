"""One client of each server in a Python worker of Spark, kept for the tasks that come after.

Workers are made by fork, used for many tasks, and ended without notice; a client survives the first and needs nothing
at the last. It is never a part of what is pickled.
"""

from __future__ import annotations

import threading

from pyspark import TaskContext

from rowlock._transport.channels import parse_addresses
from rowlock._transport.servers import Servers
from rowlock.client import Client
from rowlock.errors import ServerUnavailableError

# By default Spark runs a failed task four times in all. The first attempt has waited the whole timeout by
# then; the others together wait no longer than that.
_REPEATED_SHARE = 1 / 4

_lock = threading.Lock()
# Guarded by _lock. By server and timeout.
_clients: dict[tuple[str, float], Client] = {}


def client_of(server: str, timeout_s: float) -> Client:
    """The process's client of `host:port`, several divided by commas. Its calls wait so long for a server that is away.

    Nothing is asked of the server yet.
    """
    with _lock:
        client = _clients.get((server, timeout_s))
        if client is None:
            client = _clients[server, timeout_s] = Client(Servers(parse_addresses(server)), timeout_s)
        return client


def patience_s(timeout_s: float) -> float:
    """How long this task waits for a server that is away: the timeout, a share of it when the task is repeated."""
    context = TaskContext.get()
    return timeout_s if context is None or not context.attemptNumber() else timeout_s * _REPEATED_SHARE


def gone(server: str, error: ServerUnavailableError, waited_s: float) -> ServerUnavailableError:
    """What a user of Spark is told when a server stays away."""
    why = error.message.removeprefix(f"no server answers at {server}: ")
    return ServerUnavailableError(
        f"no rowlock server answered at {server} within {waited_s:g} s: {why}. Is it running, and can the driver and "
        "every executor reach that address? If it only needs longer to come back, raise the option timeout, and run "
        "the job again"
    )
