"""The stream of one region's part of a scan (asyncio)."""

from __future__ import annotations

import asyncio
from typing import Any, TypeAlias

import grpc
from rowlock_proto.v1 import region_pb2

from rowlock._codec.scan_message import ScanMessage
from rowlock._core.scan_opening import no_batch_error
from rowlock._transport.scan_method import SCAN
from rowlock.aio._transport.servers import Servers
from rowlock.errors import ClosedError
from rowlock.schema import Region

ScanCall: TypeAlias = "grpc.aio.UnaryStreamCall[Any, ScanMessage]"  # Any: the request is sent when the call is made


class ScanStream:
    """A stream, opened by the constructor. For one task; any task may cancel it."""

    def __init__(self, servers: Servers, region: Region, request: region_pb2.ScanRequest) -> None:
        self._servers = servers
        self._address = region.server
        self._region = region
        self._held_scan = request.held_scan  # 0: none, or the server has answered
        open_stream = servers.channel(region.server).unary_stream(
            SCAN.path,
            request_serializer=SCAN.serialize,
            response_deserializer=SCAN.parse,
        )
        try:
            self._call: ScanCall = open_stream(request, metadata=servers.metadata(region))
        except grpc.aio.UsageError as failed:
            # grpc's word for a channel that was closed meanwhile.
            raise ClosedError("the client was closed") from failed

    async def next(self, timeout_s: float) -> ScanMessage | None:
        """Returns the next batch, None at the region's end. Raises DeadlineError, or the error of the stream."""
        try:
            with self._servers.reports_closing():
                async with asyncio.timeout(timeout_s):
                    batch = await self._call.read()
        except grpc.aio.AioRpcError as failed:
            raise self._servers.error_for(failed, self._address) from None
        except TimeoutError:
            raise no_batch_error(self._region.table, timeout_s) from None
        self._held_scan = 0
        return batch if isinstance(batch, ScanMessage) else None

    def cancel(self) -> None:
        """Frees the server's read point at once. A no-op if the stream has ended."""
        self._call.cancel()
        held_scan, self._held_scan = self._held_scan, 0
        if held_scan:  # grpc may not have sent the call.
            self._servers.link_to(self._region).release(self._region, held_scan)

    def leave(self) -> None:
        """Ends the scan when all of its rows have come."""
        self.cancel()
