"""The link to one server for point operations, scans and bulk batches (asyncio): direct connections, or else gRPC.

_core/direct_choice.py decides which. Both use the client's one id and one sequence of numbers, so a change that is
repeated over the other kind is recognised. A request is in one of them at a time; only a call whose attempt has ended
begins another attempt.
"""

from __future__ import annotations

import asyncio
import time
import weakref
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from rowlock_proto.v1 import catalog_pb2

from rowlock._core.conversation import Request
from rowlock._core.direct import (
    OPEN_S_MAX,
    Announcement,
    DirectUnusableError,
    LinkedStream,
    Purpose,
    announcement_of,
    failed_at,
    targets,
)
from rowlock._core.direct_choice import DirectChoice
from rowlock._core.scan_release import releasing_request
from rowlock._core.sequences import Sequences
from rowlock._transport.stream_sockets import Streams, StreamSocket
from rowlock.aio._transport.direct import DirectConnection
from rowlock.aio._transport.direct_opening import open_direct, open_socket
from rowlock.aio._transport.stream import PointStream
from rowlock.errors import ClosedError, DeadlineError, RowlockError, ServerUnavailableError

if TYPE_CHECKING:
    from rowlock.schema import Region
    from rowlock.statistics import ConnectionStatistics

# Asks the server for its ServerInfo, until a deadline. Raises RowlockError.
Ask = Callable[[float], Awaitable[catalog_pb2.ServerInfoResponse]]


class ServerLink:
    """For tasks of one event loop."""

    def __init__(
        self,
        server: str,
        folder_id: str,
        sequences: Sequences,
        ask: Ask,
        new_stream: Callable[[], PointStream],
        *,
        is_direct: bool,
        is_closed: bool,
    ) -> None:
        """folder_id: the data folder that the server must have; empty: any. is_direct: False: only ever use gRPC.

        is_closed: the client was closed; all calls end with ClosedError.
        """
        self._server = server
        self._folder_id = folder_id
        self._sequences = sequences
        self._ask = ask
        self._new_stream = new_stream
        self._is_direct = is_direct
        self._choice = DirectChoice()
        self._direct: DirectConnection | None = None
        self._opening: asyncio.Future[None] | None = None  # a direct connection is being opened
        self._opened_count = 0
        self._failed_count = 0  # openings that ended with `_failure`
        self._failure: RowlockError | None = None
        self._stream: PointStream | None = None
        self._is_closed = is_closed
        self._past_direct_requests = 0
        self._streams: weakref.WeakSet[LinkedStream] = weakref.WeakSet()
        self.scans = Streams(Purpose.SCANS, self._choice.scans)
        self.bulk = Streams(Purpose.BULK, self._choice.bulk)

    async def call(self, request: Request, region_id: int, deadline: float) -> None:
        """Sends a request and waits until it is done, or until the deadline (time.monotonic()) at the latest.

        Afterwards `request.answer` or `request.failure` is set, or neither if the deadline passed.
        """
        while True:
            direct = self._direct
            if direct is None or direct.is_over:
                try:
                    direct = await self._opened(deadline)
                except RowlockError as error:
                    request.fail(error)
                    return
                if direct is None:
                    break
            if await direct.call(request, region_id, deadline):
                return
        await self._call_by_grpc(request, region_id, deadline)

    def release(self, region: Region, held_scan: int) -> None:
        """Ends a scan if the server still holds it. Waits for nothing. Without a connection the server has ended it."""
        direct, stream = self._direct, self._stream
        request = releasing_request(region.table, region.start, region.region_id, held_scan)
        if direct is not None and not direct.is_over:
            direct.submit(request)
        elif stream is not None and stream.is_open:
            stream.submit(request)

    async def _call_by_grpc(self, request: Request, region_id: int, deadline: float) -> None:
        try:
            await self._open_stream().call(request, region_id, deadline)
        except ClosedError as error:
            # Not raised: an earlier attempt may have left the change in doubt.
            request.fail(error)
        if isinstance(request.failure, ServerUnavailableError):
            self._choice.lost()

    def learn(self, info: catalog_pb2.ServerInfoResponse) -> None:
        """Takes what the server has said of itself, so that it need not be asked. Only before the first call."""
        self._choice.learned(announcement_of(info), self._folder_id)

    async def open_for(self, streams: Streams, deadline: float) -> StreamSocket | None:
        """Returns a connection for a scan, or for bulk batches, a kept one or a new one; None: use gRPC.

        streams: `scans` or `bulk`.

        Raises RowlockError: the server does not answer at all, the client was closed, or the deadline has passed.
        """
        direct = self._direct
        if direct is None or direct.is_over:
            direct = await self._opened(deadline)
        choice, began = streams.choice, time.monotonic()
        announcement = self._choice.announcement
        if direct is None or announcement is None:
            return None
        if (kept := streams.kept.take(announcement)) is not None:
            return kept
        if choice.may_open(began):
            until = min(deadline, began + OPEN_S_MAX)
            try:
                opened = await open_socket(direct.target, announcement, until - began, streams.purpose)
            except (OSError, DirectUnusableError) as error:
                choice.failed(failed_at(direct.target, error), began, time.monotonic())
            else:
                choice.opened()
                streams.connection_count += 1
                return StreamSocket(opened, direct.target, announcement)
        return None

    def enter(self, stream: LinkedStream, streams: Streams) -> None:
        """Counts the stream, and ends it with the client. Raises ClosedError, and cancels it, if that was closed."""
        streams.direct_count += 1
        self._streams.add(stream)
        if self._is_closed:
            stream.cancel()
            raise ClosedError("the client was closed")

    async def hold_open(self, deadline: float) -> None:
        """Opens a connection without a request, if none is open, so that the server sees the client."""
        direct = self._direct
        if (direct is None or direct.is_over) and await self._opened(deadline) is None:
            self._open_stream().hold_open()

    async def close(self, reason: RowlockError) -> None:
        """Closes everything for good. Waiting calls end with the reason. Idempotent."""
        self._is_closed = True
        if self._direct is not None:
            self._direct.close(reason)
        for stream in list(self._streams):
            stream.cancel(reason)
        self.scans.kept.close()
        self.bulk.kept.close()
        if self._stream is not None:
            await self._stream.close()

    def forget(self) -> None:
        """Closes this process's copy of the parent's socket, in the child of a fork."""
        if self._direct is not None:
            self._direct.forget()
        for stream in list(self._streams):
            stream.forget()
        self.scans.kept.forget()
        self.bulk.kept.forget()

    def statistics(self) -> ConnectionStatistics:
        """Returns how the requests to this server travel, and why."""
        from rowlock.statistics import ConnectionStatistics

        direct = self._direct
        is_open = direct is not None and not direct.is_over
        return ConnectionStatistics(
            server=self._server,
            direct=direct.target if direct is not None and is_open else None,
            reason=self._choice.reason,
            opened=self._opened_count,
            direct_requests=self._past_direct_requests + _requests(direct),
            grpc_requests=_requests(self._stream),
            direct_scans=self.scans.direct_count,
            grpc_scans=self.scans.grpc_count,
            scan_reason=self.scans.choice.reason,
            scan_connections=self.scans.connection_count,
            direct_bulk_streams=self.bulk.direct_count,
            grpc_bulk_streams=self.bulk.grpc_count,
            bulk_reason=self.bulk.choice.reason,
            bulk_connections=self.bulk.connection_count,
        )

    def _open_stream(self) -> PointStream:
        if self._is_closed:
            raise ClosedError("the client was closed")
        if self._stream is None:
            self._stream = self._new_stream()
        return self._stream

    async def _opened(self, deadline: float) -> DirectConnection | None:
        """Returns the open direct connection, which it opens if that is due. None: use gRPC.

        Raises RowlockError: the server does not answer at all, the client was closed, or the deadline has passed.
        """
        choice = self._choice
        failed_count = self._failed_count
        while True:
            direct = self._direct
            if direct is not None and not direct.is_over:
                return direct
            if self._failure is not None and failed_count != self._failed_count:
                raise self._failure.with_traceback(None)  # The call that this one waited for got no answer.
            if not self._is_direct or not choice.may_open(time.monotonic()):
                return None
            if self._opening is None:
                break
            # The first caller opens it for all. While calls go by gRPC, the others don't wait for another attempt.
            if choice.has_fallen_back:
                return None
            _, pending = await asyncio.wait([self._opening], timeout=max(0.0, deadline - time.monotonic()))
            if pending:
                raise DeadlineError(f"timed out waiting for another call's connection to {self._server}; retry")
        if self._is_closed:
            raise ClosedError("the client was closed")
        if direct is not None:
            self._past_direct_requests += _requests(direct)
            self._direct = None
        opening = self._opening = asyncio.get_running_loop().create_future()
        try:
            self._direct = direct = await self._new(deadline)
        except RowlockError as error:
            self._failed_count += 1
            self._failure = error
            raise
        finally:
            self._opening = None
            opening.set_result(None)
        if self._is_closed:
            if direct is not None:
                direct.close()
            raise ClosedError("the client was closed")
        return direct

    async def _new(self, deadline: float) -> DirectConnection | None:
        choice = self._choice
        began = time.monotonic()
        while True:
            was_known = choice.is_known
            if not was_known:
                choice.learned(announcement_of(await self._ask(deadline)), self._folder_id)
            if choice.announcement is None:
                choice.not_offered()
                return None
            direct, reason = await self._connected(choice.announcement, deadline)
            if direct is not None:
                choice.opened()
                self._opened_count += 1
                return direct
            if not was_known:
                choice.failed(reason, began, time.monotonic())
                return None
            choice.is_known = False  # The server may have restarted: it is asked again.

    async def _connected(self, announcement: Announcement, deadline: float) -> tuple[DirectConnection | None, str]:
        """Returns a connection; None and the reasons if the server is nowhere where it should be."""
        until = min(deadline, time.monotonic() + OPEN_S_MAX)
        reasons = []
        for target in targets(announcement, self._server):
            try:
                return await self._new_connection(target, announcement, until), ""
            except (OSError, DirectUnusableError) as error:
                reasons.append(failed_at(target, error))
        return None, "; ".join(reasons)

    async def _new_connection(self, target: str, announcement: Announcement, until: float) -> DirectConnection:
        timeout_s = until - time.monotonic()
        return await open_direct(self._server, target, announcement, timeout_s, self._sequences)


def _requests(driver: DirectConnection | PointStream | None) -> int:
    return 0 if driver is None else driver.statistics().requests_sent
