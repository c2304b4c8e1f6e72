"""The link to one server for point operations, scans and bulk batches (threads): direct connections, or else gRPC.

_core/direct_choice.py decides which. Both use the client's one id and one sequence of numbers, so a change that is
repeated over the other kind is recognised. A request is in one of them at a time; only a call whose attempt has ended
begins another attempt.
"""

from __future__ import annotations

import _thread
import threading
import time
import weakref
from collections.abc import Callable
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
from rowlock._core.sequences import Sequences
from rowlock._transport.direct import DirectConnection
from rowlock._transport.direct_socket import open_socket
from rowlock._transport.fork import gate
from rowlock._transport.stream import PointStream
from rowlock._transport.stream_sockets import Streams, StreamSocket
from rowlock.errors import ClosedError, DeadlineError, RowlockError, ServerUnavailableError

if TYPE_CHECKING:
    from rowlock.statistics import ConnectionStatistics

# Asks the server for its ServerInfo, until a deadline. Raises RowlockError.
Ask = Callable[[float], catalog_pb2.ServerInfoResponse]

# How often a call that waits for another one's connection looks, and after how long that one has surely ended.
_LOOK_S = 0.5
_OPENING_S_MAX = 10.0


class ServerLink:
    """Thread-safe. A call that goes by gRPC passes the fork gate; a direct connection survives forks."""

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
        self._choice = DirectChoice()  # used by the opener, but for reads
        # A plain lock: an interruption within the `__enter__` of a Condition would leave it locked.
        self._lock = threading.Lock()
        # Guarded by self._lock, but for reads:
        self._direct: DirectConnection | None = None
        self._opener: object | None = None  # the call that opens a direct connection for all
        self._opens_until = 0.0
        self._waiting: list[_thread.LockType] = []  # of the calls that wait for the opener
        self._opened_count = 0
        self._failed_count = 0  # openings that ended with `_failure`
        self._failure: RowlockError | None = None
        self._stream: PointStream | None = None
        self._is_closed = is_closed
        self._past_direct_requests = self._past_grpc_requests = 0
        self._streams: set[weakref.ref[LinkedStream]] = set()  # without a lock: each of its methods is atomic
        self.scans = Streams(Purpose.SCANS, self._choice.scans)
        self.bulk = Streams(Purpose.BULK, self._choice.bulk)

    def call(self, request: Request, region_id: int, deadline: float) -> None:
        """Sends a request and blocks until it is done, or until the deadline (time.monotonic()) at the latest.

        Afterwards `request.answer` or `request.failure` is set, or neither if the deadline passed.
        """
        while True:
            direct = self._direct
            if direct is None or direct.is_over:
                try:
                    direct = self._opened(deadline)
                except RowlockError as error:
                    request.fail(error)
                    return
                if direct is None:
                    break
            if direct.call(request, region_id, deadline):
                return
        self._call_by_grpc(request, region_id, deadline)

    def _call_by_grpc(self, request: Request, region_id: int, deadline: float) -> None:
        with gate:
            try:
                self._open_stream().call(request, region_id, deadline)
            except ClosedError as error:
                # Not raised: an earlier attempt may have left the change in doubt.
                request.fail(error)
        if isinstance(request.failure, ServerUnavailableError):
            self._choice.lost()

    def learn(self, info: catalog_pb2.ServerInfoResponse) -> None:
        """Takes what the server has said of itself, so that it need not be asked. Only before the first call."""
        self._choice.learned(announcement_of(info), self._folder_id)

    def open_for(self, streams: Streams, deadline: float) -> StreamSocket | None:
        """Returns a connection for a scan, or for bulk batches, a kept one or a new one; None: use gRPC.

        streams: `scans` or `bulk`.

        Raises RowlockError: the server does not answer at all, the client was closed, or the deadline has passed.
        """
        direct = self._direct
        if direct is not None:
            direct.look()
        if direct is None or direct.is_over:
            direct = self._opened(deadline)
        choice, began = streams.choice, time.monotonic()
        announcement = self._choice.announcement
        if direct is None or announcement is None:
            return None
        if (kept := streams.kept.take(announcement)) is not None:
            return kept
        if choice.may_open(began):
            until = min(deadline, began + OPEN_S_MAX)
            try:
                opened = open_socket(direct.target, announcement, until, streams.purpose)
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
        self._streams.add(weakref.ref(stream, self._streams.discard))
        if self._is_closed:
            stream.cancel()
            raise ClosedError("the client was closed")

    def hold_open(self, deadline: float) -> None:
        """Opens a connection without a request, if none is open, so that the server sees the client."""
        direct = self._direct
        if (direct is None or direct.is_over) and self._opened(deadline) is None:
            with gate:
                self._open_stream().hold_open()

    def close(self, reason: RowlockError) -> None:
        """Closes everything for good. Waiting calls end with the reason. Idempotent."""
        self._is_closed = True
        direct = self._direct
        if direct is not None:
            direct.close(reason)
        for stream in self._running_streams():
            stream.cancel(reason)
        self.scans.kept.close()
        self.bulk.kept.close()
        self.close_stream(reason)

    def close_stream(self, reason: RowlockError) -> None:
        """Closes the stream of gRPC; the next call that needs one opens another."""
        with self._lock:
            stream, self._stream = self._stream, None
            if stream is not None:
                self._past_grpc_requests += stream.statistics().requests_sent
        if stream is not None:
            stream.close(reason)

    def forget(self) -> None:
        """Closes this process's copy of the parent's socket, in the child of a fork."""
        if self._direct is not None:
            self._direct.forget()
        for stream in self._running_streams():
            stream.forget()
        self.scans.kept.forget()
        self.bulk.kept.forget()

    def statistics(self) -> ConnectionStatistics:
        """Returns how the requests to this server travel, and why."""
        from rowlock.statistics import ConnectionStatistics

        direct, stream = self._direct, self._stream
        is_open = direct is not None and not direct.is_over
        return ConnectionStatistics(
            server=self._server,
            direct=direct.target if direct is not None and is_open else None,
            reason=self._choice.reason,
            opened=self._opened_count,
            direct_requests=self._past_direct_requests + _direct_requests(direct),
            grpc_requests=self._past_grpc_requests + (stream.statistics().requests_sent if stream is not None else 0),
            direct_scans=self.scans.direct_count,
            grpc_scans=self.scans.grpc_count,
            scan_reason=self.scans.choice.reason,
            scan_connections=self.scans.connection_count,
            direct_bulk_streams=self.bulk.direct_count,
            grpc_bulk_streams=self.bulk.grpc_count,
            bulk_reason=self.bulk.choice.reason,
            bulk_connections=self.bulk.connection_count,
        )

    def _running_streams(self) -> list[LinkedStream]:
        return [stream for known in list(self._streams) if (stream := known()) is not None]

    def _open_stream(self) -> PointStream:
        stream = self._stream
        if stream is not None:
            return stream
        with self._lock:
            if self._is_closed:
                raise ClosedError("the client was closed")
            if self._stream is None:
                self._stream = self._new_stream()
            return self._stream

    def _opened(self, deadline: float) -> DirectConnection | None:
        """Returns the open direct connection, which it opens if that is due. None: use gRPC.

        Raises RowlockError: the server does not answer at all, the client was closed, or the deadline has passed.
        """
        me = object()
        try:
            found = self._opened_by_another(me, deadline)
            if self._opener is not me:
                return found
            direct = self._new(deadline)
            with self._lock:
                self._direct = direct
            if self._is_closed:
                if direct is not None:
                    direct.close()
                raise ClosedError("the client was closed")
            return direct
        except RowlockError as error:
            with self._lock:
                if self._opener is me:
                    self._failed_count += 1
                    self._failure = error
            raise
        finally:
            with self._lock:
                if self._opener is me:
                    self._opener = None
                    waiting, self._waiting = self._waiting, []
                    for each in waiting:
                        each.release()

    def _opened_by_another(self, me: object, deadline: float) -> DirectConnection | None:
        """Returns the open connection, for which it waits if another call opens it; or makes this call the opener.

        Returns None if calls go by gRPC. Raises RowlockError as `_opened`.
        """
        failed_count = self._failed_count
        while True:
            with self._lock:
                direct = self._direct
                if direct is not None and not direct.is_over:
                    return direct
                if self._failure is not None and failed_count != self._failed_count:
                    raise self._failure.with_traceback(None)  # The call that this one waited for got no answer.
                now = time.monotonic()
                if not self._is_direct or not self._choice.may_open(now):
                    return None
                # A call that was interrupted while it left may have left itself as the opener.
                if self._opener is None or now > self._opens_until:
                    self._become_opener(me, now, deadline)
                    return None
                if self._choice.has_fallen_back:
                    return None  # The others don't wait for another attempt.
                if now >= deadline:
                    raise DeadlineError(f"timed out waiting for another call's connection to {self._server}; retry")
                ended = _thread.allocate_lock()
                ended.acquire()
                self._waiting.append(ended)
            ended.acquire(timeout=min(_LOOK_S, deadline - now))

    def _become_opener(self, me: object, now: float, deadline: float) -> None:
        if self._is_closed:
            raise ClosedError("the client was closed")
        if self._direct is not None:
            self._past_direct_requests += _direct_requests(self._direct)
            self._direct = None
        self._opener, self._opens_until = me, max(now + OPEN_S_MAX, min(deadline, now + _OPENING_S_MAX))

    def _new(self, deadline: float) -> DirectConnection | None:
        choice = self._choice
        began = time.monotonic()
        while True:
            was_known = choice.is_known
            if not was_known:
                choice.learned(announcement_of(self._ask(deadline)), self._folder_id)
            if choice.announcement is None:
                choice.not_offered()
                return None
            direct, reason = self._connected(choice.announcement, deadline)
            if direct is not None:
                choice.opened()
                self._opened_count += 1
                return direct
            if not was_known:
                choice.failed(reason, began, time.monotonic())
                return None
            choice.is_known = False  # The server may have restarted: it is asked again.

    def _connected(self, announcement: Announcement, deadline: float) -> tuple[DirectConnection | None, str]:
        """Returns a connection; None and the reasons if the server is nowhere where it should be."""
        until = min(deadline, time.monotonic() + OPEN_S_MAX)
        reasons = []
        for target in targets(announcement, self._server):
            try:
                return self._new_connection(target, announcement, until), ""
            except (OSError, DirectUnusableError) as error:
                reasons.append(failed_at(target, error))
        return None, "; ".join(reasons)

    def _new_connection(self, target: str, announcement: Announcement, until: float) -> DirectConnection:
        return DirectConnection(open_socket(target, announcement, until), self._server, target, self._sequences)


def _direct_requests(direct: DirectConnection | None) -> int:
    return 0 if direct is None else direct.statistics().conversation.requests_sent
