"""One stream of bulk batches to one server by gRPC (threads)."""

from __future__ import annotations

import queue
from collections.abc import Sequence

import grpc
from rowlock_proto.v1 import region_pb2

from rowlock._codec.bulk_message import MessagePiece
from rowlock._transport import methods
from rowlock._transport.fork import gate
from rowlock._transport.servers import Servers
from rowlock._uninterrupted import Uninterrupted
from rowlock.errors import ClosedError, DeadlineError, ServerUnavailableError
from rowlock.schema import Region


class BulkStream:
    """A stream, opened by the constructor. For one thread."""

    # False: the server has said that it had begun none of the batches without an answer.
    rest_may_have_begun = True

    def __init__(self, servers: Servers, region: Region, timeout_s: float) -> None:
        """timeout_s: how long the server may take to answer a batch."""
        self._address = region.server
        self._folder_id = region.data_folder_id
        self._servers = servers
        self._timeout_s = timeout_s
        self._messages: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        try:
            self._open(servers, region)
        except BaseException:
            self._messages.put(None)  # An interruption may come when it is open; a thread of grpc waits for this.
            raise

    def _open(self, servers: Servers, region: Region) -> None:
        with Uninterrupted(), gate:
            open_stream = servers.channel(region.server).stream_stream(
                methods.BULK_PUT.path,
                request_serializer=methods.BULK_PUT.serialize,
                response_deserializer=methods.BULK_PUT.parse,
            )
            try:
                self._answers = open_stream(iter(self._messages.get, None), metadata=servers.metadata(region))
            except ValueError as failed:
                # grpc raises it for a closed channel.
                raise ClosedError("the client was closed") from failed

    def connects_to(self, region: Region) -> bool:
        """Returns whether the stream's server has the region: the same address and data folder."""
        return (region.server, region.data_folder_id) == (self._address, self._folder_id)

    def has_received(self) -> bool:
        """Whether an answer is known to have come."""
        return False

    def put(self, message: Sequence[MessagePiece]) -> None:
        """Queues a BulkBatch message. Never blocks; the window of batches in flight bounds the queue."""
        self._messages.put(b"".join(message))

    def take(self) -> region_pb2.BulkAnswer:
        """Returns the next answer. Raises DeadlineError after the timeout, or the error of the stream."""
        with (
            Uninterrupted(self._answers.cancel),
            gate,
            self._servers.timeouts.limit(self._timeout_s, self._answers.cancel) as limit,
        ):
            try:
                answer = next(self._answers, None)
            except grpc.RpcError as failed:
                error = self._servers.error_for(failed, self._address)
            else:
                if answer is not None:
                    return answer
                error = ServerUnavailableError(f"the server at {self._address} ended the stream of batches")
        if limit.has_expired:
            raise DeadlineError(f"no answer to a batch came within {self._timeout_s:g} s")
        raise error

    def close(self) -> None:
        """Ends the stream. A no-op if it has ended."""
        self._messages.put(None)
        with Uninterrupted():
            self._answers.cancel()
