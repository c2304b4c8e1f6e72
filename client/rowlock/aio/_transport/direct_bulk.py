"""A stream of bulk batches on a direct connection, which no other one uses meanwhile (asyncio)."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from rowlock_proto.direct_frames import END
from rowlock_proto.v1 import region_pb2

from rowlock._codec.bulk_message import MessagePiece
from rowlock._core.direct_bulk import ANSWER_BYTES_MAX, answer_of, batch_frame
from rowlock._transport.direct_socket import peeked, widen
from rowlock._transport.stream_sockets import KeptSockets, StreamSocket
from rowlock.aio._transport.direct_stream import DirectStream
from rowlock.aio._transport.servers import Servers
from rowlock.errors import DeadlineError, RowlockError
from rowlock.schema import Region

# How many bytes are sent before the timeout starts again.
_SENT_BYTES_MAX = 1 << 20


class DirectBulk(DirectStream):
    """The direct counterpart of BulkStream."""

    _NAME = "stream of batches"

    def __init__(
        self, servers: Servers, region: Region, opened: StreamSocket, kept: KeptSockets, timeout_s: float
    ) -> None:
        """timeout_s: how long the server may take nothing of a batch, and how long to answer one."""
        super().__init__(servers, region, opened, kept, ANSWER_BYTES_MAX)
        self._folder_id = region.data_folder_id
        self._timeout_s = timeout_s
        self._unanswered_count = 0
        # False: the server has said that it had begun none of the batches without an answer.
        self.rest_may_have_begun = True
        widen(self._socket)

    def connects_to(self, region: Region) -> bool:
        """Returns whether the stream's server has the region: the same address and data folder."""
        return (region.server, region.data_folder_id) == (self._address, self._folder_id)

    def has_received(self) -> bool:
        """Whether an answer has come, or the end of the stream: a server closes a connection that is idle for long."""
        return self._frames.has_bytes or peeked(self._socket) is not None

    async def put(self, message: Sequence[MessagePiece]) -> None:
        """Sends a BulkBatch message, and waits until the system takes it. Raises DeadlineError, LimitExceededError."""
        parts = batch_frame(message, self._opened.body_bytes_max, self._address)
        self._unanswered_count += 1
        with self._using():
            try:
                await self._send(parts)
            except OSError as error:
                # An answer or an END that has come tells more than a lost connection: `take` returns it.
                if isinstance(error, RowlockError) or not (self._frames.has_bytes or peeked(self._socket)):
                    raise

    async def _send(self, parts: Sequence[memoryview]) -> None:
        for part in parts:
            for at in range(0, len(part), _SENT_BYTES_MAX):
                try:
                    async with asyncio.timeout(self._timeout_s) as limit:
                        await self._loop.sock_sendall(self._socket, part[at : at + _SENT_BYTES_MAX])
                except TimeoutError:
                    if not limit.expired():
                        raise  # The system has given the connection up.
                    raise DeadlineError(f"no batch was accepted within {self._timeout_s:g} s") from None

    async def take(self) -> region_pb2.BulkAnswer:
        """Returns the next answer. Raises DeadlineError after the timeout, or the error of the stream."""
        with self._using():
            try:
                async with asyncio.timeout(self._timeout_s):
                    kind, body = await self._next_frame(None)
            except TimeoutError as error:
                if isinstance(error, RowlockError):
                    raise
                raise DeadlineError(f"no answer to a batch came within {self._timeout_s:g} s") from None
            self.rest_may_have_begun = kind != END
            answer = answer_of(kind, body, self._target)
        self._unanswered_count -= 1
        return answer

    def close(self) -> None:
        """Ends the stream. The next one takes the connection if all batches were answered."""
        if self._unanswered_count or self._frames.has_bytes:
            self.cancel()
        else:
            self._leave(is_ending=False)
