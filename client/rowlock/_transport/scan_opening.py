# Made from client/rowlock/aio/_transport/scan_opening.py by tools/async_to_sync.py: change that, then `make faces`.
"""One region's part of a scan: opened by a call of its own, or by a point request (threads)."""

from __future__ import annotations

import time
from typing import TypeAlias

from rowlock_proto.v1 import region_pb2

from rowlock._codec.scan_message import ScanMessage
from rowlock._core.conversation import Request
from rowlock._core.direct_scan import scan_frame
from rowlock._core.scan_opening import continuation_request, first_batches, no_batch_error
from rowlock._transport.direct_scan import DirectScan
from rowlock._transport.scan_stream import ScanStream
from rowlock._transport.servers import Servers
from rowlock._transport.stream_sockets import KeptSocketLostError
from rowlock.errors import ServerUnavailableError
from rowlock.schema import Region


def open_stream(servers: Servers, region: Region, request: region_pb2.ScanRequest, timeout_s: float) -> RegionStream:
    """Begins a scan of a region, on a direct connection of its own if there can be one, or else by gRPC.

    Raises RowlockError: the server does not answer at all, or the client was closed.
    """
    deadline = time.monotonic() + timeout_s
    first = scan_frame(request)
    link = servers.link_to(region)
    while first is not None:
        try:
            opened = link.open_for(link.scans, deadline)
        except ServerUnavailableError as error:
            raise servers.error_at(error, region.server) from None
        if opened is None:
            break
        scan = DirectScan(servers, region, opened, link.scans.kept)
        link.enter(scan, link.scans)
        try:
            scan.begin(first, max(0.0, deadline - time.monotonic()))
        except KeptSocketLostError:
            link.scans.lost_kept()
            continue
        return RepeatableScan(servers, region, request, scan) if opened.is_kept else scan
    link.scans.grpc_count += 1
    return ScanStream(servers, region, request)


class RepeatableScan:
    """A scan on a kept connection, which begins again on another one if that is lost before it brings anything.

    The server may have closed it before the request came. A request that was not answered may be repeated.
    """

    def __init__(self, servers: Servers, region: Region, request: region_pb2.ScanRequest, scan: DirectScan) -> None:
        self._servers = servers
        self._region = region
        self._request = request
        self._stream: RegionStream = scan
        self._is_cancelled = False

    def next(self, timeout_s: float) -> ScanMessage | None:
        """Returns the next batch, None at the region's end. Raises DeadlineError, or the error of the scan."""
        deadline = time.monotonic() + timeout_s
        try:
            return self._stream.next(timeout_s)
        except KeptSocketLostError:
            self._stream.cancel()
        self._servers.link_to(self._region).scans.lost_kept()
        remaining_s = deadline - time.monotonic()
        self._stream = open_stream(self._servers, self._region, self._request, remaining_s)
        if self._is_cancelled:
            self._stream.cancel()
        return self._stream.next(max(0.0, deadline - time.monotonic()))

    def cancel(self) -> None:
        """Frees the server's read point at once. A no-op if the scan has ended."""
        self._is_cancelled = True
        self._stream.cancel()

    def leave(self) -> None:
        """Ends the scan when all of its rows have come."""
        self._stream.leave()


# A region's part of a scan, on a direct connection or by gRPC.
RegionStream: TypeAlias = DirectScan | RepeatableScan | ScanStream


class OpenedScan:
    """The batches that came with the answer, and then those of the call that continues the scan, if there is one."""

    def __init__(self, batches: list[ScanMessage], stream: RegionStream | None) -> None:
        self._batches = batches[::-1]
        self._stream = stream

    def next(self, timeout_s: float) -> ScanMessage | None:
        """Returns the next batch, None at the region's end. Raises DeadlineError, or the error of the call."""
        if self._batches:
            return self._batches.pop()
        return None if self._stream is None else self._stream.next(timeout_s)

    def cancel(self) -> None:
        """Frees the server's read point at once. A no-op if the scan has ended."""
        if self._stream is not None:
            self._stream.cancel()

    def leave(self) -> None:
        """Ends the scan when all of its rows have come."""
        if self._stream is not None:
            self._stream.leave()


def open_scan(servers: Servers, region: Region, opening: Request, timeout_s: float) -> OpenedScan:
    """Opens a scan by its first rows. Raises DeadlineError, or the error of the request."""
    failure = servers.attempt_in(region, opening, time.monotonic() + timeout_s)
    if failure is not None:
        raise failure
    if opening.answer is None:
        raise no_batch_error(region.table, timeout_s)
    opened = opening.answer.opened_scan
    stream: RegionStream | None = None
    if not opened.is_complete:
        # At once: the server holds the scan for some seconds only.
        continuation = continuation_request(opening.point.open_scan, opened)
        stream = open_stream(servers, region, continuation, timeout_s)
    return OpenedScan(list(first_batches(opened)), stream)
