"""The bulk stream: batches of cells, each applied atomically, answered in order.

1. Batches of one stream begin in order: the steps of a batch up to APPLY start when those of the previous batch have
   ended, while that one is still being synced.
2. At most two batches of a stream are unanswered; the third is read when the first is answered.
3. A received batch waits, undecoded, until there is memory to arrange it and to hold it in the memstores. The stream is
   not read meanwhile, so the client waits too. If there is no memory in time, or not even for the waiting bytes, the
   batch is refused with a retryable error. A caller may have counted a batch already: `release` ends that, and
   the count here begins.
4. A refused batch is answered with its error, and the stream continues. Bytes that are not a batch end it.
5. A batch that has begun is completed, even if its client has disconnected.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine
from functools import partial
from typing import NoReturn, TypeAlias

from rowlock_regionserver.clock import Clock
from rowlock_regionserver.config import Config
from rowlock_regionserver.engine.bulk_admission import BulkAdmission
from rowlock_regionserver.engine.interfaces import BatchBytes, BulkCodec, BulkRegion
from rowlock_regionserver.engine.slow_calls import SlowCalls
from rowlock_regionserver.engine.tasks import cancel
from rowlock_regionserver.engine.workers import Workers
from rowlock_regionserver.errors import InvalidRequestError, RegionServerError, StoppingError
from rowlock_regionserver.ledger import Ledger
from rowlock_regionserver.memory_plan import REQUEST_COST
from rowlock_regionserver.operations import RequestId, WriteOptions
from rowlock_regionserver.process_limits import memory_error_refused
from rowlock_regionserver.region.bulk.bulk_load import BulkOutcome
from rowlock_regionserver.region.bulk.row_batch import BulkBatch
from rowlock_regionserver.sessions.session import SessionRef

UNANSWERED_BATCHES_MAX = 2
# The longest wait for memory: after a longer silence a client would assume that the server is gone.
ADMISSION_WAIT_SECONDS = 1.0


# Stages a batch of a region for a session's bulk write; blocks.
Stage: TypeAlias = Callable[[SessionRef, int, BulkBatch, RequestId | None], BulkOutcome]


def _no_staging(session: SessionRef, region_id: int, batch: BulkBatch, request: RequestId | None) -> NoReturn:
    raise InvalidRequestError("bulk writes are not served here")


class BulkStreams:
    """Applies the bulk batches of all streams. Used on the event loop, except where a method says otherwise."""

    def __init__(
        self,
        region: Callable[[int], BulkRegion],
        slow_calls: SlowCalls,
        workers: Workers,
        ledger: Ledger,
        config: Config,
        clock: Clock,
        stage: Stage = _no_staging,
    ) -> None:
        self._region = region  # Raises NotServingRegionError.
        self._stage = stage
        self._slow_calls = slow_calls
        self._workers = workers
        self._ledger = ledger
        self._admission = BulkAdmission(ledger, min(config.row_lock_wait_ms / 1000, ADMISSION_WAIT_SECONDS))
        self._config = config
        self._clock = clock
        self._loop = asyncio.get_running_loop()
        self._stopping: asyncio.Future[None] = self._loop.create_future()

    def stop(self) -> None:
        """Begins no more batches. Batches that have begun are answered; then the streams end with SERVER_STOPPING."""
        if not self._stopping.done():
            self._stopping.set_result(None)
        self._admission.stop()

    def may_receive(self, byte_count: int) -> bool:
        """Whether a batch of this size may be received now, by a stream that counts it; else later."""
        return self._admission.may_receive(REQUEST_COST * byte_count)

    async def serve(
        self,
        codec: BulkCodec,
        read: Callable[[], Coroutine[None, None, BatchBytes | None]],
        write: Callable[[bytes], Coroutine[None, None, None]],
        release: Callable[[], None],
    ) -> None:
        """Reads batches until `read` returns None, and writes an answer for each.

        release: called once for each batch, in order, just before the batch is counted here. Raises
        InvalidRequestError for bytes that are not a batch, and errors of `read`, after it has written the earlier
        answers.
        """
        slots = asyncio.Semaphore(UNANSWERED_BATCHES_MAX)
        arrived: asyncio.Queue[BatchBytes | None] = asyncio.Queue()
        begun: asyncio.Queue[asyncio.Future[bytes] | None] = asyncio.Queue()
        reader = self._loop.create_task(self._read_all(read, slots, arrived))
        beginner = self._loop.create_task(self._begin_all(codec, arrived, begun, release))
        answerer = self._loop.create_task(self._answer_all(begun, slots, write))
        try:
            refusal, _ = await asyncio.gather(beginner, answerer)
            if refusal is not None:
                raise refusal
            await reader
        finally:
            for task in (reader, beginner, answerer):
                cancel(task)
        if self._stopping.done():
            raise StoppingError("the server is stopping; send the batches that were not answered again")

    async def _read_all(
        self,
        read: Callable[[], Coroutine[None, None, BatchBytes | None]],
        slots: asyncio.Semaphore,
        arrived: asyncio.Queue[BatchBytes | None],
    ) -> None:
        try:
            while True:
                await slots.acquire()
                reading: asyncio.Future[BatchBytes | None] = self._loop.create_task(read())
                try:
                    await asyncio.wait((reading, self._stopping), return_when=asyncio.FIRST_COMPLETED)
                    data = None if self._stopping.done() else await reading
                finally:
                    cancel(reading)
                if data is None:
                    return
                arrived.put_nowait(data)
                del data, reading  # Else the last batch would be held until the next one comes.
        finally:
            arrived.put_nowait(None)

    async def _begin_all(
        self,
        codec: BulkCodec,
        arrived: asyncio.Queue[BatchBytes | None],
        begun: asyncio.Queue[asyncio.Future[bytes] | None],
        release: Callable[[], None],
    ) -> InvalidRequestError | None:
        """Begins batches in order. Returns the error if invalid bytes ended the stream, else None."""
        try:
            while (data := await arrived.get()) is not None:
                beginning = self._begin(codec, data, release)
                del data
                begun.put_nowait(await beginning)
        except InvalidRequestError as error:
            return error
        finally:
            begun.put_nowait(None)
        return None

    async def _begin(self, codec: BulkCodec, data: BatchBytes, release: Callable[[], None]) -> asyncio.Future[bytes]:
        began = self._clock.monotonic()
        answered: asyncio.Future[bytes] = self._loop.create_future()
        byte_count = REQUEST_COST * len(data)
        release()  # If another thread takes the bytes first, the batch waits.
        try:
            await self._admission.admit(byte_count, len(data))
        except RegionServerError as refusal:
            answered.set_result(codec.answer(refusal))
            return answered

        def set_answer(answer: bytes) -> None:
            self._ledger.requests.give(byte_count)
            answered.set_result(answer)

        def done(outcome: BulkOutcome | Exception) -> None:
            # Passes on only the answer: an error's frames hold the batch and this function. A stored error would be
            # part of a reference cycle, and a refused batch would hold its memory until the cyclic collector runs.
            answer = codec.answer(outcome)
            with contextlib.suppress(RuntimeError):  # The loop is closed, so no stream waits for the answer.
                self._loop.call_soon_threadsafe(set_answer, answer)

        applying = self._loop.run_in_executor(self._workers.streams, self._apply, codec, data, began, done)
        del data
        # Shielded: the batch is completed, and its memory released, even if this stream is cancelled.
        parse_error = await asyncio.shield(applying)
        if parse_error is not None:
            raise parse_error
        return answered

    def _apply(
        self, codec: BulkCodec, data: BatchBytes, began: float, answer: Callable[[BulkOutcome | Exception], None]
    ) -> InvalidRequestError | None:
        """Applies a batch up to APPLY, in a worker; calls `answer` once. Returns the error if it can't be parsed."""
        try:
            with memory_error_refused("a bulk batch"):
                request = codec.parse(data)
            del data
        except Exception as error:
            answer(error)
            return error.without_frames() if isinstance(error, InvalidRequestError) else None
        done = partial(self._done, request.region_id, began, answer)
        try:
            region, session = self._region(request.region_id), request.session
            with memory_error_refused("a bulk batch"):
                cells, request_id, durability = request.read()
            if session is not None:
                done(self._stage(session, request.region_id, cells, request_id))
                return None
            del request
            deadline = self._clock.monotonic() + self._config.row_lock_wait_ms / 1000
            region.bulk_put(cells, request_id, WriteOptions(deadline, durability), done)
        except Exception as error:
            done(error)
        return None

    def _done(
        self,
        region_id: int,
        began: float,
        answer: Callable[[BulkOutcome | Exception], None],
        outcome: BulkOutcome | Exception,
    ) -> None:
        """From any thread."""
        answer(outcome)
        if self._slow_calls.is_slow(began):
            with contextlib.suppress(RuntimeError):  # The loop is closed.
                self._loop.call_soon_threadsafe(self._slow_calls.log, began, "bulk batch", region_id)

    async def _answer_all(
        self,
        begun: asyncio.Queue[asyncio.Future[bytes] | None],
        slots: asyncio.Semaphore,
        write: Callable[[bytes], Coroutine[None, None, None]],
    ) -> None:
        while (answered := await begun.get()) is not None:
            # Shielded, because the region sets the outcome even if this stream no longer waits for it.
            await write(await asyncio.shield(answered))
            slots.release()
