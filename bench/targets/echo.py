"""The client of the raw baselines: sync grpcio, one call at a time, bytes in and bytes out."""

from __future__ import annotations

import queue
import socket
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import grpc
import pyarrow as pa

from bench.processes import start_module
from bench.targets.echo_server import SERVICE
from bench.targets.framed_echo_server import LENGTH

# As a client of rowlock has it.
_BUFFER_BYTES = 2 << 20


class EchoStream:
    """One long-lived bidirectional stream. Used by one thread at a time."""

    def __init__(self, channel: grpc.Channel, method: str) -> None:
        self._requests: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        call: grpc.StreamStreamMultiCallable[bytes, bytes] = channel.stream_stream(f"/{SERVICE}/{method}")
        self._answers = call(iter(self._requests.get, None))

    def exchange(self, message: bytes) -> bytes:
        """Sends one message and waits for its answer."""
        self._requests.put(message)
        return next(self._answers)

    def exchange_all(self, messages: Iterable[bytes]) -> int:
        """Sends all messages, then waits for all answers; returns their number. The server works while it sends."""
        count = 0
        for message in messages:
            self._requests.put(message)
            count += 1
        for _ in range(count):
            next(self._answers)
        return count

    def close(self) -> None:
        self._requests.put(None)


class EchoSocket:
    """A connection to a plain Unix socket, as `EchoStream` for `Bulk`."""

    def __init__(self, path: Path) -> None:
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _BUFFER_BYTES)
        self._socket.connect(str(path))

    def exchange_all(self, messages: Iterable[bytes]) -> int:
        """Sends all messages, then waits for all answers; returns their number. The server works while it sends."""
        count = 0
        for message in messages:
            self._socket.sendall(LENGTH.pack(len(message)))
            self._socket.sendall(message)
            count += 1
        for _ in range(count):
            self._socket.recv(LENGTH.size, socket.MSG_WAITALL)
        return count

    def close(self) -> None:
        self._socket.close()


class Echo:
    """Calls of the baseline server's methods."""

    def __init__(self, channel: grpc.Channel, folder: Path) -> None:
        """folder: the server's, where its socket is."""
        self._channel = channel
        self._folder = folder
        self._unary: grpc.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(f"/{SERVICE}/Unary")
        self._scan: grpc.UnaryStreamMultiCallable[bytes, bytes] = channel.unary_stream(f"/{SERVICE}/Scan")
        self._scan_typed: grpc.UnaryStreamMultiCallable[bytes, bytes] = channel.unary_stream(f"/{SERVICE}/ScanTyped")

    def stream(self, method: str) -> EchoStream:
        """Opens a stream: `Get` answers at once, `Put` after a write and a sync, `Bulk` after these and a sort."""
        return EchoStream(self._channel, method)

    def bulk_socket(self) -> EchoSocket:
        """Opens a plain socket whose answers come as those of `Bulk`."""
        return EchoSocket(self._folder / "bulk")

    def unary(self, message: bytes) -> bytes:
        return self._unary(message)

    def scan(self) -> pa.Table:
        """Returns the server's cells as one table."""
        return _table(self._scan(b""))

    def scan_frames(self) -> pa.Table:
        """Returns the same cells, which come over a plain Unix socket."""
        with socket.socket(socket.AF_UNIX) as connected:
            connected.connect(str(self._folder / "scan"))
            return _table(_frames(connected))

    def scan_typed(self) -> pa.Table:
        """Returns the server's typed rows as one table."""
        return _table(self._scan_typed(b""))


def _frames(connected: socket.socket) -> Iterator[pa.Buffer]:
    while length := connected.recv(LENGTH.size, socket.MSG_WAITALL):
        # Arrow's pool reuses freed memory; the client has the values of a scan there, too.
        message = pa.allocate_buffer(*LENGTH.unpack(length))
        view = memoryview(message)
        while view:
            view = view[connected.recv_into(view) :]
        yield message


def _table(messages: Iterable[bytes | pa.Buffer]) -> pa.Table:
    return pa.concat_tables(pa.ipc.open_stream(message).read_all() for message in messages)


@contextmanager
def running_echo(folder: Path, row_count: int = 0, typed_row_count: int = 0) -> Iterator[Echo]:
    """Runs a baseline server as a process, which writes its file in the folder, and connects to it."""
    arguments = [str(folder), str(row_count), str(typed_row_count)]
    options = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]
    with (
        start_module("bench.targets.echo_server", arguments, folder / "echo.log") as server,
        grpc.insecure_channel(server.address, options=options) as channel,
    ):
        yield Echo(channel, folder)
