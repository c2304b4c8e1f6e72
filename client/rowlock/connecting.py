"""Opening a client: `connect` to servers that run, `open` a private server on a folder (threads)."""

from __future__ import annotations

import os
import time
from pathlib import Path

from rowlock._core.search import Search
from rowlock._core.view import checked_timeout
from rowlock._transport.channels import given_addresses
from rowlock._transport.embedded import FolderServer, running_server
from rowlock._transport.finding import find_server
from rowlock._transport.servers import Servers
from rowlock.client import Client
from rowlock.errors import InvalidArgumentError


def connect(server: str | None = None, *, timeout: float = 10) -> Client:
    """A client of the servers at `host:port` or `unix:PATH`, several divided by commas; None: of $ROWLOCK_SERVER.

    The first that answers is used, at once; others take its place when it fails. timeout: seconds that every call may
    take in all, its retries included, and that this one tries to find a server which has not started or recovered yet.
    Raises ServerUnavailableError if none answers, and at once InvalidArgumentError for a malformed address or one where
    something else answers.
    """
    return connected(given_addresses(server), checked_timeout(timeout))


def open(folder: str | os.PathLike[str], *, timeout: float = 10) -> Client:
    """A client of a private server on a folder, which is started if none runs there; the folder is made if need be.

    Other processes of this user that open the folder join the same server; nobody else can. It stops, flushed, a few
    seconds after its last client has gone, however that went, and Ctrl-C doesn't reach it. Blocks until it is ready,
    which takes as long as its recovery. Raises EmbeddedServerError with the server's last words if it can't be started.
    """
    seconds = checked_timeout(timeout)

    def join(server: FolderServer) -> Client:
        servers = Servers((server.address,), is_held_open=True, folder_id=server.folder_id)
        return _connected(servers, seconds, folder_search(server, seconds))

    return running_server(given_folder(folder), join)


def reached_server(folder: Path, timeout_s: float) -> FolderServer:
    """A folder's private server, started if none runs there. Blocks as `open` does."""

    def reached(server: FolderServer) -> FolderServer:
        _connected(Servers((server.address,)), timeout_s, folder_search(server, timeout_s)).close()
        return server

    return running_server(folder, reached)


def folder_search(server: FolderServer, timeout_s: float) -> Search:
    """The search for a server that a folder names; it ends at once if that server is gone or serves another folder."""
    return Search((server.address,), time.monotonic(), timeout_s, absent_s=0.0, folder_id=server.folder_id)


def given_folder(folder: str | os.PathLike[str]) -> Path:
    """The folder of a private server. InvalidArgumentError for an empty name, which Path takes for the current one."""
    if folder == "":
        raise InvalidArgumentError("the folder's name is empty; name a folder, '.' for the current one")
    return Path(folder)


def connected(addresses: tuple[str, ...], timeout_s: float, *, absent_s: float | None = None) -> Client:
    """As `connect`; absent_s: for how long to try while no server listens, if not for all of timeout_s."""
    return _connected(Servers(addresses), timeout_s, Search(addresses, time.monotonic(), timeout_s, absent_s=absent_s))


def _connected(servers: Servers, timeout_s: float, search: Search) -> Client:
    find_server(servers, search)
    return Client(servers, timeout_s)
