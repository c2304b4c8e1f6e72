"""The server's end of a direct connection for a scan, under the test's control step by step."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Callable

from rowlock._transport.direct_socket import OpenSocket
from rowlock._transport.stream_sockets import KeptSockets, StreamSocket
from rowlock.schema import Region
from rowlock_proto.direct_frames import SCAN_BATCH, frame
from rowlock_proto.v1 import region_pb2

from tests.unit.client.direct_server import BODY_BYTES_MAX, LONG_S, greeted_reader
from tests.unit.client.test_direct_choice import HERE

REGION = Region(1, "t", b"", b"", "first:1")


class WatchedSocket(socket.socket):
    """The client's end. It may do something after it was shut down, or ignore that."""

    def __init__(self, connected: socket.socket) -> None:
        super().__init__(connected.family, connected.type, fileno=connected.detach())
        self.setblocking(False)
        self.is_deaf = False
        self.after_shutdown: Callable[[], object] = lambda: None

    def shutdown(self, how: int) -> None:
        if not self.is_deaf:
            super().shutdown(how)
        self.after_shutdown()


class ScanServer:
    """A connected pair of sockets: `opened` is the client's end, with the welcome behind it. kept: of the client."""

    def __init__(self, *, is_narrow: bool = False) -> None:
        """is_narrow: the system's buffers are small."""
        theirs, self.socket = socket.socketpair()
        if is_narrow:
            for end in (theirs, self.socket):
                end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
        self.socket.settimeout(LONG_S)
        self.client_socket = WatchedSocket(theirs)
        opened = OpenSocket(self.client_socket, greeted_reader(), BODY_BYTES_MAX)
        self.opened = StreamSocket(opened, "target", HERE)
        self.kept = KeptSockets()

    def send_batch(self, row_count: int) -> None:
        """Sends a batch without rows that claims to have so many."""
        self.socket.sendall(batch_frame(row_count))

    def is_left(self) -> bool:
        """Waits until the client has closed the connection or shut it down, or sent something."""
        with contextlib.suppress(ConnectionError):
            return self.socket.recv(1) == b""
        return True

    def close(self) -> None:
        self.socket.close()
        self.client_socket.close()
        self.kept.close()
        if hasattr(self, "opened"):  # A test may have dropped it. Its socket is another one once it was kept.
            self.opened.socket.close()


def batch_frame(row_count: int, arrow: bytes = b"") -> bytes:
    return frame(SCAN_BATCH, region_pb2.ScanBatch(row_count=row_count, arrow=arrow).SerializeToString())
