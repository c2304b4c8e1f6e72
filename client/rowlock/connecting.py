"""Opens a client: `connect` to running servers, or `open` a private server on a folder (threads)."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from rowlock._core.lock_requests import (
    DEFAULT_LOCK_POLICY,
    RETRIES_DEFAULT,
    RETRY_S_MAX_DEFAULT,
    WAIT_S_DEFAULT,
    LockPolicy,
)
from rowlock._core.search import Search
from rowlock._core.view import checked_timeout
from rowlock._transport.channels import given_addresses
from rowlock._transport.embedded import FolderServer, running_server
from rowlock._transport.finding import find_server
from rowlock._transport.servers import Servers
from rowlock.client import Client
from rowlock.errors import InvalidArgumentError, RowlockError

_SETTING_NAME = re.compile("[a-z_]+")


def connect(
    server: str | None = None,
    *,
    timeout: float = 10,
    lock_wait_s: float = WAIT_S_DEFAULT,
    lock_retries: int = RETRIES_DEFAULT,
    lock_retry_s_max: float = RETRY_S_MAX_DEFAULT,
) -> Client:
    """Returns a client of the servers at `host:port` or `unix:PATH`; separate several by commas.

    server: None: the value of $ROWLOCK_SERVER. The client uses the first server that answers, and another one when that
    one fails. timeout: seconds that each call may take, retries included; also how long connect waits for a server that
    has not started or recovered yet.

    lock_wait_s, lock_retries, lock_retry_s_max: for calls that take locks of tables, while others hold these: how long
    each try waits on the server; how many tries follow the first; the longest pause between, which begins at 0.1 s and
    doubles. One request waits for the time of all, so that it keeps its place among those that wait.

    Raises ServerUnavailableError if no server answers, ServerRecoveringError if it still recovers. Raises
    InvalidArgumentError at once for a malformed address, or if something other than rowlock answers there.
    """
    policy = LockPolicy(lock_wait_s, lock_retries, lock_retry_s_max)
    return connected(given_addresses(server), checked_timeout(timeout), policy=policy)


def open(
    folder: str | os.PathLike[str],
    *,
    timeout: float = 10,
    lock_wait_s: float = WAIT_S_DEFAULT,
    lock_retries: int = RETRIES_DEFAULT,
    lock_retry_s_max: float = RETRY_S_MAX_DEFAULT,
    settings: Mapping[str, int | str] | None = None,
) -> Client:
    """Returns a client of the private server on a folder. Starts the server, and creates the folder, if necessary.

    Other processes of this user that open the folder share the server; other users have no access. The server flushes
    and stops a few seconds after its last client has gone, even if that client was killed. Ctrl-C does not reach it.
    Blocks until the server is ready, which takes as long as its recovery. timeout: seconds that each call may take,
    retries included. lock_wait_s, lock_retries, lock_retry_s_max: as in `connect`. settings: of the server that this
    call starts, such as {"memory": "512MiB"}; one that runs already keeps its own. docs/settings.md lists them.

    Raises EmbeddedServerError, with the server's last output, if it can't be started; and with its address if a
    rowlock-server serves the folder at one, for `connect`. Raises InvalidArgumentError for an empty folder name.
    """
    seconds = checked_timeout(timeout)
    policy = LockPolicy(lock_wait_s, lock_retries, lock_retry_s_max)
    given = given_settings(settings)

    def join(server: FolderServer) -> Client:
        servers = Servers((server.address,), is_held_open=True, folder_id=server.folder_id)
        return _connected(servers, seconds, folder_search(server, seconds), policy)

    return running_server(given_folder(folder), join, lambda server: _answers(server, seconds), given)


def reached_server(folder: Path, timeout_s: float, settings: Sequence[str]) -> FolderServer:
    """Returns the folder's private server, when it answers; starts it if necessary. Blocks as `open` does."""

    def reached(server: FolderServer) -> FolderServer:
        _connected(Servers((server.address,)), timeout_s, folder_search(server, timeout_s)).close()
        return server

    return running_server(folder, reached, lambda server: _answers(server, timeout_s), settings)


def _answers(server: FolderServer, timeout_s: float) -> bool:
    """Returns whether a server with the folder's id answers at the address."""
    try:
        _connected(Servers((server.address,)), timeout_s, folder_search(server, timeout_s)).close()
    except RowlockError:
        return False
    return True


def folder_search(server: FolderServer, timeout_s: float) -> Search:
    """Returns the search for a folder's server. It ends at once if that server is gone or has another folder."""
    return Search((server.address,), time.monotonic(), timeout_s, absent_s=0.0, folder_id=server.folder_id)


def given_folder(folder: str | os.PathLike[str]) -> Path:
    """Returns the path of a folder. Raises InvalidArgumentError for an empty name, which Path reads as '.'."""
    if not isinstance(folder, str | os.PathLike):
        raise TypeError(f"folder must be a path, a str or os.PathLike, not {type(folder).__name__}")
    if folder == "":
        raise InvalidArgumentError("the folder's name is empty; name a folder, '.' for the current one")
    return Path(folder)


def given_settings(settings: Mapping[str, int | str] | None) -> Sequence[str]:
    """Returns a server's settings as NAME=VALUE. Raises TypeError, and InvalidArgumentError for what is no name."""
    if not isinstance(settings, Mapping | None):
        raise TypeError(f"settings must be a dict like {{'memory': '512MiB'}}, not {type(settings).__name__}")
    found: list[str] = []
    for name, value in (settings or {}).items():
        if not isinstance(value, int | str) or isinstance(value, bool):
            raise TypeError(f"setting {name!r:.100} must be an int or a str like '512MiB', not {type(value).__name__}")
        if not isinstance(name, str) or not _SETTING_NAME.fullmatch(name):
            raise InvalidArgumentError(f"{name!r:.100} is not the name of a setting; docs/settings.md lists them")
        found.append(f"{name}={value}")
    return found


def connected(
    addresses: tuple[str, ...],
    timeout_s: float,
    *,
    absent_s: float | None = None,
    policy: LockPolicy = DEFAULT_LOCK_POLICY,
) -> Client:
    """Returns a client of these servers, as `connect`. absent_s: how long to retry while none listens, if shorter."""
    search = Search(addresses, time.monotonic(), timeout_s, absent_s=absent_s)
    return _connected(Servers(addresses), timeout_s, search, policy)


def _connected(servers: Servers, timeout_s: float, search: Search, policy: LockPolicy = DEFAULT_LOCK_POLICY) -> Client:
    find_server(servers, search)
    return Client(servers, timeout_s, policy)
