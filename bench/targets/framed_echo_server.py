"""The server of the raw framed echo: what a connection of length-prefixed messages costs in Python without any work.

    python -m bench.targets.framed_echo_server

Prints its address and serves until it is killed. A frame is a length of four bytes, a byte for the method, and one or
more requests of that method (messages.py). The answer is a frame with as many answers. Nothing is parsed.
"""

from __future__ import annotations

import asyncio
import struct

from bench.targets.messages import VALUE_BYTES, Exchange, get_exchange, increment_exchange, put_exchange

LENGTH = struct.Struct(">I")


def exchanges() -> dict[bytes, Exchange]:
    """Returns the request and the answer of each method, by the byte that names it."""
    value = bytes(VALUE_BYTES)
    return {b"G": get_exchange(value), b"P": put_exchange(value), b"I": increment_exchange()}


class FramedEchoProtocol(asyncio.Protocol):
    """One connection of the server."""

    def __init__(self) -> None:
        self._received = bytearray()
        self._exchanges = exchanges()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport), f"not a transport of a stream: {transport!r}"
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._received += data
        while len(self._received) >= LENGTH.size:
            [length] = LENGTH.unpack_from(self._received)
            end = LENGTH.size + length
            if len(self._received) < end:
                return
            method = bytes(self._received[LENGTH.size : LENGTH.size + 1])
            self._answer(method, length - 1)
            del self._received[:end]

    def _answer(self, method: bytes, body_bytes: int) -> None:
        exchange = self._exchanges[method]
        body = method + exchange.answer * (body_bytes // len(exchange.request))
        self._transport.write(LENGTH.pack(len(body)) + body)


async def serve() -> None:
    """Serves until the process is killed."""
    server = await asyncio.get_running_loop().create_server(FramedEchoProtocol, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    print(f"listening on 127.0.0.1:{port}", flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(serve())
