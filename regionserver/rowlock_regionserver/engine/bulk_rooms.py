"""Room for bulk batches: to wait as they came, to be arranged, and in the memstores."""

from __future__ import annotations

import asyncio
import contextlib

from rowlock_regionserver.errors import StoppingError
from rowlock_regionserver.ledger import Ledger


class Rooms:
    """Lets batches wait for memory. Used on the event loop."""

    def __init__(self, ledger: Ledger, wait_seconds: float) -> None:
        self._ledger = ledger
        self._wait_seconds = wait_seconds
        self._loop = asyncio.get_running_loop()
        self._waiting_bytes = 0
        self._is_stopping = False

    def stop(self) -> None:
        """Who waits is told SERVER_STOPPING."""
        self._is_stopping = True
        self._ledger.wake()

    async def take(self, work_bytes: int, batch_bytes: int) -> None:
        """Takes what working on a batch needs, of which it takes `batch_bytes` already, when there is room for it.

        Raises RegionTooBusyError when there is none in time, or when so many wait that none of them could ever begin;
        LimitExceededError when it never fits. Nothing is taken then.
        """
        requests, memstores = self._ledger.requests, self._ledger.memstores
        if self._has_room(batch_bytes) and requests.try_take(work_bytes):
            return
        if batch_bytes > memstores.bytes_max:
            raise memstores.refusal(batch_bytes)
        if self._waiting_bytes + work_bytes > requests.bytes_max:
            raise requests.refusal(work_bytes)
        requests.take(batch_bytes)
        self._waiting_bytes += batch_bytes
        try:
            await self._until_taken(work_bytes - batch_bytes, batch_bytes)
        except BaseException:
            requests.give(batch_bytes)
            raise
        finally:
            self._waiting_bytes -= batch_bytes

    async def _until_taken(self, more_bytes: int, batch_bytes: int) -> None:
        requests = self._ledger.requests
        deadline = self._loop.time() + self._wait_seconds
        while True:
            given = self._when_given()
            if self._is_stopping:
                raise StoppingError("the server is stopping; send the batches that were not answered again")
            if self._has_room(batch_bytes) and requests.try_take(more_bytes):
                return
            try:
                async with asyncio.timeout_at(deadline):
                    await given.wait()
            except TimeoutError:
                if not self._has_room(batch_bytes):
                    raise self._ledger.memstores.refusal(batch_bytes) from None
                raise requests.refusal(more_bytes) from None

    def _has_room(self, batch_bytes: int) -> bool:
        """In the memstores, where a batch takes about as much as it came with."""
        return self._ledger.memstores.has_room(batch_bytes)

    def _when_given(self) -> asyncio.Event:
        """Set when memory is given back, from whatever thread."""
        given = asyncio.Event()

        def wake() -> None:
            with contextlib.suppress(RuntimeError):  # The loop is closed.
                self._loop.call_soon_threadsafe(given.set)

        self._ledger.when_given(wake)
        return given
