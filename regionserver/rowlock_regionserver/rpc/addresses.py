"""Addresses to listen on: parses HOST:PORT or unix:PATH, and checks whether other machines could connect."""

from __future__ import annotations

import contextlib
import ipaddress
import os
import socket
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from rowlock_proto.unix_sockets import PREFIX, SocketName, socket_path


@contextlib.contextmanager
def denied_to_others() -> Iterator[None]:
    """Returns a context in which a socket denies access to other users from its creation on.

    It applies to the whole process, which is harmless: files that other threads create meanwhile only become less
    accessible.
    """
    mask_before = os.umask(0o177)
    try:
        yield
    finally:
        os.umask(mask_before)


class ListenError(Exception):
    """The server can't listen on the address, or must not."""


@dataclass(frozen=True, slots=True)
class Address:
    """A host, by name or IP address, and a port; 0 lets the system choose."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @classmethod
    def parse(cls, text: str) -> Address:
        """Parses HOST:PORT, with an IPv6 address in brackets. Raises ListenError for anything else."""
        host, colon, port = text.rpartition(":")
        if host.startswith("[") and host.endswith("]"):
            host = host[1:-1]
        elif ":" in host:
            host = ""
        if not (colon and host and port.isascii() and port.isdigit() and int(port) <= 65535):
            raise ListenError(f"{text!r} is not an address; write HOST:PORT, like 127.0.0.1:7460 or [::1]:7460")
        return cls(host, int(port))

    def is_wildcard(self) -> bool:
        """Whether it is a wildcard for every address of the machine, to which no client could connect."""
        try:
            return ipaddress.ip_address(self.host).is_unspecified
        except ValueError:
            return False

    def is_loopback(self) -> bool:
        """Whether only this machine can connect. Raises ListenError for an unknown name. Blocks for the name lookup."""
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            pass
        try:
            found = socket.getaddrinfo(self.host, self.port, type=socket.SOCK_STREAM)
        except OSError as error:
            raise ListenError(f"can't resolve the host of {self}: {error}") from None
        return all(ipaddress.ip_address(str(entry[4][0]).partition("%")[0]).is_loopback for entry in found)

    def bind_error(self) -> str:
        """Tries to listen on the address. Returns the reason why it fails."""
        try:
            for family, kind, protocol, _, where in socket.getaddrinfo(self.host, self.port, type=socket.SOCK_STREAM):
                with socket.socket(family, kind, protocol) as probe:
                    probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                    probe.bind(where)
                    probe.listen()
        except OSError as error:
            return error.strerror or str(error)
        return "another process used it a moment ago"


@dataclass(frozen=True, slots=True)
class UnixAddress:
    """A Unix socket, which is a file: users with write permission may connect."""

    path: Path  # absolute

    def __str__(self) -> str:
        return f"{PREFIX}{self.path}"

    def check_free(self) -> None:
        """Raises ListenError if the path is in use; gRPC would take a socket away from a running server."""
        try:
            if not stat.S_ISSOCK(self.path.lstat().st_mode):
                raise ListenError(f"can't listen on {self}: the file at that path is not a socket; choose another one")
            with contextlib.closing(SocketName(str(self.path))) as name, socket.socket(socket.AF_UNIX) as probe:
                probe.connect(name.path)
        except (FileNotFoundError, ConnectionRefusedError):
            return  # A killed server leaves a socket that refuses connections.
        except (OSError, ValueError) as error:
            raise ListenError(f"can't listen on {self}: {error}; choose another path") from None
        raise ListenError(f"can't listen on {self}: a server listens there already; stop it, or choose another path")


AnyAddress = Address | UnixAddress


def parsed_address(text: str) -> AnyAddress:
    """Parses HOST:PORT or unix:PATH. Raises ListenError if it is neither."""
    if not text.startswith(PREFIX):
        return Address.parse(text)
    try:
        return UnixAddress(Path(socket_path(text)))
    except ValueError as error:
        raise ListenError(f"{error}, like {PREFIX}/run/rowlock/socket") from None


def checked_listen(listen: AnyAddress, advertise: AnyAddress | None, is_insecure: bool) -> AnyAddress:
    """Returns the address to listen on. Raises ListenError if it is open to other machines, or a bare wildcard.

    `is_insecure` permits other machines; `advertise` gives clients an address in place of a wildcard.
    """
    if isinstance(listen, UnixAddress):
        listen.check_free()
        return listen
    check_reach(listen, advertise, is_insecure=is_insecure)
    return listen


def check_reach(
    listen: Address,
    advertise: AnyAddress | None,
    *,
    is_insecure: bool,
    listen_option: str = "--listen",
    advertise_option: str = "--advertise",
) -> None:
    """Raises ListenError if the address is open to other machines, or a bare wildcard; as checked_listen."""
    if not is_insecure and not listen.is_loopback():
        raise ListenError(
            f"{listen} can be reached from other machines, and there is no encryption and no authentication; "
            f"use {listen_option} 127.0.0.1:PORT, or --insecure if everybody on that network may read and change all "
            "data"
        )
    if listen.is_wildcard() and advertise is None:
        raise ListenError(
            f"clients can't connect to the wildcard address {listen}; set the address for clients with "
            f"{advertise_option} HOST:PORT"
        )
