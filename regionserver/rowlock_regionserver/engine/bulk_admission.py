"""Admission of bulk batches: reserves memory for their waiting bytes, for arranging them, and in the memstores."""

from __future__ import annotations

import asyncio
import contextlib

from rowlock_regionserver.errors import StoppingError
from rowlock_regionserver.ledger import Ledger


class BulkAdmission:
    """Makes batches wait for memory. Used on the event loop."""

    def __init__(self, ledger: Ledger, wait_seconds: float) -> None:
        self._ledger = ledger
        self._wait_seconds = wait_seconds
        self._loop = asyncio.get_running_loop()
        self._waiting_bytes = 0
        self._is_stopping = False

    def stop(self) -> None:
        """Fails all waiting batches with SERVER_STOPPING."""
        self._is_stopping = True
        self._ledger.wake()

    def may_receive(self, work_bytes: int) -> bool:
        """Whether a batch that takes so much memory may be received.

        Not while others wait here, nor without memory to work on it: batches that were received could fill the account
        for whose memory they wait.
        """
        return not self._waiting_bytes and self._ledger.requests.has_room(work_bytes)

    async def admit(self, work_bytes: int, batch_bytes: int) -> None:
        """Waits until there is memory, and reserves `work_bytes` for the batch, `batch_bytes` of them while it waits.

        Raises RegionTooBusyError if there is no memory in time, or if the waiting batches together would leave none to
        begin with; LimitExceededError if the batch never fits. Then it has reserved nothing.
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
            await self._wait_for_memory(work_bytes - batch_bytes, batch_bytes)
        except BaseException:
            requests.give(batch_bytes)
            raise
        finally:
            self._waiting_bytes -= batch_bytes
            if not self._waiting_bytes:
                self._ledger.wake()  # Those that wait for `may_receive`.

    async def _wait_for_memory(self, more_bytes: int, batch_bytes: int) -> None:
        requests = self._ledger.requests
        deadline = self._loop.time() + self._wait_seconds
        while True:
            freed = self._when_freed()
            if self._is_stopping:
                raise StoppingError("the server is stopping; send the batches that were not answered again")
            if self._has_room(batch_bytes) and requests.try_take(more_bytes):
                return
            try:
                async with asyncio.timeout_at(deadline):
                    await freed.wait()
            except TimeoutError:
                if not self._has_room(batch_bytes):
                    raise self._ledger.memstores.refusal(batch_bytes) from None
                raise requests.refusal(more_bytes) from None

    def _has_room(self, batch_bytes: int) -> bool:
        """Whether the memstores have space for the batch, which takes about as many bytes there as in its message."""
        return self._ledger.memstores.has_room(batch_bytes)

    def _when_freed(self) -> asyncio.Event:
        """Returns an event that is set when any thread releases memory."""
        freed = asyncio.Event()

        def wake() -> None:
            with contextlib.suppress(RuntimeError):  # The loop is closed.
                self._loop.call_soon_threadsafe(freed.set)

        self._ledger.when_given(wake)
        return freed
