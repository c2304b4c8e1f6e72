"""Where to listen: HOST:PORT or unix:PATH as it is written, and whether strangers could connect there."""

from __future__ import annotations

import ipaddress
import socket
import stat
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from rowlock_proto.unix_sockets import PREFIX, SocketName, socket_path


class ListenError(Exception):
    """The address can't be listened on, or must not be."""


@dataclass(frozen=True, slots=True)
class Address:
    """A host, by name or number, and a port; 0 lets the system choose."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @classmethod
    def parse(cls, text: str) -> Address:
        """ListenError when it is not HOST:PORT; an IPv6 number stands in brackets."""
        host, colon, port = text.rpartition(":")
        if host.startswith("[") and host.endswith("]"):
            host = host[1:-1]
        elif ":" in host:
            host = ""
        if not (colon and host and port.isascii() and port.isdigit() and int(port) <= 65535):
            raise ListenError(f"{text!r} is not an address; write HOST:PORT, like 127.0.0.1:7460 or [::1]:7460")
        return cls(host, int(port))

    def is_any(self) -> bool:
        """It stands for every address of the machine, so it is none that a client could connect to."""
        try:
            return ipaddress.ip_address(self.host).is_unspecified
        except ValueError:
            return False

    def is_loopback(self) -> bool:
        """Only this machine can connect. ListenError when the name is not known; blocks while it is looked up."""
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            pass
        try:
            found = socket.getaddrinfo(self.host, self.port, type=socket.SOCK_STREAM)
        except OSError as error:
            raise ListenError(f"the host of {self} is not known here: {error}") from None
        return all(ipaddress.ip_address(str(entry[4][0]).partition("%")[0]).is_loopback for entry in found)

    def why_not(self) -> str:
        """Why it can't be listened on, by trying."""
        try:
            for family, kind, protocol, _, where in socket.getaddrinfo(self.host, self.port, type=socket.SOCK_STREAM):
                with socket.socket(family, kind, protocol) as probe:
                    probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                    probe.bind(where)
                    probe.listen()
        except OSError as error:
            return error.strerror or str(error)
        return "it was taken a moment ago"


@dataclass(frozen=True, slots=True)
class UnixAddress:
    """A Unix socket, which is a file: users who may write to it may connect."""

    path: Path  # absolute

    def __str__(self) -> str:
        return f"{PREFIX}{self.path}"

    def check_free(self) -> None:
        """Raises ListenError when the name is taken; gRPC would take a socket away from the server that has it."""
        try:
            if not stat.S_ISSOCK(self.path.lstat().st_mode):
                raise ListenError(f"can't listen on {self}: something else has that name; choose another one")
            with closing(SocketName(str(self.path))) as name, socket.socket(socket.AF_UNIX) as probe:
                probe.connect(name.path)
        except (FileNotFoundError, ConnectionRefusedError):
            return  # The latter is what a server leaves that was killed.
        except (OSError, ValueError) as error:
            raise ListenError(f"can't listen on {self}: {error}; choose another name") from None
        raise ListenError(f"can't listen on {self}: a server listens there already; stop it, or choose another name")


AnyAddress = Address | UnixAddress


def parsed_address(text: str) -> AnyAddress:
    """HOST:PORT or unix:PATH. ListenError when it is neither."""
    if not text.startswith(PREFIX):
        return Address.parse(text)
    try:
        return UnixAddress(Path(socket_path(text)))
    except ValueError as error:
        raise ListenError(f"{error}, like {PREFIX}/run/rowlock/socket") from None


def checked_listen(listen: AnyAddress, advertise: AnyAddress | None, is_insecure: bool) -> AnyAddress:
    """The address to listen on; ListenError when strangers could connect to it, or clients couldn't be told it."""
    if isinstance(listen, UnixAddress):
        listen.check_free()
        return listen
    if not is_insecure and not listen.is_loopback():
        raise ListenError(
            f"{listen} can be reached from other machines, and there is neither encryption nor a password; "
            "listen on 127.0.0.1, or say --insecure if everybody on that network may read and change everything"
        )
    if listen.is_any() and advertise is None:
        raise ListenError(
            f"{listen} is no address that clients could be told; say with --advertise HOST:PORT where they find it"
        )
    return listen
