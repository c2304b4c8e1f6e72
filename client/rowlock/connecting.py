"""Opening a client: `connect` to servers that run, `open` a private server on a folder (threads)."""

from __future__ import annotations

import os
import time
from pathlib import Path

import grpc
from rowlock_proto.v1 import catalog_pb2

from rowlock import methods
from rowlock.channels import given_addresses
from rowlock.client import Client
from rowlock.embedded import running_server
from rowlock.errors import InvalidArgumentError, RowlockError, ServerUnavailableError
from rowlock.servers import Servers
from rowlock.view import checked_timeout
from rowlock.wire_errors import NAME_NOT_FOUND

PROTOCOL = 1


def connect(server: str | None = None, *, timeout: float = 10) -> Client:
    """A client of the servers at `host:port`, several divided by commas; None: of the environment's ROWLOCK_SERVER.

    The first that answers is used, at once; others take its place when it fails. timeout: seconds that every call may
    take in all, its retries included. Raises ServerUnavailableError if none answers, InvalidArgumentError for a
    malformed address or a server that speaks another protocol.
    """
    return _connected(Servers(given_addresses(server)), checked_timeout(timeout))


def open(folder: str | os.PathLike[str], *, timeout: float = 10) -> Client:
    """A client of a private server on a folder, which is started if none runs there; the folder is made if need be.

    Other processes that open the folder join the same server. It stops, flushed, a few seconds after its last client
    has gone, however that went, and Ctrl-C doesn't reach it. Blocks until it is ready, which takes as long as its
    recovery. Raises EmbeddedServerError with the server's last words if it can't be started.
    """
    seconds = checked_timeout(timeout)
    return running_server(
        given_folder(folder), lambda address: _connected(Servers((address,), is_held_open=True), seconds)
    )


def reached_server(folder: Path, timeout_s: float) -> str:
    """The address of a folder's private server, started if none runs there. Blocks as `open` does."""

    def reached(address: str) -> str:
        _connected(Servers((address,)), timeout_s).close()
        return address

    return running_server(folder, reached)


def given_folder(folder: str | os.PathLike[str]) -> Path:
    """The folder of a private server. InvalidArgumentError for an empty name, which Path takes for the current one."""
    if folder == "":
        raise InvalidArgumentError("the folder's name is empty; name a folder, '.' for the current one")
    return Path(folder)


def check_protocol(info: catalog_pb2.ServerInfoResponse, address: str) -> None:
    """Raises InvalidArgumentError for a server that speaks another protocol."""
    if info.protocol != PROTOCOL:
        raise InvalidArgumentError(
            f"the server at {address} speaks protocol {info.protocol}, and this client {PROTOCOL}; install the "
            f"version of rowlock that it has, {info.version}"
        )


def nobody_answers(addresses: tuple[str, ...], met: list[RowlockError]) -> RowlockError:
    """What connecting fails with after each address failed: with what answered wrongly, if one did."""
    for error in met:
        if isinstance(error, InvalidArgumentError):
            return error
    why = str(met[-1]).removeprefix(f"no server answers at {addresses[-1]}: ")
    if why.startswith(NAME_NOT_FOUND):
        host = addresses[-1].rpartition(":")[0]
        return ServerUnavailableError(
            f"no rowlock server answers at {', '.join(addresses)}: there is no host {host!r} as far as name servers "
            f"know. Is the name right? ({why})"
        )
    return ServerUnavailableError(
        f"no rowlock server answers at {', '.join(addresses)}: {why}. Is it running? "
        "'rowlock-server --data FOLDER' starts one"
    )


def _connected(servers: Servers, timeout_s: float) -> Client:
    try:
        _verify(servers, timeout_s)
    except BaseException:
        servers.close()
        raise
    return Client(servers, timeout_s)


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
        check_protocol(info, address)
        servers.choose(address)
        servers.request_bytes_max = info.limits.request_bytes_max or servers.request_bytes_max
        return
    raise nobody_answers(servers.addresses, met)
