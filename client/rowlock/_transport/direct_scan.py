"""A scan of one region on a direct connection, which no other one uses meanwhile (threads)."""

from __future__ import annotations

import contextlib
import select
import socket
import threading
import time
from collections.abc import Iterator

from rowlock._codec.scan_message import ScanMessage
from rowlock._core.direct import lost_error
from rowlock._core.direct_scan import BATCH_BYTES_MAX, batch_of, next_frame
from rowlock._core.scan_opening import no_batch_error
from rowlock._transport.channels import silent_s_max
from rowlock._transport.scan_sockets import KeptSocketLostError, KeptSockets, ScanSocket
from rowlock._transport.servers import Servers
from rowlock.errors import RowlockError, ServerUnavailableError
from rowlock.schema import Region


class DirectScan:
    """For one thread; any thread may cancel it. The server frees the read point when the connection is closed."""

    def __init__(self, servers: Servers, region: Region, opened: ScanSocket, kept: KeptSockets) -> None:
        """kept: takes the connection when the scan has ended as it should."""
        self._opened = opened
        self._kept = kept
        self._socket = opened.socket
        self._servers = servers
        self._address = region.server
        self._table = region.table
        self._target = opened.target
        self._frames = opened.reader
        self._frames.set_body_bytes_max(BATCH_BYTES_MAX)
        self._poll = select.poll()
        self._poll.register(self._socket, select.POLLIN)
        # Held while the socket is shut down or closed. Reentrant, because a signal handler may cancel the scan.
        self._closing = threading.RLock()
        self._is_in_use = False
        # Whether the server may have closed the connection before the scan began.
        self._may_be_stale = opened.is_kept
        # Why nothing is received any more.
        self._end: RowlockError | None = None

    def begin(self, request: bytes, timeout_s: float) -> None:
        """Sends the request's frame. Raises RowlockError and KeptSocketLostError, with the scan cancelled."""
        try:
            with self._using():
                self._socket.settimeout(min(timeout_s, silent_s_max()))
                self._socket.sendall(request)
                self._socket.setblocking(False)
        except BaseException:
            self.cancel()
            raise

    def next(self, timeout_s: float) -> ScanMessage | None:
        """Returns the next batch, None at the region's end.

        Raises DeadlineError, the error of the scan, and KeptSocketLostError if this is the first batch.
        """
        with self._using():
            batch = self._received(time.monotonic() + timeout_s, timeout_s)
            if batch is None and not self._frames.has_bytes:
                self._leave(is_ending=False)
            return batch

    def leave(self) -> None:
        """Ends the scan when all of its rows have come, and maybe not its end. The next scan takes the connection."""
        self._leave(is_ending=True)

    def _leave(self, *, is_ending: bool) -> None:
        ended = self._lost("the scan has ended")  # No call below: a signal handler could cancel there.
        with self._closing:
            if self._end is None:  # Another thread may have cancelled it.
                self._end = ended
                self._kept.keep(self._opened, is_ending=is_ending)

    @contextlib.contextmanager
    def _using(self) -> Iterator[None]:
        """While the socket is used. Raises why the scan was cancelled, or how the connection was lost."""
        # Set first: from here on a thread that cancels the scan leaves it to this one to close the socket.
        self._is_in_use = True
        try:
            if self._end is not None:
                raise self._end
            yield
        except (OSError, RowlockError) as error:
            failure = error if isinstance(error, RowlockError) else self._lost(error)
            if self._may_be_stale and self._end is None and isinstance(failure, ServerUnavailableError):
                raise KeptSocketLostError from None
            raise self._end or self._servers.error_at(failure, self._address) from None
        finally:
            self._is_in_use = False
            if self._end is not None:
                with self._closing:
                    self._socket.close()

    def _received(self, deadline: float, timeout_s: float) -> ScanMessage | None:
        frames = self._frames
        silent_until = time.monotonic() + silent_s_max()
        while self._end is None:
            found = next_frame(frames, self._target)
            if found is not None:
                return batch_of(*found, self._target)
            try:
                count = self._socket.recv_into(frames.room())
            except BlockingIOError:
                now = time.monotonic()
                if now >= deadline:
                    raise no_batch_error(self._table, timeout_s) from None
                if now >= silent_until:
                    raise self._lost("the server is silent") from None
                self._poll.poll((min(deadline, silent_until) - now) * 1000)
                continue
            if not count:
                raise self._lost("the server closed it")
            frames.received(count)
            self._may_be_stale = False
            silent_until = time.monotonic() + silent_s_max()
        raise self._end

    def _lost(self, reason: object) -> ServerUnavailableError:
        return lost_error(self._target, reason)

    def cancel(self, reason: RowlockError | None = None) -> None:
        """Ends the scan, so that the server frees its read point. Idempotent. reason: what `next` raises after that."""
        with self._closing:
            if self._end is None:
                self._end = reason or self._lost("the scan was closed")
                with contextlib.suppress(OSError):  # The server has closed it.
                    self._socket.shutdown(socket.SHUT_RDWR)
                if not self._is_in_use:
                    self._socket.close()

    def forget(self) -> None:
        """Closes this process's copy of the parent's socket, in the child of a fork."""
        self._closing = threading.RLock()  # A thread of the parent may have held the other one.
        self._end = self._lost("it belongs to the parent of this process")
        self._socket.close()
