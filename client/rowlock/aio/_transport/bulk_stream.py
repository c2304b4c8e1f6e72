"""One stream of bulk batches to one server by gRPC (asyncio)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import TypeAlias

import grpc
from rowlock_proto.v1 import region_pb2

from rowlock._codec.bulk_message import MessagePiece
from rowlock._transport import methods
from rowlock.aio._transport.servers import Servers
from rowlock.aio._transport.stream_error import stream_error
from rowlock.errors import DeadlineError, ServerUnavailableError
from rowlock.schema import Region

# Its requests are serialized BulkBatch messages.
BulkCall: TypeAlias = "grpc.aio.StreamStreamCall[bytes, region_pb2.BulkAnswer]"


class BulkStream:
    """A stream, opened by the constructor. For one task."""

    # False: the server has said that it had begun none of the batches without an answer.
    rest_may_have_begun = True

    def __init__(self, servers: Servers, region: Region, timeout_s: float) -> None:
        """timeout_s: how long the server may take to accept a batch, and to answer one."""
        self._address = region.server
        self._folder_id = region.data_folder_id
        self._servers = servers
        self._timeout_s = timeout_s
        self._call = open_call(servers, region)

    def connects_to(self, region: Region) -> bool:
        """Returns whether the stream's server has the region: the same address and data folder."""
        return (region.server, region.data_folder_id) == (self._address, self._folder_id)

    def has_received(self) -> bool:
        """Whether an answer is known to have come."""
        return False

    async def put(self, message: Sequence[MessagePiece]) -> None:
        """Sends a BulkBatch message and waits until the server accepts it. Raises DeadlineError after the timeout."""
        async with self._converting_errors("no batch was accepted"):
            await self._call.write(b"".join(message))

    async def take(self) -> region_pb2.BulkAnswer:
        """Returns the next answer. Raises DeadlineError after the timeout, or the error of the stream."""
        async with self._converting_errors("no answer to a batch came"):
            answer = await self._call.read()
        if not isinstance(answer, region_pb2.BulkAnswer):
            raise ServerUnavailableError(f"the server at {self._address} ended the stream of batches")
        return answer

    def close(self) -> None:
        """Ends the stream. A no-op if it has ended."""
        self._call.cancel()

    @asynccontextmanager
    async def _converting_errors(self, late: str) -> AsyncIterator[None]:
        """Wraps a wait for the stream: converts its errors, and raises DeadlineError after the timeout."""
        try:
            with self._servers.reports_closing():
                async with asyncio.timeout(self._timeout_s):
                    yield
        except TimeoutError:
            raise DeadlineError(f"{late} within {self._timeout_s:g} s") from None
        except (grpc.aio.AioRpcError, asyncio.InvalidStateError):
            # A failed write does not say why the stream ended; the stream's status does.
            raise self._servers.error_for(await stream_error(self._call), self._address) from None


def open_call(servers: Servers, region: Region) -> BulkCall:
    """Opens the grpc call of a stream."""
    return servers.channel(region.server).stream_stream(
        methods.BULK_PUT.path,
        request_serializer=methods.BULK_PUT.serialize,
        response_deserializer=methods.BULK_PUT.parse,
    )(metadata=servers.metadata(region))
