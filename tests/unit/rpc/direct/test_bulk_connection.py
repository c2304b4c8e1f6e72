"""A direct connection for bulk batches: received whole, answered in order, and clients that do not read or send."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
from collections.abc import Awaitable, Callable

import pyarrow as pa
import pytest
from rowlock_proto.direct_frames import BULK_ANSWER, BULK_BATCH, END, HEAD, HELLO, PREAMBLE, SCAN, frame
from rowlock_proto.v1 import direct_pb2
from rowlock_proto.v1.region_pb2 import BulkAnswer
from rowlock_proto.v1.types_pb2 import Error
from rowlock_regionserver.clock import ManualClock
from rowlock_regionserver.config import Config
from rowlock_regionserver.memory_plan import REQUEST_COST
from rowlock_regionserver.region.bulk.bulk_load import BulkResult
from rowlock_regionserver.rpc.direct import bulk_connection
from rowlock_regionserver.rpc.direct.clients import ENDED_SECONDS_MAX, IDLE_SECONDS_MAX, UNREAD_SECONDS_MAX
from rowlock_regionserver.rpc.direct.incoming import FRAME_SECONDS_MAX
from rowlock_regionserver.rpc.direct.service import DirectService

from tests.unit.engine.fakes import FakeRegion
from tests.unit.engine.loops import until
from tests.unit.rpc.direct.direct_client import DirectClient, Port, RunPort, turns
from tests.unit.rpc.test_bulk import batch

LARGE = 1_000_000


def large_batch(row: bytes, byte_count: int = LARGE) -> bytes:
    """Returns a batch with an unknown field, so that its message is large."""
    return batch(row) + b"\xfa\x3f" + _length(byte_count) + os.urandom(byte_count)


def _length(number: int) -> bytes:
    found = b""
    while number >= 128:
        found += bytes((number & 127 | 128,))
        number >>= 7
    return found + bytes((number,))


def batch_frame(row: bytes) -> bytes:
    return frame(BULK_BATCH, batch(row))


def rows(region: FakeRegion) -> list[bytes]:
    return [each.column("row")[0].as_py() for each in region.bulk_batches if isinstance(each, pa.Table)]


async def answers(client: DirectClient, count: int) -> list[BulkAnswer]:
    found = []
    for _ in range(count):
        one = await client.frame()
        assert one is not None, "the connection has ended"
        assert one[0] == BULK_ANSWER, one
        found.append(BulkAnswer.FromString(one[1]))
    return found


async def error_of_end(client: DirectClient) -> Error:
    found = await client.frame()
    assert found is not None
    assert found[0] == END
    return Error.FromString(found[1])


async def published(region: FakeRegion, number: int) -> None:
    """Publishes the batch with this number, from 0, when it has begun."""
    await until(lambda: len(region.unpublished_bulk) > number)
    region.unpublished_bulk[number](BulkResult(number + 1, number + 1, 10 * number))


def test_batches_are_answered_in_order_and_a_third_is_not_received_before(
    run_port: RunPort, region: FakeRegion
) -> None:
    async def test(port: Port) -> None:
        region.gate.set()
        client = await port.welcomed_for_bulk()
        assert (port.clients.open_count, port.clients.conversation_count) == (1, 0)
        await client.send(batch_frame(b"1") + batch_frame(b"2") + batch_frame(b"3") + batch_frame(b"4"))
        await until(lambda: len(region.unpublished_bulk) == 2)
        await turns()
        assert rows(region) == [b"1", b"2"]
        for number in (1, 0):
            await published(region, number)
        assert [answer.cell_count for answer in await answers(client, 2)] == [1, 2]
        for number in (2, 3):
            await published(region, number)
        assert [answer.cell_count for answer in await answers(client, 2)] == [3, 4]
        await until(lambda: port.ledger.bytes_held == 0)

    run_port(test)


@pytest.mark.parametrize("piece_bytes", [1, 7, 10_000, 10**9])
def test_a_batch_may_come_in_pieces(run_port: RunPort, region: FakeRegion, piece_bytes: int) -> None:
    async def test(port: Port) -> None:
        region.gate.set()
        client = await port.welcomed_for_bulk()
        size = 3_000 if piece_bytes < 10 else LARGE
        sent = b"".join(frame(BULK_BATCH, large_batch(b"%d" % number, size)) for number in range(2))
        for at in range(0, len(sent), piece_bytes):
            await client.send(sent[at : at + piece_bytes])
        for number in range(2):
            await published(region, number)
        await answers(client, 2)
        assert rows(region) == [b"0", b"1"]

    run_port(test)


def test_a_batch_that_comes_with_the_greeting_is_applied(run_port: RunPort, region: FakeRegion) -> None:
    async def test(port: Port) -> None:
        region.gate.set()
        client = await port.connect()
        hello = PREAMBLE + frame(HELLO, direct_pb2.DirectHello(bulk=True).SerializeToString())
        await client.send(hello + batch_frame(b"1"))
        await client.welcome()
        await published(region, 0)
        await answers(client, 1)

    run_port(test)


def test_a_refused_batch_is_answered_and_the_connection_goes_on(run_port: RunPort, region: FakeRegion) -> None:
    async def test(port: Port) -> None:
        region.gate.set()
        client = await port.welcomed_for_bulk()
        await client.send(frame(BULK_BATCH, batch(b"1", region_id=99)) + batch_frame(b"2"))
        await published(region, 0)
        refused, applied = await answers(client, 2)
        assert refused.error.code == Error.NOT_SERVING_REGION
        assert applied.cell_count == 1

    run_port(test)


# Memory


@pytest.mark.parametrize("config", [Config(request_bytes_max=4 * LARGE)])
def test_a_large_batch_is_counted_while_it_comes_and_until_it_is_admitted(
    run_port: RunPort, region: FakeRegion
) -> None:
    async def test(port: Port) -> None:
        client = await port.welcomed_for_bulk()
        body = large_batch(b"1")
        sent = frame(BULK_BATCH, body)
        await client.send(sent[:1000])
        await until(lambda: port.ledger.requests.bytes_held >= len(body))
        assert port.ledger.requests.bytes_held == len(body)
        await client.send(sent[1000:-1])
        client.close()
        await until(lambda: port.ledger.requests.bytes_held == 0)
        assert region.bulk_batches == []

    run_port(test)


def test_batches_that_have_arrived_are_counted_until_they_are_admitted(run_port: RunPort, region: FakeRegion) -> None:
    async def test(port: Port) -> None:
        requests = port.ledger.requests
        client = await port.welcomed_for_bulk()
        first, second = (large_batch(row) for row in (b"slow", b"2"))
        await client.send(frame(BULK_BATCH, first))
        await asyncio.to_thread(region.waiting.acquire)
        assert requests.bytes_held == REQUEST_COST * len(first)
        await client.send(frame(BULK_BATCH, second))
        await until(lambda: requests.bytes_held >= REQUEST_COST * len(first) + len(second))
        await turns()
        assert requests.bytes_held == REQUEST_COST * len(first) + len(second)
        client.connection._transport.abort()
        await until(lambda: requests.bytes_held == REQUEST_COST * len(first))
        region.gate.set()
        await published(region, 0)
        await until(lambda: requests.bytes_held == 0)
        assert rows(region) == [b"slow"]

    run_port(test)


def test_what_comes_before_the_server_asks_for_a_batch_is_not_lost(run_port: RunPort, region: FakeRegion) -> None:
    async def test(port: Port) -> None:
        region.gate.set()
        long_row = b"r" * 500
        other = await port.welcomed_for_bulk()
        client = await port.connect()
        client.send_some(PREAMBLE + frame(HELLO, direct_pb2.DirectHello(bulk=True).SerializeToString()))
        await until(lambda: port.clients.open_count == 2)
        client.send_some(batch_frame(b"1")[:20])
        for _ in range(2):  # All connections receive into the same memory.
            other.send_some(batch_frame(long_row))
            await asyncio.sleep(0)
        await client.send(batch_frame(b"1")[20:])
        for number in range(3):
            await published(region, number)
        await client.welcome()
        await answers(client, 1)
        await answers(other, 2)
        assert sorted(rows(region)) == [b"1", long_row, long_row]

    run_port(test)


def test_a_large_batch_waits_for_memory(run_port: RunPort, region: FakeRegion) -> None:
    async def test(port: Port) -> None:
        region.gate.set()
        requests = port.ledger.requests
        client = await port.welcomed_for_bulk()
        held = requests.bytes_max - LARGE
        requests.take(held)
        sending = asyncio.create_task(client.send(frame(BULK_BATCH, large_batch(b"1"))))
        await turns(200)
        assert requests.bytes_held - held < LARGE // 10, "only what came with the head is held"
        requests.give(held)
        await sending
        await published(region, 0)
        assert [answer.cell_count for answer in await answers(client, 1)] == [1]

    run_port(test)


def test_memory_that_is_released_while_a_batch_begins_to_wait_is_used_and_the_connection_stays(
    run_port: RunPort, region: FakeRegion, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def test(port: Port) -> None:
        monkeypatch.setattr(bulk_connection, "ADMISSION_WAIT_SECONDS", 0.01)
        region.gate.set()
        requests = port.ledger.requests
        client = await port.welcomed_for_bulk()
        held = requests.bytes_max
        requests.take(held)

        def give(_: DirectService, callback: object) -> None:
            requests.give(held)

        monkeypatch.setattr(DirectService, "when_memory_is_given", give)
        sent = frame(BULK_BATCH, large_batch(b"1"))
        await client.send(sent[:1000])
        await asyncio.sleep(0.05)
        await client.send(sent[1000:])
        await published(region, 0)
        assert [answer.cell_count for answer in await answers(client, 1)] == [1]
        assert port.clients.open_count == 1

    run_port(test)


@pytest.mark.parametrize("config", [Config(request_bytes_max=2 * LARGE, request_bytes_in_flight_max=10 * LARGE)])
def test_batches_that_come_slowly_leave_memory_to_work_on_one(run_port: RunPort, region: FakeRegion) -> None:
    async def test(port: Port) -> None:
        region.gate.set()
        clients = [await port.welcomed_for_bulk() for _ in range(9)]
        sent = [frame(BULK_BATCH, large_batch(b"%d" % number)) for number in range(9)]
        for client, each in zip(clients, sent, strict=True):
            await client.send(each[:1000])
        await turns()
        await clients[0].send(sent[0][1000:])
        await published(region, 0)
        assert [answer.cell_count for answer in await answers(clients[0], 1)] == [1]

    run_port(test)


def test_no_large_batch_is_received_while_another_one_waits_for_admission(
    run_port: RunPort, region: FakeRegion
) -> None:
    async def test(port: Port) -> None:
        region.gate.set()
        memstores, requests = port.ledger.memstores, port.ledger.requests
        memstores.take(memstores.bytes_max)
        first, second = [await port.welcomed_for_bulk() for _ in range(2)]
        body = large_batch(b"1")
        await first.send(frame(BULK_BATCH, body))
        await until(lambda: port.bulk._admission._waiting_bytes > 0)
        sending = asyncio.create_task(second.send(frame(BULK_BATCH, large_batch(b"2"))))
        await turns(200)
        assert requests.bytes_held - len(body) < LARGE // 10, "only what came with the head is held"
        memstores.give(memstores.bytes_max)
        await sending  # While the first is worked on. Their workers may finish in any order.
        for number in range(2):
            await published(region, number)
        for client in (first, second):
            await answers(client, 1)
        assert sorted(rows(region)) == [b"1", b"2"]

    run_port(test)


def test_a_batch_that_is_done_and_not_answered_is_not_kept(run_port: RunPort, region: FakeRegion) -> None:
    async def test(port: Port) -> None:
        before = pa.total_allocated_bytes()
        client = await port.welcomed_for_bulk()
        region.gate.set()
        await client.send(batch_frame(b"1"))
        await until(lambda: len(region.unpublished_bulk) == 1)
        await client.send(frame(BULK_BATCH, large_batch(b"2")))
        await published(region, 1)
        region.bulk_batches.clear()
        del region.unpublished_bulk[1]
        await until(lambda: pa.total_allocated_bytes() < before + LARGE)
        await published(region, 0)
        await answers(client, 2)

    run_without_collections(run_port, test)


def test_a_batch_behind_a_bad_one_is_not_kept(run_port: RunPort, region: FakeRegion) -> None:
    async def test(port: Port) -> None:
        before = pa.total_allocated_bytes()
        for _ in range(2):  # As many as there are workers, so that both batches come before the first is read.
            other = await port.welcomed_for_bulk()
            await other.send(batch_frame(b"slow"))
            await asyncio.to_thread(region.waiting.acquire)
        client = await port.welcomed_for_bulk()
        good = large_batch(b"2")
        held = port.ledger.requests.bytes_held + len(good)
        await client.send(frame(BULK_BATCH, b"\xff") + frame(BULK_BATCH, good))
        await until(lambda: port.ledger.requests.bytes_held > held)
        region.gate.set()
        assert (await error_of_end(client)).code == Error.INVALID_ARGUMENT
        await until(lambda: pa.total_allocated_bytes() < before + LARGE)
        for number in range(2):
            await published(region, number)
        await until(lambda: port.ledger.requests.bytes_held == 0)

    run_without_collections(run_port, test)


def run_without_collections(run_port: RunPort, test: Callable[[Port], Awaitable[None]]) -> None:
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        run_port(test)
    finally:
        if was_enabled:
            gc.enable()


def test_a_batch_without_memory_in_time_ends_the_connection_with_an_error_to_repeat(
    run_port: RunPort, region: FakeRegion, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def test(port: Port) -> None:
        monkeypatch.setattr(bulk_connection, "ADMISSION_WAIT_SECONDS", 0.01)
        region.gate.set()
        requests = port.ledger.requests
        client = await port.welcomed_for_bulk()
        await client.send(batch_frame(b"1"))
        await until(lambda: len(region.unpublished_bulk) == 1)
        held = requests.bytes_max - requests.bytes_held
        requests.take(held)
        sending = asyncio.create_task(client.send(frame(BULK_BATCH, large_batch(b"2"))))
        await until(lambda: port.ledger.requests.bytes_max == requests.bytes_held)
        await published(region, 0)
        assert [answer.cell_count for answer in await answers(client, 1)] == [1], "what had begun is answered"
        error = await error_of_end(client)
        assert (error.code, error.can_retry) == (Error.REGION_TOO_BUSY, True)
        await sending  # The rest is read and dropped.
        assert await client.frame() is None
        assert rows(region) == [b"1"]
        requests.give(held)

    run_port(test)


def test_a_client_that_leaves_keeps_no_batch_until_a_garbage_collection(run_port: RunPort, region: FakeRegion) -> None:
    async def test(port: Port) -> None:
        before = pa.total_allocated_bytes()
        client = await port.welcomed_for_bulk()
        await client.send(frame(BULK_BATCH, large_batch(b"slow")))
        await asyncio.to_thread(region.waiting.acquire)
        await client.send(frame(BULK_BATCH, large_batch(b"2")))
        await until(lambda: port.ledger.requests.bytes_held > (REQUEST_COST + 1) * LARGE)
        client.close()
        region.gate.set()
        for number in range(2):
            await published(region, number)
        await until(lambda: port.clients.open_count == 0)
        region.bulk_batches.clear()
        region.unpublished_bulk.clear()
        await until(lambda: pa.total_allocated_bytes() < before + LARGE)

    run_without_collections(run_port, test)


# Clients that leave, do not read, or send nothing


def test_a_batch_that_has_begun_is_completed_without_its_client(run_port: RunPort, region: FakeRegion) -> None:
    async def test(port: Port) -> None:
        client = await port.welcomed_for_bulk()
        await client.send(batch_frame(b"slow"))
        await asyncio.to_thread(region.waiting.acquire)
        client.close()
        region.gate.set()
        await published(region, 0)
        assert rows(region) == [b"slow"]
        await until(lambda: port.ledger.bytes_held == 0)

    run_port(test)


def test_a_client_that_reads_no_answer_sends_no_further_batches_and_is_dropped(
    run_port: RunPort, region: FakeRegion, port_clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    async def test(port: Port) -> None:
        client = await port.welcomed_for_bulk()
        unsent = frame(BULK_BATCH, batch(b"1", region_id=99)) * 300
        while not client.connection._transport.get_write_buffer_size():
            unsent = unsent[client.send_some(unsent) :]
            await turns(1)
        silent_count = 0
        while silent_count < 3:  # Until the system holds no more for the server.
            sent_bytes = client.send_some(unsent)
            unsent = unsent[sent_bytes:]
            assert unsent, "the server still takes batches"
            silent_count = 0 if sent_bytes else silent_count + 1
            await asyncio.sleep(0.05)
        port.clients.drop_silent()
        port_clock.advance(1000 * int(UNREAD_SECONDS_MAX + 1))
        port.clients.drop_silent()
        await until(lambda: port.clients.open_count == 0)
        assert "it has read nothing for 60 s" in caplog.text

    with caplog.at_level(logging.WARNING):
        run_port(test)


@pytest.mark.parametrize("is_idle", [True, False])
def test_a_connection_without_a_batch_for_long_is_closed(
    run_port: RunPort, region: FakeRegion, port_clock: ManualClock, is_idle: bool
) -> None:
    async def test(port: Port) -> None:
        client = await port.welcomed_for_bulk()
        if not is_idle:
            await client.send(batch_frame(b"slow"))
            await asyncio.to_thread(region.waiting.acquire)
        port_clock.advance(1000 * int(IDLE_SECONDS_MAX + 1))
        port.clients.drop_silent()
        await turns()
        assert port.clients.open_count == (0 if is_idle else 1)
        region.gate.set()
        if not is_idle:
            await published(region, 0)
            await answers(client, 1)
            port.clients.drop_silent()
            await turns()
            assert port.clients.open_count == 1, "it is idle since the answer only"

    run_port(test)


def test_a_client_that_sends_a_batch_too_slowly_is_dropped_but_not_while_the_server_reads_nothing(
    run_port: RunPort, region: FakeRegion, port_clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    async def test(port: Port) -> None:
        client = await port.welcomed_for_bulk()
        last = batch_frame(b"3")
        await client.send(batch_frame(b"slow") + batch_frame(b"2") + last[:9])
        await asyncio.to_thread(region.waiting.acquire)
        await turns()
        port_clock.advance(1000 * int(FRAME_SECONDS_MAX + 2))
        port.clients.drop_silent()
        region.gate.set()
        for number in range(2):
            await published(region, number)
        await answers(client, 2)
        await turns()
        port.clients.drop_silent()
        await turns()
        assert port.clients.open_count == 1
        port_clock.advance(1000 * int(FRAME_SECONDS_MAX + 2))
        port.clients.drop_silent()
        await until(lambda: port.clients.open_count == 0)
        assert "of a frame came in" in caplog.text

    with caplog.at_level(logging.WARNING):
        run_port(test)


@pytest.mark.parametrize("config", [Config(connections_max=1)])
def test_an_idle_connection_makes_room_for_another_client(run_port: RunPort, region: FakeRegion) -> None:
    async def test(port: Port) -> None:
        region.gate.set()
        kept = await port.welcomed_for_bulk()
        assert await code_of_another(port) == Error.REGION_TOO_BUSY, "its first batch is on the way"
        await kept.send(batch_frame(b"1"))
        await until(lambda: len(region.unpublished_bulk) == 1)
        assert await code_of_another(port) == Error.REGION_TOO_BUSY, "it waits for an answer"
        await published(region, 0)
        await answers(kept, 1)
        assert await code_of_another(port) == Error.CODE_UNSPECIFIED
        assert await kept.frame() is None

    async def code_of_another(port: Port) -> Error.Code:
        client = await port.connect()
        await client.send(PREAMBLE + frame(HELLO, b""))
        return (await client.welcome()).error.code

    run_port(test)


# Bad input


@pytest.mark.parametrize(
    ("sent", "code", "reason"),
    [
        (frame(SCAN, b""), Error.INVALID_ARGUMENT, "a frame of kind 16 is unknown on a connection for bulk batches"),
        (HEAD.pack(0, BULK_BATCH), Error.INVALID_ARGUMENT, "length 0"),
        (HEAD.pack(2 << 20, BULK_BATCH), Error.LIMIT_EXCEEDED, "more than request_bytes_max = 1048576"),
        (frame(BULK_BATCH, b"\xff"), Error.INVALID_ARGUMENT, "are not a rowlock.v1.BulkBatch message"),
    ],
)
@pytest.mark.parametrize("config", [Config(request_bytes_max=1 << 20)])
def test_bad_input_ends_the_connection_after_the_answers(
    run_port: RunPort, region: FakeRegion, port_clock: ManualClock, sent: bytes, code: Error.Code, reason: str
) -> None:
    async def test(port: Port) -> None:
        region.gate.set()
        client = await port.welcomed_for_bulk()
        await client.send(batch_frame(b"1") + sent)
        await published(region, 0)
        assert [answer.cell_count for answer in await answers(client, 1)] == [1]
        error = await error_of_end(client)
        assert error.code == code
        assert reason in error.message
        await client.send(os.urandom(100_000))  # It is read and dropped.
        assert await client.frame() is None
        port_clock.advance(1000 * int(ENDED_SECONDS_MAX + 1))
        port.clients.drop_silent()
        await until(lambda: port.clients.open_count == 0)
        assert port.log.count == 1

    run_port(test)


def test_a_hello_for_scans_and_bulk_batches_is_refused(run_port: RunPort) -> None:
    async def test(port: Port) -> None:
        client = await port.connect()
        hello = direct_pb2.DirectHello(bulk=True, scans=True)
        await client.send(PREAMBLE + frame(HELLO, hello.SerializeToString()))
        assert (await client.welcome()).error.code == Error.INVALID_ARGUMENT

    run_port(test)


# The end


def test_a_client_that_is_sending_when_the_server_stops_gets_its_answers_and_the_end(
    run_port: RunPort, region: FakeRegion
) -> None:
    async def test(port: Port) -> None:
        region.gate.set()
        client = await port.welcomed_for_bulk()
        await client.send(batch_frame(b"1") + batch_frame(b"2"))
        await until(lambda: len(region.unpublished_bulk) == 2)
        sending = asyncio.create_task(client.send(frame(BULK_BATCH, large_batch(b"3"))))
        await turns()
        port.clients.stop()
        port.bulk.stop()
        for number in range(2):
            await published(region, number)
        await sending
        await answers(client, 2)
        assert (await error_of_end(client)).code == Error.SERVER_STOPPING
        assert await client.frame() is None
        await until(lambda: port.clients.open_count == 0)
        assert rows(region) == [b"1", b"2"]

    run_port(test)


@pytest.mark.parametrize("has_batch", [True, False])
def test_what_has_begun_is_answered_when_the_server_stops(
    run_port: RunPort, region: FakeRegion, has_batch: bool
) -> None:
    async def test(port: Port) -> None:
        client = await port.welcomed_for_bulk()
        if has_batch:
            await client.send(batch_frame(b"slow"))
            await asyncio.to_thread(region.waiting.acquire)
        port.clients.stop()
        port.bulk.stop()
        region.gate.set()
        if has_batch:
            await published(region, 0)
            await answers(client, 1)
        assert (await error_of_end(client)).code == Error.SERVER_STOPPING
        assert await client.frame() is None
        await until(lambda: port.clients.open_count == 0)

    run_port(test)
