"""A TCP proxy in front of a server that loses answers: the server has made a change, but its client gets no answer.

A server sends a sequence of frames, over HTTP/2 or over a direct connection. The proxy forwards everything in both
directions, up to the frame with answers at which it cuts the connection, which it drops. So it always loses the answer
of a change that is made and published.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import threading
from collections.abc import Coroutine
from types import TracebackType
from typing import Protocol

from rowlock_proto.direct_frames import ANSWERS, BULK_ANSWER, HEAD, PREAMBLE, SCAN_BATCH, SCAN_END

_CHUNK_BYTES = 1 << 16


class Framing(Protocol):
    """How a server's bytes are divided."""

    # What it sends before the first frame, and the head of each frame.
    preamble_bytes: int
    head_bytes: int

    def body_bytes(self, head: bytes) -> int:
        """The length of the frame's body."""

    def has_answers(self, head: bytes) -> bool:
        """Whether the frame has answers. Other frames maintain the connection."""


class Http2(Framing):
    """gRPC's: answers are in DATA frames."""

    preamble_bytes, head_bytes = 0, 9

    def body_bytes(self, head: bytes) -> int:
        return int.from_bytes(head[:3], "big")

    def has_answers(self, head: bytes) -> bool:
        return head[3] == 0 and self.body_bytes(head) > 0


class Direct(Framing):
    """A direct connection's."""

    preamble_bytes, head_bytes = len(PREAMBLE), HEAD.size

    def body_bytes(self, head: bytes) -> int:
        length, _ = HEAD.unpack(head)
        assert isinstance(length, int)
        return length - 1

    def has_answers(self, head: bytes) -> bool:
        _, kind = HEAD.unpack(head)
        return kind in (ANSWERS, SCAN_BATCH, SCAN_END, BULK_ANSWER)


class LossyProxy:
    """A context manager: listens at `address` until exit, in a separate thread."""

    def __init__(self, upstream: str, answers_before_cut: float, seed: int, framing: Framing | None = None) -> None:
        """`answers_before_cut` is the mean number of frames with answers before a connection is cut.

        framing: None: HTTP/2's.
        """
        self._framing = framing or Http2()
        self._host, _, port = upstream.rpartition(":")
        self._port = int(port)
        self._answers_before_cut = answers_before_cut
        self._random = random.Random(seed)
        self._started = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()), name="lossy proxy")
        self._loop: asyncio.AbstractEventLoop
        self._stopping: asyncio.Event
        self._connections: set[asyncio.Task[None]] = set()
        self.address = ""
        # Written only by the proxy's thread.
        self.lost_answers = 0

    def __enter__(self) -> LossyProxy:
        self._thread.start()
        self._started.wait()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._loop.call_soon_threadsafe(self._stopping.set)
        self._thread.join()

    async def _run(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._stopping = asyncio.Event()
        server = await asyncio.start_server(self._accepted, "127.0.0.1", 0)
        host, port = server.sockets[0].getsockname()
        self.address = f"{host}:{port}"
        self._started.set()
        async with server:
            await self._stopping.wait()
        for task in self._connections:
            task.cancel()

    async def _accepted(self, client: asyncio.StreamReader, to_client: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        try:
            # The server is not there or has ended: the client sees a closed connection.
            with contextlib.suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
                server, to_server = await asyncio.open_connection(self._host, self._port)
                try:
                    await _first_done(self._pass_on(client, to_server), self._pass_answers_on(server, to_client))
                finally:
                    to_server.transport.abort()
        finally:
            to_client.transport.abort()
            self._connections.discard(task)

    @staticmethod
    async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(_CHUNK_BYTES):
            writer.write(data)
            await writer.drain()

    async def _pass_answers_on(self, server: asyncio.StreamReader, to_client: asyncio.StreamWriter) -> None:
        """Forwards frame by frame, up to the one that is lost."""
        framing = self._framing
        to_client.write(await server.readexactly(framing.preamble_bytes))
        left = 1 + int(self._random.expovariate(1 / self._answers_before_cut))
        while True:
            head = await server.readexactly(framing.head_bytes)
            body = await server.readexactly(framing.body_bytes(head))
            if framing.has_answers(head):
                left -= 1
                if not left:
                    self.lost_answers += 1
                    return
            to_client.write(head + body)
            await to_client.drain()


async def _first_done(*works: Coroutine[None, None, None]) -> None:
    """Runs all until the first ends, however it ends; cancels the others."""
    tasks = [asyncio.create_task(work) for work in works]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    for task in done:
        task.result()
