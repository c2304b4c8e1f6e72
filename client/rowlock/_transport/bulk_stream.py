"""One stream of bulk batches to one server (threads)."""

from __future__ import annotations

import queue

import grpc
from rowlock_proto.v1 import region_pb2

from rowlock._transport import methods
from rowlock._transport.fork import gate
from rowlock._transport.servers import Servers
from rowlock.errors import ClosedError, DeadlineError, ServerUnavailableError
from rowlock.schema import Region


class BulkStream:
    """Opened when it is made. Used by one thread."""

    def __init__(self, servers: Servers, region: Region, timeout_s: float) -> None:
        """timeout_s: how long the server may take to answer a batch."""
        self._address = region.server
        self._folder_id = region.data_folder_id
        self._servers = servers
        self._timeout_s = timeout_s
        self._messages: queue.SimpleQueue[region_pb2.BulkBatch | None] = queue.SimpleQueue()
        with gate:
            open_stream = servers.channel(region.server).stream_stream(
                methods.BULK_PUT.path,
                request_serializer=methods.BULK_PUT.serialize,
                response_deserializer=methods.BULK_PUT.parse,
            )
            try:
                self._answers = open_stream(iter(self._messages.get, None), metadata=servers.metadata(region))
            except ValueError as failed:
                # grpc's word for a channel that was closed meanwhile.
                raise ClosedError("the client was closed") from failed

    def leads_to(self, region: Region) -> bool:
        """Whether the region's server, with its data folder, is at the other end."""
        return (region.server, region.data_folder_id) == (self._address, self._folder_id)

    def put(self, message: region_pb2.BulkBatch) -> None:
        """Never blocks; the window bounds what is in the queue."""
        self._messages.put(message)

    def take(self) -> region_pb2.BulkAnswer:
        """The next answer; raises DeadlineError when none came in time, or what the stream ended with."""
        with gate, self._servers.watch.limit(self._timeout_s, self._answers.cancel) as limit:
            try:
                answer = next(self._answers, None)
            except grpc.RpcError as failed:
                error = self._servers.judged(failed, self._address)
            else:
                if answer is not None:
                    return answer
                error = ServerUnavailableError(f"the server at {self._address} ended the stream of batches")
        if limit.has_struck:
            raise DeadlineError(f"no answer to a batch came within {self._timeout_s:g} s")
        raise error

    def close(self) -> None:
        """Ends the stream, if it has not ended."""
        self._messages.put(None)
        self._answers.cancel()
