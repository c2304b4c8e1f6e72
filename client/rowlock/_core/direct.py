"""The direct connection, without I/O: where it may be opened, its first frames, and what later frames mean.

ServerInfo announces it: a TCP address, a Unix socket in the data folder, and the ids of the folder and of the server's
run. The client compares the ids with those in the server's first frame, before it sends a request. So an address that
another server has taken over is never used. docs/direct_protocol.md has the format.
"""

from __future__ import annotations

import enum
import os
from dataclasses import dataclass
from typing import Protocol

from google.protobuf.message import DecodeError
from rowlock_proto.direct_frames import ANSWERS, END, HELLO, PONG, PREAMBLE, Body, frame
from rowlock_proto.unix_sockets import PREFIX, SocketName
from rowlock_proto.v1 import catalog_pb2, direct_pb2, region_pb2, types_pb2

from rowlock._codec.wire_errors import error_from
from rowlock._core.conversation import Conversation
from rowlock.errors import LimitExceededError, RowlockError, ServerError, ServerUnavailableError

_LOOPBACK_NAMES = ("localhost", "[::1]")

# How long opening a connection may take. It should take milliseconds; gRPC is there if it does not.
OPEN_S_MAX = 1.0


class DirectUnusableError(Exception):
    """A direct connection can't be used; the message says why."""


class Purpose(enum.Enum):
    """What a direct connection is for. The value: DirectWelcome.protocol of the first servers that have it."""

    POINTS = 1
    SCANS = 2
    BULK = 3


_NAMES = {Purpose.SCANS: "scans", Purpose.BULK: "bulk batches"}


class LinkedStream(Protocol):
    """A scan, or a stream of bulk batches, on a connection of its own, as its link sees it."""

    def cancel(self, reason: RowlockError | None = None) -> None:
        """Ends it; using it raises the reason."""

    def forget(self) -> None:
        """Closes this process's copy of the parent's socket, in the child of a fork."""


@dataclass(frozen=True, slots=True)
class Announcement:
    """Where a server takes direct connections, and how to recognise it. address, socket: empty if there is none."""

    address: str
    socket: str
    data_folder_id: str
    incarnation_id: str


def announcement_of(info: catalog_pb2.ServerInfoResponse) -> Announcement | None:
    """Returns what a server announces; None if it takes no direct connections."""
    if not info.HasField("direct"):
        return None
    direct = info.direct
    return Announcement(direct.address, os.fsdecode(direct.socket), info.data_folder_id, info.incarnation_id)


def targets(announcement: Announcement, server: str) -> list[str]:
    """Returns where to try to connect, `unix:PATH` or `host:port`, the quickest first.

    server: the address of the server for gRPC. A socket is tried only if that is on this machine. For a socket in the
    data folder, the folder's path may be another one here than for the server.
    """
    found = []
    if announcement.socket and _is_local(server):
        if server.startswith(PREFIX):
            folder = os.path.dirname(server.removeprefix(PREFIX))
            found.append(PREFIX + os.path.join(folder, os.path.basename(announcement.socket)))
        found.append(PREFIX + announcement.socket)
    if announcement.address:
        found.append(announcement.address)
    return list(dict.fromkeys(found))


def host_and_port(target: str) -> tuple[str, str]:
    """Returns both parts of a target that is not a socket."""
    host, _, port = target.rpartition(":")
    return host.removeprefix("[").removesuffix("]"), port


def socket_name(target: str) -> SocketName:
    """Returns the name of a target that is a socket. Raises DirectUnusableError."""
    try:
        return SocketName(target.removeprefix(PREFIX))
    except ValueError as error:
        raise DirectUnusableError(str(error)) from None


def failed_at(target: str, error: Exception) -> str:
    """Returns why there is no connection to the target."""
    return f"{target}: {str(error) or type(error).__name__}"


def _is_local(server: str) -> bool:
    host = server.rpartition(":")[0]
    return server.startswith(PREFIX) or host in _LOOPBACK_NAMES or host.startswith("127.")


_HELLOS = {
    purpose: PREAMBLE
    + frame(
        HELLO,
        direct_pb2.DirectHello(
            client="rowlock for Python", scans=purpose is Purpose.SCANS, bulk=purpose is Purpose.BULK
        ).SerializeToString(),
    )
    for purpose in Purpose
}


def hello(purpose: Purpose = Purpose.POINTS) -> bytes:
    """Returns what the client sends first."""
    return _HELLOS[purpose]


def body_bytes_max_of(kind: int, body: Body, announcement: Announcement, purpose: Purpose = Purpose.POINTS) -> int:
    """Returns the server's limit of a body, from its first frame.

    Raises DirectUnusableError if it is not the announced server, or refuses.
    """
    if kind != HELLO:
        raise DirectUnusableError(f"its first frame is of kind {kind}, not a welcome")
    try:
        welcome = direct_pb2.DirectWelcome.FromString(bytes(body))
    except DecodeError:
        raise DirectUnusableError("its first frame is not a welcome") from None
    if welcome.HasField("error"):
        raise DirectUnusableError(f"it refuses: {welcome.error.message}")
    found = (welcome.data_folder_id, welcome.incarnation_id)
    if found != (announcement.data_folder_id, announcement.incarnation_id):
        raise DirectUnusableError(
            f"another server is there: the data folder {found[0]!r} in the run {found[1]!r}, not "
            f"{announcement.data_folder_id!r} in the run {announcement.incarnation_id!r}"
        )
    if not welcome.body_bytes_max:
        raise DirectUnusableError("it takes no requests")
    if purpose is not Purpose.POINTS and welcome.protocol < purpose.value:
        raise DirectUnusableError(f"it is of an earlier version, which takes no {_NAMES[purpose]}")
    return welcome.body_bytes_max


def take_frame(conversation: Conversation, kind: int, body: Body, server: str) -> RowlockError | None:
    """Gives a frame's answers to their requests. Returns the error with which the connection ends, if it does."""
    try:
        if kind == ANSWERS:
            conversation.answered(region_pb2.PointAnswers.FromString(body).answers)  # type: ignore[arg-type]
            return None
        if kind == END:
            return error_from(types_pb2.Error.FromString(bytes(body)))
    except DecodeError:
        return ServerError(f"the server at {server} sent a frame of kind {kind} that makes no sense")
    if kind == PONG:
        return None
    return ServerError(f"the server at {server} sent a frame of kind {kind}, which this client does not know")


def too_large_error(payload_bytes: int, body_bytes_max: int, server: str) -> LimitExceededError:
    """Returns the error for a request that the server would refuse, and with it everything after it."""
    return LimitExceededError(
        f"the request has {payload_bytes} bytes, more than request_bytes_max = {body_bytes_max} of the server at "
        f"{server}; send less at once, and a large value in parts",
        limit="request_bytes_max",
        limit_value=body_bytes_max,
        found=payload_bytes,
    )


def lost_error(server: str, reason: object) -> ServerUnavailableError:
    """Returns the error for a direct connection that was lost."""
    return ServerUnavailableError(f"the connection to {server} was lost: {reason}")
