"""The direct port: a TCP address, a Unix socket in the data folder, or both.

The TCP address is bound before the server changes anything, and the socket when the server has locked the folder, so
that no other server's is taken away. Neither accepts before the server has recovered: until then connecting is refused,
and clients learn the reason by gRPC.
"""

from __future__ import annotations

import contextlib
import logging
import os
import socket
from dataclasses import dataclass
from pathlib import Path

from rowlock_proto.unix_sockets import SocketName
from rowlock_proto.v1.catalog_pb2 import DirectAddress

from rowlock_regionserver.rpc.addresses import Address, ListenError, denied_to_others
from rowlock_regionserver.rpc.direct.acceptor import Acceptor
from rowlock_regionserver.rpc.direct.plan import SOCKET, DirectPlan
from rowlock_regionserver.rpc.direct.service import DirectService

_BACKLOG = 128
logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class DirectStatistics:
    """The direct connections now, and how many were refused or dropped."""

    open_count: int
    greeting_count: int
    dropped_count: int


class DirectListener:
    """Listens for direct connections. Used on the event loop, except where a method says otherwise."""

    def __init__(self, plan: DirectPlan) -> None:
        self._plan = plan
        self._tcp: socket.socket | None = None
        self._address: Address | None = None
        self._unix: socket.socket | None = None
        self._name: SocketName | None = None
        self._path: Path | None = None
        self._acceptors: list[Acceptor] = []
        self._service: DirectService | None = None

    def bind_tcp(self) -> None:
        """Binds the TCP address. Raises ListenError. Blocks for a name lookup."""
        address = self._plan.address
        if address is None:
            return
        try:
            self._tcp = _bound(address)
        except OSError as error:
            reason = error.strerror or str(error)
            if self._plan.is_address_required:
                raise ListenError(
                    f"can't listen on {address} for direct connections: {reason}; choose another address with --direct"
                ) from None
            self._tcp = _bound(Address(address.host, 0))
            port = self._tcp.getsockname()[1]
            logger.info("direct connections are on port %d: can't listen on %s: %s", port, address, reason)
        self._address = Address(address.host, self._tcp.getsockname()[1])

    def bind_socket(self, folder: Path, *, allows_other_users: bool) -> None:
        """Binds the socket in the data folder, in place of one that a killed server left. Raises ListenError.

        The caller has locked the folder. allows_other_users: all users who can reach the folder may connect.
        """
        if not self._plan.has_socket:
            return
        path = folder / SOCKET
        try:
            with contextlib.suppress(FileNotFoundError):
                path.unlink()
            self._name = SocketName(str(path))
            self._unix = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            with denied_to_others():
                self._unix.bind(self._name.path)
        except (OSError, ValueError) as error:
            self._close_sockets()
            raise ListenError(f"can't make the socket {path} for direct connections: {error}") from None
        self._path = path
        if allows_other_users:
            path.chmod(0o777)

    def announcement(self) -> DirectAddress | None:
        """Returns the addresses for clients; None: there are none."""
        advertised = self._plan.advertise or self._address
        if self._address is None and self._path is None:
            return None
        return DirectAddress(
            address=str(advertised) if self._address is not None else "",
            socket=os.fsencode(self._path) if self._path is not None else b"",
        )

    def start(self, service: DirectService) -> None:
        """Accepts clients from now on."""
        self._service = service
        for bound in (self._tcp, self._unix):
            if bound is not None:
                bound.setblocking(False)
                bound.listen(_BACKLOG)
                self._acceptors.append(Acceptor(bound, service))

    def statistics(self) -> DirectStatistics:
        """From any thread."""
        service = self._service
        if service is None:
            return DirectStatistics(0, 0, 0)
        clients = service.clients
        return DirectStatistics(clients.open_count, clients.greeting_count, service.log.count)

    def stop(self) -> None:
        """Accepts no more clients, and ends the connections when the requests that they have begun are answered."""
        self._close_sockets()
        if self._service is not None:
            self._service.clients.stop()

    async def close(self, seconds_max: float) -> None:
        """Waits until all connections have ended; closes those that have not by then. Idempotent, also before start."""
        self.stop()
        if self._service is not None:
            await self._service.clients.left(seconds_max)

    def _close_sockets(self) -> None:
        for acceptor in self._acceptors:
            acceptor.stop()
        for bound in (self._tcp, self._unix):
            if bound is not None:
                bound.close()
        if self._path is not None:
            self._path.unlink(missing_ok=True)
            self._path = None
        self._acceptors, self._tcp, self._unix = [], None, None
        if self._name is not None:
            self._name.close()


def _bound(address: Address) -> socket.socket:
    """Returns a socket bound to the address, which does not listen yet: connecting is refused. Raises OSError."""
    found = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    family, kind, protocol, _, where = found[0]
    bound = socket.socket(family, kind, protocol)
    try:
        # For a port whose last connections have just ended.
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(where)
    except BaseException:
        bound.close()
        raise
    return bound
