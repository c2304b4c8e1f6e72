"""The asyncio driver of a conversation: one stream to one server, shared by all tasks of a client.

A request waits in the conversation until the writing task sends it, in one message with all others that wait. The
reading task wakes the task whose answer has come. All tasks belong to one event loop, so there are no locks.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Protocol

import grpc
from rowlock_proto.v1 import region_pb2

from rowlock._codec.wire_errors import error_of_call
from rowlock._core.conversation import Conversation, ConversationStatistics, Request
from rowlock._core.scan_release import abandon
from rowlock._core.sequences import Sequences
from rowlock._transport.stream import server_timeout_ms
from rowlock.errors import ClosedError, RowlockError, ServerUnavailableError


class OpenStream(Protocol):
    """A grpc.aio call that sends bytes and receives answers. `read` returns grpc.aio.EOF after the server ended it."""

    async def write(self, message: bytes) -> None: ...

    async def read(self) -> object: ...

    def cancel(self) -> bool: ...


Converse = Callable[[], OpenStream]


class _Run:
    """One opening of the stream."""

    def __init__(self, stream: OpenStream) -> None:
        self.stream = stream
        self.has_work = asyncio.Event()
        self.tasks: list[asyncio.Task[None]] = []


class PointStream:
    """Sends requests to one server and waits for their answers. For tasks of one event loop."""

    def __init__(self, converse: Converse, address: str, sequences: Sequences) -> None:
        self.address = address
        self._converse = converse
        self._conversation = Conversation(sequences)
        self._run: _Run | None = None
        self._is_closed = False

    async def call(self, request: Request, region_id: int, deadline: float) -> None:
        """Sends a request and waits until it is done, or until the deadline (time.monotonic()) at the latest.

        Afterwards `request.answer` or `request.failure` is set, or neither if the deadline passed. Cancelling the wait
        does not disturb other requests.
        """
        remaining_s = deadline - time.monotonic()
        loop = asyncio.get_running_loop()
        done: asyncio.Future[None] = loop.create_future()

        def wake() -> None:
            if not done.done():
                done.set_result(None)

        request.prepare(region_id, server_timeout_ms(remaining_s), wake)
        out_of_time = loop.call_later(max(0.0, remaining_s), wake)
        is_done = False
        try:
            self.submit(request)
            await done
            is_done = request.answer is not None or request.failure is not None
        finally:
            out_of_time.cancel()
            if not is_done:
                abandon(self._conversation, request, self.submit)

    @property
    def is_open(self) -> bool:
        return self._run is not None

    def submit(self, request: Request) -> None:
        """Adds a request, which is sent soon. Raises ClosedError."""
        run = self.hold_open()
        self._conversation.submit(request)
        run.has_work.set()

    def hold_open(self) -> _Run:
        """Opens the stream if it is not open."""
        if self._is_closed:
            raise ClosedError("the client was closed")
        if self._run is None:
            run = self._run = _Run(self._converse())
            run.tasks = [
                asyncio.create_task(self._write(run), name="rowlock requests"),
                asyncio.create_task(self._read(run), name="rowlock answers"),
            ]
        return self._run

    async def close(self) -> None:
        """Ends the stream. Waiting calls end with ClosedError. Idempotent."""
        self._is_closed = True
        self._conversation.lost(ClosedError("the client was closed while the call was under way"))
        run, self._run = self._run, None
        if run is not None:
            run.stream.cancel()
            for task in run.tasks:
                task.cancel()
            await asyncio.gather(*run.tasks, return_exceptions=True)

    def statistics(self) -> ConversationStatistics:
        return self._conversation.statistics()

    async def _write(self, run: _Run) -> None:
        """The writing task. It runs until the reading task cancels it at the end of the stream."""
        try:
            while True:
                await run.has_work.wait()
                run.has_work.clear()
                while (message := self._conversation.next_message()) is not None:
                    await run.stream.write(message)
        except (grpc.RpcError, asyncio.InvalidStateError):
            # The stream has ended; the reading task gets the reason.
            pass

    async def _read(self, run: _Run) -> None:
        """The reading task. It runs until the stream ends."""
        failure: RowlockError = ServerUnavailableError(f"the server at {self.address} ended the stream of requests")
        try:
            while isinstance(message := await run.stream.read(), region_pb2.PointAnswers):
                self._conversation.answered(message.answers)
                if self._conversation.can_send:
                    run.has_work.set()
            # The server ended the stream; the status is an error if there is one.
        except grpc.aio.AioRpcError as error:
            failure = error_of_call(error, self.address)
        finally:
            if self._run is run:
                self._run = None
                run.tasks[0].cancel()
                run.stream.cancel()
                self._conversation.lost(failure)
