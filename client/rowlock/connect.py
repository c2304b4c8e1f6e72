"""Opening a client: `connect` to servers that run, `open` a private server on a folder (threads)."""

from __future__ import annotations

import os
import time
from pathlib import Path

import grpc
from rowlock_proto.v1 import catalog_pb2

from rowlock import methods
from rowlock.channels import parse_addresses
from rowlock.client import Client
from rowlock.embedded import running_server
from rowlock.errors import InvalidArgumentError, RowlockError, ServerUnavailableError
from rowlock.servers import Servers
from rowlock.view import checked_timeout

ADDRESS_VARIABLE = "ROWLOCK_SERVER"
PROTOCOL = 1


def connect(server: str | None = None, *, timeout: float = 10) -> Client:
    """A client of the servers at `host:port`, several divided by commas; None: of the environment's ROWLOCK_SERVER.

    The first that answers is used, at once; others take its place when it fails. timeout: seconds that every call may
    take in all, its retries included. Raises ServerUnavailableError if none answers, InvalidArgumentError for a
    malformed address or a server that speaks another protocol.
    """
    given = os.environ.get(ADDRESS_VARIABLE) if server is None else server
    if not given:
        raise InvalidArgumentError(f"no server is given: connect('host:port'), or set {ADDRESS_VARIABLE}")
    servers = Servers(parse_addresses(given))
    try:
        _verify(servers, checked_timeout(timeout))
    except BaseException:
        servers.close()
        raise
    return Client(servers, checked_timeout(timeout))


def open(folder: str | os.PathLike[str], *, timeout: float = 10) -> Client:
    """A client of a private server on a folder, which is started if none runs there; the folder is made if need be.

    Other processes that open the folder join the same server. It stops, flushed, a few seconds after its last client
    has gone, however that went, and Ctrl-C doesn't reach it. Blocks until it is ready, which takes as long as its
    recovery. Raises EmbeddedServerError with the server's last words if it can't be started.
    """
    seconds = checked_timeout(timeout)

    def joined(address: str) -> Client:
        servers = Servers((address,), is_held_open=True)
        try:
            _verify(servers, seconds)
        except BaseException:
            servers.close()
            raise
        return Client(servers, seconds)

    return running_server(Path(folder), joined)


def _verify(servers: Servers, timeout_s: float) -> None:
    """Asks each address until one answers as a rowlock server does."""
    deadline = time.monotonic() + timeout_s
    met: list[RowlockError] = []
    for count, address in enumerate(servers.addresses):
        share = (deadline - time.monotonic()) / (len(servers.addresses) - count)
        try:
            info = servers.call_once(address, methods.SERVER_INFO, catalog_pb2.ServerInfoRequest(), share)
        except grpc.RpcError as failed:
            met.append(servers.judged(failed, address))
            continue
        if info.protocol != PROTOCOL:
            raise InvalidArgumentError(
                f"the server at {address} speaks protocol {info.protocol}, and this client {PROTOCOL}; install the "
                f"version of rowlock that it has, {info.version}"
            )
        servers.choose(address)
        return
    refused = next((error for error in met if isinstance(error, InvalidArgumentError)), None)
    if refused is not None:
        raise refused
    raise ServerUnavailableError(
        f"no rowlock server answers at {', '.join(servers.addresses)}: {met[-1]}. Is it running? "
        "'rowlock-server --data FOLDER' starts one"
    )
