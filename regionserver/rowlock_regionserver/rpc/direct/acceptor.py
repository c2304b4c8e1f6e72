"""Accepts the direct connections of one listening socket.

asyncio's own servers don't serve here: when no descriptor is left, they try to accept as many times as connections may
wait, and log each failure with a traceback.
"""

from __future__ import annotations

import asyncio
import socket

from rowlock_regionserver.rpc.direct.connection import DirectConnection
from rowlock_regionserver.rpc.direct.service import DirectService

# How many connections are accepted before the event loop does something else.
_AT_ONCE_MAX = 16
# How long to wait when no descriptor is left.
_PAUSE_SECONDS = 1.0


class Acceptor:
    """Accepts from its creation until `stop`. Used on the event loop."""

    def __init__(self, listening: socket.socket, service: DirectService) -> None:
        """The socket listens, and does not block."""
        self._listening = listening
        self._service = service
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._connecting: set[asyncio.Task[None]] = set()
        self._begin()

    def _begin(self) -> None:
        self._timer = None
        self._loop.add_reader(self._listening.fileno(), self._accept)

    def _accept(self) -> None:
        for _ in range(_AT_ONCE_MAX):
            try:
                accepted, _ = self._listening.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                self._service.log.dropped("a client", f"it can't be accepted: {error}")
                self._loop.remove_reader(self._listening.fileno())
                self._timer = self._loop.call_later(_PAUSE_SECONDS, self._begin)
                return
            accepted.setblocking(False)
            task = self._loop.create_task(self._connect(accepted))
            self._connecting.add(task)
            task.add_done_callback(self._connecting.discard)

    async def _connect(self, accepted: socket.socket) -> None:
        try:
            await self._loop.connect_accepted_socket(lambda: DirectConnection(self._service), accepted)
        except OSError:
            accepted.close()  # The client is gone.

    def stop(self) -> None:
        """Accepts no more. Call it before the socket is closed."""
        if self._timer is not None:
            self._timer.cancel()
        else:
            self._loop.remove_reader(self._listening.fileno())
