"""One stream of bulk batches to one server (asyncio)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, TypeAlias

import grpc
from rowlock_proto.v1 import region_pb2

from rowlock._transport import methods
from rowlock.aio._transport.ended import ended_with
from rowlock.aio._transport.servers import Servers
from rowlock.errors import DeadlineError, ServerUnavailableError
from rowlock.schema import Region

# Any: grpc only asks that it can be serialized.
BulkCall: TypeAlias = "grpc.aio.StreamStreamCall[Any, region_pb2.BulkAnswer]"


class BulkStream:
    """Opened when it is made. Used by one task."""

    def __init__(self, servers: Servers, region: Region, timeout_s: float) -> None:
        """timeout_s: how long the server may take to take a batch, and to answer one."""
        self._address = region.server
        self._folder_id = region.data_folder_id
        self._servers = servers
        self._timeout_s = timeout_s
        self._call = open_call(servers, region)

    def leads_to(self, region: Region) -> bool:
        """Whether the region's server, with its data folder, is at the other end."""
        return (region.server, region.data_folder_id) == (self._address, self._folder_id)

    async def put(self, message: region_pb2.BulkBatch) -> None:
        """Waits until the server takes the batch; raises DeadlineError when it did not in time."""
        async with self._judging("no batch was taken"):
            await self._call.write(message)

    async def take(self) -> region_pb2.BulkAnswer:
        """The next answer; raises DeadlineError when none came in time, or what the stream ended with."""
        async with self._judging("no answer to a batch came"):
            answer = await self._call.read()
        if not isinstance(answer, region_pb2.BulkAnswer):
            raise ServerUnavailableError(f"the server at {self._address} ended the stream of batches")
        return answer

    def close(self) -> None:
        """Ends the stream, if it has not ended."""
        self._call.cancel()

    @asynccontextmanager
    async def _judging(self, late: str) -> AsyncIterator[None]:
        """Around a wait for the stream: raises what its end, or the time that it took, means."""
        try:
            with self._servers.reports_closing():
                async with asyncio.timeout(self._timeout_s):
                    yield
        except TimeoutError:
            raise DeadlineError(f"{late} within {self._timeout_s:g} s") from None
        except (grpc.aio.AioRpcError, asyncio.InvalidStateError):
            # A failed write does not know why the stream ended; its status does.
            raise self._servers.judged(await ended_with(self._call), self._address) from None


def open_call(servers: Servers, region: Region) -> BulkCall:
    """The call of grpc under a stream."""
    return servers.channel(region.server).stream_stream(
        methods.BULK_PUT.path,
        request_serializer=methods.BULK_PUT.serialize,
        response_deserializer=methods.BULK_PUT.parse,
    )(metadata=servers.metadata(region))
