"""The clients of the direct port: bounds their number, and finds those that are silent where they must not be.

A client that has not greeted may be anything, so few of those are held, and each has ten seconds. Beyond that number
the oldest is dropped. When `connections_max` have greeted, one that is only kept for later makes room. A client that
has greeted may be idle for as long as it likes, but not on a connection for scans or bulk batches. TCP's own keepalive
finds its machine gone; on a Unix socket the system reports the end of a process.

Every few seconds all connections are looked at. A connection is dropped if it does not greet, if it began a frame and
sends it too slowly, if it reads no answer for a minute although answers wait, if it does not close after the server
ended it, or if it is for scans or bulk batches and has had none for a minute.
"""

from __future__ import annotations

import asyncio
import socket
from collections import OrderedDict
from collections.abc import Callable
from typing import Protocol

from rowlock_proto.tcp_keepalive import keep_alive

from rowlock_regionserver.clock import Clock
from rowlock_regionserver.config import Config
from rowlock_regionserver.errors import RegionServerError, RegionTooBusyError, StoppingError

# How many connections may be open without a greeting.
GREETING_COUNT_MAX = 128
_SWEEP_SECONDS = 2.0
# How long a connection for scans or bulk batches may be without one. Clients drop theirs earlier.
IDLE_SECONDS_MAX = 60.0
# How long a client may read nothing of what waits for it.
UNREAD_SECONDS_MAX = 60.0
# When the system begins to probe an idle client, and when it reports a silent one as lost.
PROBED_SECONDS = 60
SILENT_SECONDS_MAX = 80
# How long a client may take to close its side after the server has ended the connection.
ENDED_SECONDS_MAX = 5.0


def probe_client(connected: socket.socket) -> None:
    """Makes the system find that the client's machine is gone."""
    keep_alive(connected, PROBED_SECONDS, SILENT_SECONDS_MAX, bounds_unread=True)


class Unread:
    """Since when a client has read nothing of what waits for it."""

    def __init__(self) -> None:
        self._byte_count = 0
        self._since = 0.0

    def begin(self, byte_count: int, now: float) -> None:
        """Records that this many bytes wait from now on."""
        self._byte_count, self._since = byte_count, now

    def is_too_long(self, byte_count: int, now: float) -> bool:
        """Whether it has read nothing for UNREAD_SECONDS_MAX. byte_count: what waits now."""
        if byte_count < self._byte_count:
            self.begin(byte_count, now)
        return now - self._since > UNREAD_SECONDS_MAX


class SweptConnection(Protocol):
    """A connection as the registry sees it."""

    def drop_if_silent(self, now: float) -> None:
        """Drops the connection if it is silent where it must not be."""

    def drop(self, reason: str) -> None:
        """Closes the connection at once, with a line in the log."""

    def stop(self) -> None:
        """Ends the connection when the requests that it has begun are answered."""

    def abort(self) -> None:
        """Closes the connection at once."""


class DirectClients:
    """The open connections. Used on the event loop, except where a method says otherwise."""

    def __init__(self, config: Config, clock: Clock, when_count_changed: Callable[[int], None]) -> None:
        """`when_count_changed` is called with the number of clients that have greeted, each time it changes."""
        self._count_max = config.connections_max
        self._retry_after_ms = config.retry_after_ms
        self._clock = clock
        self._when_count_changed = when_count_changed
        self._greeting: OrderedDict[SweptConnection, None] = OrderedDict()
        self._open: dict[SweptConnection, None] = {}
        # Those of _open that are for scans or bulk batches, with what closes one to make room.
        self._yielding: dict[SweptConnection, Callable[[], bool]] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._is_stopping = False
        self._all_left = asyncio.Event()
        self._all_left.set()

    @property
    def open_count(self) -> int:
        """How many clients have greeted and are connected. From any thread."""
        return len(self._open)

    @property
    def conversation_count(self) -> int:
        """How many of them send point operations; the others are for scans or bulk batches. From any thread."""
        return len(self._open) - len(self._yielding)

    @property
    def greeting_count(self) -> int:
        """How many connections have not greeted yet. From any thread."""
        return len(self._greeting)

    def enter(self, connection: SweptConnection) -> None:
        """Adds a connection that was accepted; `leave` must follow."""
        self._all_left.clear()
        self._greeting[connection] = None
        if len(self._greeting) > GREETING_COUNT_MAX:
            # Removed here: it leaves in a later iteration of the loop, and more may be accepted in this one.
            oldest, _ = self._greeting.popitem(last=False)
            oldest.drop(f"more than {GREETING_COUNT_MAX} connections have not greeted")
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(_SWEEP_SECONDS, self._sweep)

    def refusal(self) -> RegionServerError | None:
        """Returns the error for a client that greets, if it can't be served. May close a connection to make room."""
        if self._is_stopping:
            return StoppingError("the server is stopping; nothing was changed, retry in a moment")
        if len(self._open) >= self._count_max and not any(make_room() for make_room in self._yielding.values()):
            return RegionTooBusyError(
                f"{self._count_max} direct connections are open, as many as connections_max allows; use gRPC, close "
                "some, or retry later",
                retry_after_ms=self._retry_after_ms,
            )
        return None

    def greeted(self, connection: SweptConnection, make_room: Callable[[], bool] | None = None) -> None:
        """Counts a connection whose client was welcomed.

        make_room: of a connection for scans or bulk batches; closes it and returns True, if its client only keeps it
        for later.
        """
        del self._greeting[connection]
        if make_room is not None:
            self._yielding[connection] = make_room
        self._open[connection] = None
        self._when_count_changed(len(self._open))

    def leave(self, connection: SweptConnection) -> None:
        """Removes a connection that has ended."""
        if connection in self._open:
            del self._open[connection]
            self._yielding.pop(connection, None)
            self._when_count_changed(len(self._open))
        else:
            self._greeting.pop(connection, None)
        if not (self._open or self._greeting):
            self._all_left.set()
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None

    def _sweep(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(_SWEEP_SECONDS, self._sweep)
        self.drop_silent()

    def drop_silent(self) -> None:
        """Drops connections that are silent where they must not be."""
        now = self._clock.monotonic()
        for connection in [*self._greeting, *self._open]:
            connection.drop_if_silent(now)

    def stop(self) -> None:
        """Ends all connections, each when the requests that it has begun are answered. Welcomes no more clients."""
        self._is_stopping = True
        for connection in [*self._greeting, *self._open]:
            connection.stop()

    async def left(self, seconds_max: float) -> None:
        """Waits until all connections have ended, and closes those that have not by then."""
        try:
            async with asyncio.timeout(seconds_max):
                await self._all_left.wait()
        except TimeoutError:
            for connection in [*self._greeting, *self._open]:
                connection.abort()
            await self._all_left.wait()
