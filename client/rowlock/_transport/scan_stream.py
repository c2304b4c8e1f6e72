"""The stream of one region's part of a scan (threads)."""

from __future__ import annotations

from typing import Protocol

import grpc
from rowlock_proto.v1 import region_pb2

from rowlock._codec.scan_message import ScanMessage
from rowlock._core.scan_opening import no_batch_error
from rowlock._transport.fork import gate
from rowlock._transport.scan_method import SCAN
from rowlock._transport.servers import Servers
from rowlock._uninterrupted import Uninterrupted
from rowlock.errors import ClosedError
from rowlock.schema import Region


class ScanCall(Protocol):
    """The receiving half of a scan."""

    def __next__(self) -> ScanMessage: ...

    def cancel(self) -> bool: ...


class ScanStream:
    """A stream, opened by the constructor. For one thread; any thread may cancel it."""

    def __init__(self, servers: Servers, region: Region, request: region_pb2.ScanRequest) -> None:
        self._servers = servers
        self._address = region.server
        self._table = region.table
        with Uninterrupted(), gate:
            open_stream = servers.channel(region.server).unary_stream(
                SCAN.path,
                request_serializer=SCAN.serialize,
                response_deserializer=SCAN.parse,
            )
            try:
                self._call: ScanCall = open_stream(request, metadata=servers.metadata(region))
            except ValueError as failed:
                # grpc's word for a channel that was closed meanwhile.
                raise ClosedError("the client was closed") from failed

    def next(self, timeout_s: float) -> ScanMessage | None:
        """Returns the next batch, None at the region's end. Raises DeadlineError, or the error of the stream."""
        cancel = self._call.cancel
        with Uninterrupted(cancel), gate, self._servers.timeouts.limit(timeout_s, cancel) as limit:
            try:
                return next(self._call, None)
            except grpc.RpcError as failed:
                error = self._servers.error_for(failed, self._address)
        if limit.has_expired:
            raise no_batch_error(self._table, timeout_s)
        raise error

    def cancel(self) -> None:
        """Frees the server's read point at once. A no-op if the stream has ended."""
        with Uninterrupted():
            self._call.cancel()

    def leave(self) -> None:
        """Ends the scan when all of its rows have come."""
        self.cancel()
