"""The bulk stream: begun in order, answered in order, at most two unanswered."""

from __future__ import annotations

import asyncio
import gc
import sys
import threading
import weakref
from typing import NoReturn

import pyarrow as pa
import pytest
from rowlock_proto.v1.region_pb2 import BulkAnswer, BulkBatch
from rowlock_proto.v1.types_pb2 import Error
from rowlock_regionserver.clock import Clock
from rowlock_regionserver.config import Config
from rowlock_regionserver.engine.bulk_streams import BulkStreams
from rowlock_regionserver.engine.interfaces import BatchBytes, BulkCodec
from rowlock_regionserver.engine.workers import Workers
from rowlock_regionserver.errors import InvalidRequestError, RegionTooBusyError, StoppingError
from rowlock_regionserver.ledger import Ledger
from rowlock_regionserver.memory_plan import REQUEST_COST
from rowlock_regionserver.region.bulk.bulk_load import BulkResult
from rowlock_regionserver.rpc.messages.bulk_batches import BULK_SCHEMA, BulkMessages, BulkPut

from tests.unit.engine.fakes import NEVER_SLOW, REGION_ID, FakeRegion
from tests.unit.engine.loops import run, until


def batch(row: bytes, region_id: int = REGION_ID, client_id: bytes = b"") -> bytes:
    cells = pa.RecordBatch.from_arrays(
        [pa.array([value], pa.binary()) for value in (row, b"f", b"q")]
        + [pa.array([None], pa.int64()), pa.array([b"v"], pa.binary())],
        schema=BULK_SCHEMA,
    )
    arrow = BULK_SCHEMA.serialize().to_pybytes() + cells.serialize().to_pybytes()
    message = BulkBatch(region_id=region_id, arrow=arrow, uncompressed_bytes=cells.nbytes, client_id=client_id)
    return message.SerializeToString()


class Stream:
    """A bulk stream and its client."""

    def __init__(
        self,
        region: FakeRegion,
        workers: Workers,
        config: Config | None = None,
        streams: BulkStreams | None = None,
        codec: BulkCodec | None = None,
    ) -> None:
        config = config or Config()
        self.ledger = Ledger(config)
        self.streams = streams or BulkStreams(region.region, NEVER_SLOW, workers, self.ledger, config, Clock())
        self._sent: asyncio.Queue[bytes | None] = asyncio.Queue()
        self.answers: list[BulkAnswer] = []
        self._arrived = asyncio.Event()
        codec = codec or BulkMessages(config.request_bytes_max)
        self.serving = asyncio.create_task(self.streams.serve(codec, self._sent.get, self._write, lambda: None))

    async def _write(self, data: bytes) -> None:
        self.answers.append(BulkAnswer.FromString(data))
        self._arrived.set()

    def send(self, *batches: bytes | None) -> None:
        for each in batches:
            self._sent.put_nowait(each)

    @property
    def unread_count(self) -> int:
        return self._sent.qsize()

    async def until(self, count: int) -> None:
        while len(self.answers) < count:
            self._arrived.clear()
            await self._arrived.wait()


def rows(region: FakeRegion) -> list[bytes]:
    return [batch.column("row")[0].as_py() for batch in region.bulk_batches if isinstance(batch, pa.Table)]


def test_the_next_batch_begins_while_the_one_before_is_synced_and_no_further(
    region: FakeRegion, workers: Workers
) -> None:
    async def test() -> None:
        stream = Stream(region, workers)
        stream.send(batch(b"1"), batch(b"2"), batch(b"3"), None)
        await until(lambda: len(region.unpublished_bulk) == 2)
        for _ in range(10):
            await asyncio.sleep(0)
        assert (rows(region), stream.unread_count) == ([b"1", b"2"], 2)
        region.unpublished_bulk[0](BulkResult(1, 1, 10))
        await until(lambda: len(region.unpublished_bulk) == 3)
        region.unpublished_bulk[2](BulkResult(3, 3, 30))
        region.unpublished_bulk[1](BulkResult(2, 2, 20, True))
        await stream.serving
        assert [(answer.cell_count, answer.timestamp) for answer in stream.answers] == [(1, 10), (2, 20), (3, 30)]
        assert stream.answers[1].repeated_request
        assert stream.ledger.requests.bytes_held == 0

    run(test)


def test_a_batch_begins_only_when_the_one_before_was_applied(region: FakeRegion, workers: Workers) -> None:
    async def test() -> None:
        stream = Stream(region, workers)
        stream.send(batch(b"slow"), batch(b"2"), None)
        await asyncio.to_thread(region.waiting.acquire)
        for _ in range(10):
            await asyncio.sleep(0)
        assert rows(region) == [b"slow"]
        region.gate.set()
        await until(lambda: len(region.unpublished_bulk) == 2)
        for done in region.unpublished_bulk:
            done(BulkResult(1, 1, 1))
        await stream.serving

    run(test)


def test_a_refused_batch_is_answered_and_the_stream_continues(region: FakeRegion, workers: Workers) -> None:
    async def test() -> None:
        stream = Stream(region, workers)
        stream.send(batch(b"1", region_id=99))
        stream.send(BulkBatch(region_id=REGION_ID, arrow=b"rubbish", uncompressed_bytes=9).SerializeToString())
        stream.send(batch(b"3", client_id=b"short"))
        stream.send(batch(b"4"), None)
        await until(lambda: len(region.unpublished_bulk) == 1)
        region.unpublished_bulk[0](BulkResult(1, 1, 1))
        await stream.serving
        codes = [answer.error.code for answer in stream.answers]
        assert codes == [Error.NOT_SERVING_REGION, Error.INVALID_ARGUMENT, Error.INVALID_ARGUMENT, 0]
        assert stream.ledger.requests.bytes_held == 0

    run(test)


def test_a_refused_batch_is_freed_without_the_cyclic_collector(
    workers: Workers,
) -> None:
    refusals: list[weakref.ref[RegionTooBusyError]] = []

    def refusal() -> RegionTooBusyError:
        made = RegionTooBusyError("no room")
        refusals.append(weakref.ref(made))
        return made

    class Refusing(FakeRegion):
        def region(self, region_id: int) -> NoReturn:
            raise refusal()

    async def test() -> None:
        stream = Stream(Refusing(), workers)
        gc.disable()
        try:
            # The threads and tasks let go of the last one when the next one comes.
            stream.send(*[batch(b"%d" % number) for number in range(4)])
            await stream.until(4)
            assert [answer.error.code for answer in stream.answers] == [Error.REGION_TOO_BUSY] * 4
            # Its frames hold the batch.
            assert [held() for held in refusals[:3]] == [None] * 3
        finally:
            gc.enable()
            stream.send(None)
            await stream.serving

    run(test)


def test_bytes_that_are_no_batch_end_the_stream_after_the_answers_before(region: FakeRegion, workers: Workers) -> None:
    async def test() -> None:
        stream = Stream(region, workers)
        stream.send(batch(b"1"), b"\xff\xff")
        await until(lambda: len(region.unpublished_bulk) == 1)
        region.unpublished_bulk[0](BulkResult(1, 1, 1))
        with pytest.raises(InvalidRequestError, match="BulkBatch"):
            await stream.serving
        assert len(stream.answers) == 1
        assert stream.ledger.requests.bytes_held == 0

    run(test)


class OutOfMemoryOnce(BulkMessages):
    def __init__(self) -> None:
        super().__init__(Config().request_bytes_max)
        self._has_failed = False

    def parse(self, data: BatchBytes) -> BulkPut:
        if not self._has_failed:
            self._has_failed = True
            raise MemoryError
        return super().parse(data)


def test_a_batch_that_can_not_be_parsed_releases_its_bytes(region: FakeRegion, workers: Workers) -> None:
    """For lack of memory, when it matters most that no bytes stay counted."""

    async def test() -> None:
        stream = Stream(region, workers, codec=OutOfMemoryOnce())
        stream.send(batch(b"1"))
        await until(lambda: len(stream.answers) == 1 or stream.serving.done())
        assert stream.ledger.requests.bytes_held == 0
        (error,) = [answer.error for answer in stream.answers]
        assert (error.code, error.can_retry) == (Error.REGION_TOO_BUSY, True)
        stream.send(batch(b"2"), None)
        await until(lambda: len(region.unpublished_bulk) == 1)
        region.unpublished_bulk[0](BulkResult(1, 1, 10))
        await stream.serving

    run(test)


def room_for(count: float, **settings: int) -> Config:
    """Returns a configuration with memory for `count` batches in progress."""
    return Config(procedures="", request_bytes_in_flight_max=int(count * REQUEST_COST * len(batch(b"1"))), **settings)


def test_a_batch_waits_until_there_is_memory_for_it(region: FakeRegion, workers: Workers) -> None:
    async def test() -> None:
        stream = Stream(region, workers, room_for(1.3))
        stream.send(batch(b"1"), batch(b"2"), None)
        await until(lambda: len(region.unpublished_bulk) == 1)
        await until(lambda: stream.ledger.requests.bytes_held > REQUEST_COST * len(batch(b"1")))
        assert rows(region) == [b"1"]
        region.unpublished_bulk[0](BulkResult(1, 1, 1))
        await until(lambda: len(region.unpublished_bulk) == 2)
        region.unpublished_bulk[1](BulkResult(1, 1, 1))
        await stream.serving
        assert [answer.HasField("error") for answer in stream.answers] == [False, False]
        assert stream.ledger.requests.bytes_held == 0

    run(test)


def test_a_batch_waits_until_there_is_memory_in_the_memstores(region: FakeRegion, workers: Workers) -> None:
    async def test() -> None:
        stream = Stream(region, workers, Config(memstore_bytes_max=2000))
        stream.ledger.memstores.add(1900)
        stream.send(batch(b"1"), None)
        await until(lambda: stream.ledger.requests.bytes_held > 0)
        assert rows(region) == []
        await asyncio.to_thread(stream.ledger.memstores.give, 1900)  # As a flush does.
        await until(lambda: len(region.unpublished_bulk) == 1)
        region.unpublished_bulk[0](BulkResult(1, 1, 1))
        await stream.serving

    run(test)


@pytest.mark.parametrize("short_of", ["request_bytes_in_flight_max", "memstore_bytes_max"])
def test_a_batch_that_waited_too_long_gets_a_retryable_error(
    region: FakeRegion, workers: Workers, short_of: str
) -> None:
    async def test() -> None:
        stream = Stream(region, workers, room_for(1.5, row_lock_wait_ms=1, memstore_bytes_max=2000))
        is_memstores = short_of == "memstore_bytes_max"
        account, held = (
            (stream.ledger.memstores, 1900)
            if is_memstores
            else (stream.ledger.requests, REQUEST_COST * len(batch(b"1")))
        )
        account.add(held)
        stream.send(batch(b"1"))
        await stream.until(1)
        error = stream.answers[0].error
        assert (error.code, error.can_retry) == (Error.REGION_TOO_BUSY, True)
        assert short_of in error.message
        account.give(held)
        stream.send(batch(b"2"), None)
        await until(lambda: len(region.unpublished_bulk) == 1)
        region.unpublished_bulk[0](BulkResult(1, 1, 1))
        await stream.serving
        assert rows(region) == [b"2"]

    run(test)


def test_a_batch_is_refused_at_once_when_the_waiting_ones_leave_no_memory_to_begin(
    region: FakeRegion, workers: Workers
) -> None:
    async def test() -> None:
        config = room_for(1.3)
        first = Stream(region, workers, config)
        others = [Stream(region, workers, config, first.streams) for _ in range(3)]
        first.send(batch(b"1"))
        await until(lambda: len(region.unpublished_bulk) == 1)
        for other in others:
            other.send(batch(b"2"), None)
        await others[1].until(1)
        await others[2].until(1)
        assert {other.answers[0].error.code for other in others[1:]} == {Error.REGION_TOO_BUSY}
        first.send(None)
        region.unpublished_bulk[0](BulkResult(1, 1, 1))
        await until(lambda: len(region.unpublished_bulk) == 2)
        region.unpublished_bulk[1](BulkResult(1, 1, 1))
        await asyncio.gather(first.serving, *(other.serving for other in others))
        assert first.ledger.requests.bytes_held == 0

    run(test)


@pytest.mark.parametrize("limit", ["request_bytes_in_flight_max", "memstore_bytes_max"])
def test_a_batch_that_never_fits_is_refused_for_good(region: FakeRegion, workers: Workers, limit: str) -> None:
    async def test() -> None:
        stream = Stream(region, workers, Config(procedures="", **{limit: 100}))
        stream.send(batch(b"1"), None)
        await stream.serving
        error = stream.answers[0].error
        assert (error.code, error.limit, error.can_retry) == (Error.LIMIT_EXCEEDED, limit, False)

    run(test)


def test_a_waiting_batch_fails_when_the_server_stops(region: FakeRegion, workers: Workers) -> None:
    async def test() -> None:
        stream = Stream(region, workers, room_for(1.3))
        stream.send(batch(b"1"), batch(b"2"))
        await until(lambda: len(region.unpublished_bulk) == 1)
        await until(lambda: stream.ledger.requests.bytes_held > REQUEST_COST * len(batch(b"1")))
        stream.streams.stop()
        region.unpublished_bulk[0](BulkResult(1, 1, 1))
        with pytest.raises(StoppingError):
            await stream.serving
        assert stream.answers[0].cell_count == 1
        assert stream.ledger.requests.bytes_held == 0

    run(test)


def test_a_batch_whose_client_disconnects_while_it_waits_releases_its_bytes(
    region: FakeRegion, workers: Workers
) -> None:
    async def test() -> None:
        stream = Stream(region, workers, room_for(1.3))
        stream.send(batch(b"1"), batch(b"2"))
        await until(lambda: len(region.unpublished_bulk) == 1)
        await until(lambda: stream.ledger.requests.bytes_held > REQUEST_COST * len(batch(b"1")))
        stream.serving.cancel()
        with pytest.raises(asyncio.CancelledError):
            await stream.serving
        region.unpublished_bulk[0](BulkResult(1, 1, 1))
        await until(lambda: stream.ledger.requests.bytes_held == 0)
        assert rows(region) == [b"1"]

    run(test)


def test_a_stream_that_waits_for_its_client_holds_no_batch(region: FakeRegion, workers: Workers) -> None:
    async def test() -> None:
        stream = Stream(region, workers)
        sent = batch(b"1")
        references = sys.getrefcount(sent)
        stream.send(sent)
        await until(lambda: len(region.unpublished_bulk) == 1)
        region.unpublished_bulk.pop()(BulkResult(1, 1, 1))
        region.bulk_batches.clear()
        await stream.until(1)
        await until(lambda: sys.getrefcount(sent) == references)
        stream.send(None)
        await stream.serving

    run(test)


def test_the_batch_of_a_disconnected_client_is_completed(region: FakeRegion, workers: Workers) -> None:
    async def test() -> None:
        stream = Stream(region, workers)
        stream.send(batch(b"slow"))
        await asyncio.to_thread(region.waiting.acquire)
        stream.serving.cancel()
        with pytest.raises(asyncio.CancelledError):
            await stream.serving
        assert stream.ledger.requests.bytes_held
        region.gate.set()
        await until(lambda: len(region.unpublished_bulk) == 1)
        region.unpublished_bulk[0](BulkResult(1, 1, 1))
        await until(lambda: stream.ledger.requests.bytes_held == 0)

    run(test)


def test_a_client_that_disconnects_without_a_batch_causes_no_logged_error(region: FakeRegion, workers: Workers) -> None:
    async def test() -> None:
        may_end = threading.Event()
        for _ in range(2):  # All threads there are.
            workers.streams.submit(may_end.wait)
        stream = Stream(region, workers)
        stream.send(b"\xff\xff")
        await until(lambda: stream.ledger.requests.bytes_held > 0)
        stream.serving.cancel()
        with pytest.raises(asyncio.CancelledError):
            await stream.serving
        may_end.set()
        await until(lambda: stream.ledger.requests.bytes_held == 0)
        gc.collect()  # asyncio tells of errors that nobody asked for when they go.

    run(test)


def test_a_batch_that_is_published_after_its_client_disconnected_releases_its_bytes(
    region: FakeRegion, workers: Workers
) -> None:
    async def test() -> None:
        stream = Stream(region, workers)
        stream.send(batch(b"1"))
        await until(lambda: len(region.unpublished_bulk) == 1)
        for _ in range(10):
            await asyncio.sleep(0)
        stream.serving.cancel()
        with pytest.raises(asyncio.CancelledError):
            await stream.serving
        region.unpublished_bulk[0](BulkResult(1, 1, 1))
        await until(lambda: stream.ledger.requests.bytes_held == 0)

    run(test)


def test_a_batch_whose_client_disconnected_before_it_began_releases_its_bytes(
    region: FakeRegion, workers: Workers
) -> None:
    async def test() -> None:
        streams = [Stream(region, workers) for _ in range(3)]  # One more than there are threads.
        for stream in streams[:2]:
            stream.send(batch(b"slow"))
            await asyncio.to_thread(region.waiting.acquire)
        streams[2].send(batch(b"3"))
        await until(lambda: streams[2].ledger.requests.bytes_held > 0)
        streams[2].serving.cancel()
        with pytest.raises(asyncio.CancelledError):
            await streams[2].serving
        region.gate.set()
        await until(lambda: len(region.unpublished_bulk) == 3)
        for done in region.unpublished_bulk:
            done(BulkResult(1, 1, 1))
        await until(lambda: not any(stream.ledger.requests.bytes_held for stream in streams))
        for stream in streams[:2]:
            stream.send(None)
            await stream.serving

    run(test)


def test_stopping_answers_what_was_begun(region: FakeRegion, workers: Workers) -> None:
    async def test() -> None:
        stream = Stream(region, workers)
        stream.send(batch(b"1"))
        await until(lambda: len(region.unpublished_bulk) == 1)
        stream.streams.stop()
        region.unpublished_bulk[0](BulkResult(1, 1, 1))
        with pytest.raises(StoppingError):
            await stream.serving
        assert len(stream.answers) == 1

    run(test)
