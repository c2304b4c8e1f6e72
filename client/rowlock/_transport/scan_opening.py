# Made from client/rowlock/aio/_transport/scan_opening.py by tools/async_to_sync.py: change that, then `make faces`.
"""One region's part of a scan, opened by a point request (threads)."""

from __future__ import annotations

import time

from rowlock._codec.scan_message import ScanMessage
from rowlock._core.conversation import Request
from rowlock._core.scan_opening import continuation_request, first_batches, no_batch_error
from rowlock._transport.direct_scan import DirectScan
from rowlock._transport.scan_stream import ScanStream, open_stream
from rowlock._transport.servers import Servers
from rowlock.schema import Region


class OpenedScan:
    """The batches that came with the answer, and then those of the call that continues the scan, if there is one."""

    def __init__(self, batches: list[ScanMessage], stream: DirectScan | ScanStream | None) -> None:
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


def open_scan(servers: Servers, region: Region, opening: Request, timeout_s: float) -> OpenedScan:
    """Opens a scan by its first rows. Raises DeadlineError, or the error of the request."""
    failure = servers.attempt_in(region, opening, time.monotonic() + timeout_s)
    if failure is not None:
        raise failure
    if opening.answer is None:
        raise no_batch_error(region.table, timeout_s)
    opened = opening.answer.opened_scan
    stream: DirectScan | ScanStream | None = None
    if not opened.is_complete:
        # At once: the server holds the scan for some seconds only.
        continuation = continuation_request(opening.point.open_scan, opened)
        stream = open_stream(servers, region, continuation, timeout_s)
    return OpenedScan(list(first_batches(opened)), stream)
