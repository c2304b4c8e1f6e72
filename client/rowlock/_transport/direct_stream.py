"""A direct connection that only one scan, or one stream of bulk batches, uses at a time (threads)."""

from __future__ import annotations

import contextlib
import select
import socket
import threading
import time
from collections.abc import Callable, Iterator

from rowlock_proto.direct_frames import Frame

from rowlock._core.direct import lost_error
from rowlock._core.direct_stream import next_frame
from rowlock._transport.servers import Servers
from rowlock._transport.stream_sockets import KeptSockets, StreamSocket
from rowlock.errors import RowlockError, ServerUnavailableError
from rowlock.schema import Region

# The limit of the system is 24 days, and timeouts may be longer: a wait that ends early is repeated.
_POLL_S_MAX = 3600.0


def poll_ms(seconds: float) -> float:
    """Returns the timeout for one wait by `poll`, in milliseconds."""
    return min(seconds, _POLL_S_MAX) * 1000


class DirectStream:
    """For one thread; any thread may cancel it."""

    _NAME = "stream"

    def __init__(
        self, servers: Servers, region: Region, opened: StreamSocket, kept: KeptSockets, body_bytes_max: int
    ) -> None:
        """kept: takes the connection when the stream has ended as it should. body_bytes_max: of the server's frames."""
        self._opened = opened
        self._kept = kept
        self._socket = opened.socket
        self._servers = servers
        self._address = region.server
        self._target = opened.target
        self._frames = opened.reader
        self._frames.set_body_bytes_max(body_bytes_max)
        self._poll = select.poll()
        self._poll.register(self._socket, select.POLLIN)
        # Held while the socket is shut down or closed. Reentrant, because a signal handler may cancel the stream.
        self._closing = threading.RLock()
        self._is_in_use = False
        # Why nothing is received any more.
        self._end: RowlockError | None = None

    def _leave(self, *, is_ending: bool) -> None:
        """Ends the stream. The next one takes the connection. is_ending: the end of a scan was not read."""
        ended = self._lost(f"the {self._NAME} has ended")  # No call below: a signal handler could cancel there.
        with self._closing:
            if self._end is None:  # Another thread may have cancelled it.
                self._end = ended
                self._kept.keep(self._opened, is_ending=is_ending)

    @contextlib.contextmanager
    def _using(self) -> Iterator[None]:
        """While the socket is used. Raises why the stream was cancelled, or how the connection was lost."""
        # Set first: from here on a thread that cancels the stream leaves it to this one to close the socket.
        self._is_in_use = True
        try:
            if self._end is not None:
                raise self._end
            yield
        except (OSError, RowlockError) as error:
            failure = error if isinstance(error, RowlockError) else self._lost(error)
            raise self._end or self._failed(failure) from None
        finally:
            self._is_in_use = False
            if self._end is not None:
                with self._closing:
                    self._socket.close()

    def _failed(self, failure: RowlockError) -> Exception:
        """Returns what to raise for a failure of a stream that nobody has cancelled."""
        return self._servers.error_at(failure, self._address)

    def _next_frame(self, deadline: float, late: Callable[[], RowlockError], silent_s: float) -> Frame:
        """Receives the next frame. silent_s: how long nothing may come.

        Raises what `late` returns at the deadline, ServerUnavailableError, and OSError.
        """
        frames = self._frames
        silent_until = time.monotonic() + silent_s
        while self._end is None:
            found = next_frame(frames, self._target)
            if found is not None:
                return found
            try:
                count = self._socket.recv_into(frames.room())
            except BlockingIOError:
                now = time.monotonic()
                if now >= deadline:
                    raise late() from None
                if now >= silent_until:
                    raise self._lost("the server is silent") from None
                self._poll.poll(poll_ms(min(deadline, silent_until) - now))
                continue
            if not count:
                raise self._lost("the server closed it")
            frames.received(count)
            self._received_some()
            silent_until = time.monotonic() + silent_s
        raise self._end

    def _received_some(self) -> None:
        """Called when something was received."""

    def _lost(self, reason: object) -> ServerUnavailableError:
        return lost_error(self._target, reason)

    def cancel(self, reason: RowlockError | None = None) -> None:
        """Ends the stream and its connection. Idempotent. reason: what using it raises after that."""
        with self._closing:
            if self._end is None:
                self._end = reason or self._lost(f"the {self._NAME} was closed")
                with contextlib.suppress(OSError):  # The server has closed it.
                    self._socket.shutdown(socket.SHUT_RDWR)
                if not self._is_in_use:
                    self._socket.close()

    def forget(self) -> None:
        """Closes this process's copy of the parent's socket, in the child of a fork."""
        self._closing = threading.RLock()  # A thread of the parent may have held the other one.
        self._end = self._lost("it belongs to the parent of this process")
        self._socket.close()
