"""A scan of one region on a direct connection, which no other one uses meanwhile (asyncio)."""

from __future__ import annotations

import asyncio

from rowlock._codec.scan_message import ScanMessage
from rowlock._core.direct_scan import BATCH_BYTES_MAX, batch_of
from rowlock._core.scan_opening import no_batch_error
from rowlock._transport.channels import silent_s_max
from rowlock._transport.stream_sockets import KeptSocketLostError, KeptSockets, StreamSocket
from rowlock.aio._transport.direct_stream import DirectStream
from rowlock.aio._transport.servers import Servers
from rowlock.errors import RowlockError, ServerUnavailableError
from rowlock.schema import Region


class DirectScan(DirectStream):
    """The server frees the read point when the connection is closed."""

    _NAME = "scan"

    def __init__(self, servers: Servers, region: Region, opened: StreamSocket, kept: KeptSockets) -> None:
        super().__init__(servers, region, opened, kept, BATCH_BYTES_MAX)
        self._table = region.table
        # Whether the server may have closed the connection before the scan began.
        self._may_be_stale = opened.is_kept

    async def begin(self, request: bytes, timeout_s: float) -> None:
        """Sends the request's frame. Raises RowlockError and KeptSocketLostError, with the scan cancelled."""
        try:
            with self._using():
                async with asyncio.timeout(min(timeout_s, silent_s_max())):
                    await self._loop.sock_sendall(self._socket, request)
        except BaseException:
            self.cancel()
            raise

    async def next(self, timeout_s: float) -> ScanMessage | None:
        """Returns the next batch, None at the region's end.

        Raises DeadlineError, the error of the scan, and KeptSocketLostError if this is the first batch.
        """
        with self._using():
            try:
                async with asyncio.timeout(timeout_s):
                    batch = batch_of(*await self._next_frame(silent_s_max()), self._target)
            except TimeoutError as error:
                raise error if isinstance(error, RowlockError) else no_batch_error(self._table, timeout_s) from None
            if batch is None and not self._frames.has_bytes:
                self._leave(is_ending=False)
            return batch

    def leave(self) -> None:
        """Ends the scan when all of its rows have come, and maybe not its end. The next scan takes the connection."""
        self._leave(is_ending=True)

    def _received_some(self) -> None:
        self._may_be_stale = False

    def _failed(self, failure: RowlockError) -> Exception:
        if self._may_be_stale and isinstance(failure, ServerUnavailableError):
            return KeptSocketLostError()
        return super()._failed(failure)
