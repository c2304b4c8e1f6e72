"""The raw baseline of direct connections: length-prefixed messages on a socket, asyncio on one side, a blocking caller.

    python -m bench.targets.framed_echo    prints its address, and serves until it is killed

A frame is four bytes, big-endian: the length of the rest; then the message. First the client sends requests and their
answers in turns, up to an empty frame. From then on the server answers each frame with the answer to the request of
that length, so one server echoes several kinds of calls.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from bench.processes import ServerProcess, start_module
from bench.targets.messages import Exchange

_LENGTH = struct.Struct(">I")
_RECEIVE_BYTES = 64 * 1024


def frame(message: bytes) -> bytes:
    return _LENGTH.pack(len(message)) + message


class _Echo(asyncio.Protocol):
    """One connection."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport
        self._received = bytearray()
        self._messages: list[bytes] = []
        self._answers: dict[int, bytes] = {}
        self._is_ready = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        received = self._received
        received += data
        while len(received) >= _LENGTH.size:
            (length,) = _LENGTH.unpack_from(received)
            stop = _LENGTH.size + length
            if len(received) < stop:
                return
            if self._is_ready:
                self._transport.write(self._answers[length])
            else:
                self._learn(bytes(received[_LENGTH.size : stop]))
            del received[:stop]

    def _learn(self, message: bytes) -> None:
        if message:
            self._messages.append(message)
            return
        messages = iter(self._messages)
        self._answers = {len(request): frame(answer) for request, answer in zip(messages, messages, strict=True)}
        self._is_ready = True


class FramedEcho:
    """The calling side. Used by one thread."""

    def __init__(self, address: str, exchanges: Sequence[Exchange]) -> None:
        """The requests of the exchanges have different lengths."""
        host, port = address.split(":")
        self._socket = socket.create_connection((host, int(port)))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._received = bytearray(_RECEIVE_BYTES)
        messages = [message for exchange in exchanges for message in (exchange.request, exchange.answer)]
        self._socket.sendall(b"".join(map(frame, [*messages, b""])))

    def exchange(self, request: bytes) -> bytes:
        """Sends one message and waits for its answer."""
        self._socket.sendall(frame(request))
        received, view = 0, memoryview(self._received)
        while received < _LENGTH.size or received < _LENGTH.size + _LENGTH.unpack_from(view)[0]:
            count = self._socket.recv_into(view[received:])
            if not count:
                raise ConnectionError("the echo has closed the connection")
            received += count
        return bytes(view[_LENGTH.size : received])

    def close(self) -> None:
        self._socket.close()


@contextmanager
def running_framed_echo(folder: Path, exchanges: Sequence[Exchange]) -> Iterator[tuple[ServerProcess, FramedEcho]]:
    """Runs the server as a process, and connects to it."""
    with start_module("bench.targets.framed_echo", [], folder / "framed.log") as server:
        echo = FramedEcho(server.address, exchanges)
        try:
            yield server, echo
        finally:
            echo.close()


async def _serve() -> None:
    server = await asyncio.get_running_loop().create_server(_Echo, "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()
    print(f"listening on {host}:{port}", flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(_serve())
