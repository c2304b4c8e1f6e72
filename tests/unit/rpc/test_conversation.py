"""The point stream: quick requests are answered together, waiting ones delay no other, and clients may disconnect."""

from __future__ import annotations

import asyncio
import threading

import pytest
from rowlock_proto.v1 import region_pb2
from rowlock_proto.v1.types_pb2 import Error
from rowlock_regionserver.clock import ManualClock
from rowlock_regionserver.config import Config
from rowlock_regionserver.engine.point_run import INLINE_PARTS_MAX
from rowlock_regionserver.engine.workers import Workers
from rowlock_regionserver.errors import InvalidRequestError
from rowlock_regionserver.memory_plan import PARSED_REQUEST_BYTES, REQUEST_COST, ROW_COST
from rowlock_regionserver.rpc.services.large_message import INLINE_MESSAGE_BYTES_MAX

from tests.unit.engine.fakes import FakeRegion
from tests.unit.engine.loops import run as run_on_loop
from tests.unit.engine.loops import until
from tests.unit.rpc.stream import Client, HurryingClock, Run, get, put


def test_requests_with_nothing_to_wait_for_are_answered_in_one_message(run: Run) -> None:
    async def test(client: Client) -> None:
        await client.send(get(1, b"a"), put(2, b"b"), get(3, b"c", region_id=99), region_pb2.PointRequest(id=4))
        assert [[answer.id for answer in message] for message in client.messages] == [[1, 2, 3, 4]]
        assert client.answers[1].get.rows[0].cells[0].value == b"v"
        assert client.answers[2].mutate.results[0].timestamp == 5
        assert client.answers[3].error.code == Error.NOT_SERVING_REGION
        assert client.answers[4].error.code == Error.INVALID_ARGUMENT
        assert client.points.statistics().handed_over_count == 0

    run(test)


def test_a_change_is_alone_when_nothing_else_is_in_its_message_in_flight_or_called(
    run: Run, region: FakeRegion
) -> None:
    async def test(client: Client) -> None:
        await client.send(put(1, b"a"))
        await client.send(put(2, b"b"), get(3, b"c"))
        client.open_calls = 2
        await client.send(put(4, b"d"))
        client.open_calls = 1
        await client.send(put(5, b"later"))
        await client.send(put(6, b"e"))
        region.unpublished.pop()()
        await client.until(5)
        await client.send(put(7, b"f"))
        assert region.alone == [b"a", b"later", b"f"]

    run(test)


def test_a_waiting_request_does_not_delay_others_on_the_stream(run: Run, region: FakeRegion) -> None:
    async def test(client: Client) -> None:
        await client.send(get(1, b"slow"), put(2, b"slow"), get(3, b"quick"))
        assert client.answers.keys() == {3}
        await client.send(get(4, b"quick"))
        assert client.answers.keys() == {3, 4}
        region.gate.set()
        await client.until(1, 2)
        assert client.points.statistics().handed_over_count == 2

    run(test)


def test_changes_published_together_are_answered_in_one_message(run: Run, region: FakeRegion) -> None:
    async def test(client: Client) -> None:
        await client.send(*(put(number, b"later") for number in range(50)))
        assert client.messages == []

        def publish() -> None:
            for done in region.unpublished:
                done()

        log = threading.Thread(target=publish)
        log.start()
        log.join()  # Before the loop turns, as a sync thread that keeps the interpreter would be.
        await client.until(*range(50))
        assert len(client.messages) == 1

    run(test)


def test_the_loop_is_woken_for_what_comes_after_a_drain(run: Run, region: FakeRegion) -> None:
    async def test(client: Client) -> None:
        for number in range(200):
            await client.send(put(number, b"later"))
            await client.send(put(1000 + number, b"later"))
            first, second = region.unpublished[-2:]
            threads = [threading.Thread(target=first), threading.Thread(target=second)]
            for thread in threads:
                thread.start()
            await client.until(number, 1000 + number)
            for thread in threads:
                thread.join()

    run(test)


def test_a_deadline_that_passes_while_all_workers_are_busy_is_reported_in_time(run: Run, region: FakeRegion) -> None:
    async def test(client: Client) -> None:
        await client.send(get(1, b"slow"), get(2, b"slow"))
        for _ in range(2):
            await asyncio.to_thread(region.waiting.acquire)
        await client.send(put(3, b"slow never", timeout_ms=1))
        await client.until(3)
        assert client.answers[3].error.code == Error.DEADLINE_EXCEEDED
        assert client.answers[3].error.can_retry
        region.gate.set()
        await client.until(1, 2)
        assert b"slow never" not in region.begun

    run(test)


def test_a_worker_begins_nothing_whose_deadline_has_passed(run: Run, region: FakeRegion) -> None:
    async def test(client: Client) -> None:
        await client.send(get(1, b"slow"), get(2, b"slow"), put(3, b"slow never", timeout_ms=60_000))
        for _ in range(2):
            await asyncio.to_thread(region.waiting.acquire)
        client.clock.advance(60_000)
        region.gate.set()
        await client.until(1, 2, 3)
        assert client.answers[3].error.code == Error.DEADLINE_EXCEEDED
        assert b"slow never" not in region.begun

    run(test)


@pytest.mark.parametrize("config", [Config(requests_in_flight_max=2)])
def test_too_many_in_flight_are_refused_early(run: Run, region: FakeRegion) -> None:
    async def test(client: Client) -> None:
        await client.send(get(1, b"slow"), put(2, b"later"), get(3, b"quick"))
        busy = client.answers[3].error
        assert (busy.code, busy.retry_after_ms > 0, busy.can_retry) == (Error.REGION_TOO_BUSY, True, True)
        region.unpublished[0]()
        await client.until(2)
        await client.send(get(4, b"quick"))
        assert client.answers[4].HasField("get")
        assert client.points.statistics().refused_count == 1

    run(test)


def test_a_disconnected_client_leaves_nothing_begun_and_nothing_in_flight(run: Run, region: FakeRegion) -> None:
    async def test(client: Client) -> None:
        await client.send(get(1, b"slow 1"), get(2, b"slow 2"), put(3, b"slow 3"), put(4, b"later"))
        for _ in range(2):
            await asyncio.to_thread(region.waiting.acquire)
        client.conversation.leave()
        region.gate.set()
        await asyncio.to_thread(region.unpublished[0])

    run(test)
    assert b"slow 3" not in region.begun


def test_a_change_of_many_rows_may_be_published_after_the_workers_stopped(
    region: FakeRegion, workers: Workers, config: Config
) -> None:
    async def test() -> None:
        client = Client(region, workers, config, ManualClock())
        await client.send(put(1, *(b"later%d" % row for row in range(100))))
        await until(lambda: bool(region.unpublished))
        await asyncio.to_thread(workers.stop)
        await asyncio.to_thread(region.unpublished[0])  # As the log thread does, which any error would end.
        assert client.messages == []

    run_on_loop(test)


def test_an_answer_for_a_disconnected_client_is_dropped_silently(
    run: Run, region: FakeRegion, caplog: pytest.LogCaptureFixture
) -> None:
    async def test(client: Client) -> None:
        await client.send(put(1, b"later"))
        serving = asyncio.create_task(client.conversation.all_answered())
        await asyncio.sleep(0)
        serving.cancel()  # as gRPC does when the client is gone
        await asyncio.wait((serving,))
        client.conversation.leave()
        region.unpublished.pop()()
        await until(lambda: client.points.statistics().in_flight == 0)
        assert client.answers == {}

    run(test)
    assert caplog.records == []


def test_a_cancelled_wait_for_memory_does_not_end_the_stream(run: Run) -> None:
    async def test(client: Client) -> None:
        client.may_write.clear()
        sending = asyncio.create_task(client.send(get(1, b"a")))
        waiting = asyncio.create_task(client.conversation.all_answered())
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.wait((waiting,))
        client.may_write.set()
        await sending
        await client.conversation.all_answered()
        assert client.answers.keys() == {1}

    run(test)


def test_a_bug_is_reported_and_does_not_end_the_stream(run: Run, caplog: pytest.LogCaptureFixture) -> None:
    async def test(client: Client) -> None:
        await client.send(get(1, b"bug"), get(2, b"fine"))
        assert client.answers[1].error.code == Error.INTERNAL
        assert client.answers[2].HasField("get")

    run(test)
    assert "ZeroDivisionError" in caplog.text


@pytest.mark.parametrize("row_count", [1, 100])
@pytest.mark.parametrize("is_published_on_loop", [True, False])
def test_a_change_whose_answer_can_not_be_encoded_has_an_unknown_outcome(
    run: Run, region: FakeRegion, row_count: int, is_published_on_loop: bool
) -> None:
    region.timestamp = 0.5  # type: ignore[assignment]  # no integer, so the message is not made

    async def test(client: Client) -> None:
        await client.send(put(1, *(b"later%d" % row for row in range(row_count))))
        await until(lambda: bool(region.unpublished))
        if is_published_on_loop:
            region.unpublished[0]()  # As in a lone caller's turn, which any error would end as a failed sync does.
        else:
            await asyncio.to_thread(region.unpublished[0])
        await client.until(1)
        assert client.answers[1].error.code == Error.INTERNAL

    run(test)


def test_one_bad_mutation_is_reported_in_its_place(run: Run, region: FakeRegion) -> None:
    async def test(client: Client) -> None:
        await client.send(put(1, b"a", b"bad", b"c"), put(2, b"bad"))
        codes = [result.error.code for result in client.answers[1].mutate.results]
        assert codes == [0, Error.INVALID_ARGUMENT, 0]
        assert [result.error.row for result in client.answers[2].mutate.results] == [b"bad"]

    run(test)


def test_a_client_id_of_another_length_fails_the_changes_only(run: Run) -> None:
    async def test(client: Client) -> None:
        await client.send(put(1, b"a"), get(2, b"a"), client_id=b"short")
        assert client.answers[1].error.code == Error.INVALID_ARGUMENT
        assert client.answers[2].HasField("get")

    run(test)


@pytest.mark.parametrize("config", [Config(request_bytes_max=1000)])
def test_an_answer_larger_than_a_message_may_be_is_refused(run: Run, region: FakeRegion) -> None:
    region.value = b"v" * 1000

    async def test(client: Client) -> None:
        await client.send(get(1, b"a"))
        error = client.answers[1].error
        assert (error.code, error.limit, error.row) == (Error.LIMIT_EXCEEDED, "request_bytes_max", b"a")

    run(test)


@pytest.mark.parametrize("config", [Config(request_bytes_max=1000)])
def test_answers_are_split_into_messages_within_the_limit(run: Run, region: FakeRegion) -> None:
    region.value = b"v" * 300

    async def test(client: Client) -> None:
        await client.send(*(get(number, b"a") for number in range(10)))
        counts = [len(message) for message in client.messages]
        assert (sum(counts), max(counts)) == (10, 3)

    run(test)


@pytest.mark.parametrize("config", [Config(request_bytes_max=1000)])
def test_a_client_that_reads_no_answers_is_not_read_from(run: Run, region: FakeRegion) -> None:
    region.value = b"v" * 300

    async def test(client: Client) -> None:
        client.may_write.clear()
        taking = asyncio.create_task(client.send(get(1, b"a")))
        for number in range(2, 9):
            await client.send(put(number, b"later"))
        for done in region.unpublished:
            done()
        await asyncio.sleep(0)
        assert not taking.done()
        client.may_write.set()
        await taking
        await client.until(*range(1, 9))

    run(test)


@pytest.mark.parametrize("config", [Config(request_bytes_max=1000)])
def test_a_client_whose_answers_pile_up_behind_a_write_is_not_read_from(run: Run, region: FakeRegion) -> None:
    region.value = b"v" * 300

    async def test(client: Client) -> None:
        client.may_write.clear()
        await client.send(put(1, b"later"))
        region.unpublished[0]()  # Its answer is being written by a task of its own now.
        await asyncio.sleep(0)
        taking = asyncio.create_task(client.send(*(get(number, b"a") for number in range(2, 9))))
        for _ in range(10):
            await asyncio.sleep(0)
        assert not taking.done()
        client.may_write.set()
        await taking
        await client.until(*range(1, 9))

    run(test)


@pytest.mark.parametrize("config", [Config(request_bytes_max=3000)])
@pytest.mark.parametrize("clock", [HurryingClock()])
def test_no_more_requests_of_a_message_begin_than_the_client_reads_answers(run: Run, region: FakeRegion) -> None:
    region.value = b"v" * 1000

    async def test(client: Client) -> None:
        client.may_write.clear()
        taking = asyncio.create_task(client.send(*(get(number, b"a") for number in range(50))))
        # One message is being written, perhaps, and another one waits.
        await until(lambda: len(region.begun) >= 3)
        for _ in range(20):
            await asyncio.sleep(0)
        assert len(region.begun) < 10
        assert not taking.done()
        client.may_write.set()
        await taking
        await client.until(*range(50))

    run(test)


@pytest.mark.parametrize("config", [Config(request_bytes_max=3000)])
@pytest.mark.parametrize("clock", [HurryingClock()])
def test_a_message_that_has_not_begun_whole_is_counted_and_only_its_bytes_while_answers_are_unread(
    run: Run, region: FakeRegion
) -> None:
    region.value = b"v" * 1000
    asked = [get(number, b"a") for number in range(50)]
    byte_count = region_pb2.PointRequests(requests=asked).ByteSize()

    async def test(client: Client) -> None:
        held = client.ledger.requests
        client.may_write.clear()
        taking = asyncio.create_task(client.send(*asked))
        await until(lambda: held.bytes_held > 0)
        assert held.bytes_held == REQUEST_COST * byte_count + 50 * PARSED_REQUEST_BYTES
        await until(lambda: held.bytes_held == byte_count)
        for _ in range(20):
            await asyncio.sleep(0)
        assert held.bytes_held == byte_count
        assert not taking.done()
        client.may_write.set()
        await taking
        await client.until(*range(50))
        assert sum(map(len, client.messages)) == len(region.begun) == 50

    run(test)


@pytest.mark.parametrize("config", [Config(answer_bytes_held_max=2500)])
def test_changes_of_workers_are_refused_or_unanswered_for_a_client_with_too_much_unread(
    run: Run, region: FakeRegion
) -> None:
    region.results = ((b"f", b"q", 1, b"v" * 1000),)
    region.gate.set()

    async def test(client: Client) -> None:
        client.may_write.clear()
        await client.send(*(put(number, b"slow%d" % number) for number in range(20)))
        await until(lambda: client.points.statistics().in_flight == 0)
        client.may_write.set()
        await client.until(*range(20))
        refused = [answer.error for answer in client.answers.values() if answer.HasField("error")]
        assert {error.code for error in refused} <= {Error.REGION_TOO_BUSY, Error.UNKNOWN_OUTCOME}
        begun = 20 - sum([error.code == Error.REGION_TOO_BUSY for error in refused])
        assert begun == len(region.begun)  # a refusal that may be repeated as new: nothing was changed
        assert sum([len(answer.SerializeToString()) > 1000 for answer in client.answers.values()]) < 9

    run(test)


@pytest.mark.parametrize("config", [Config(answer_bytes_held_max=2500)])
def test_answers_of_changes_published_together_are_bounded_for_a_client_that_reads_nothing(
    run: Run, region: FakeRegion
) -> None:
    region.results = ((b"f", b"q", 1, b"v" * 1000),)

    async def test(client: Client) -> None:
        client.may_write.clear()
        await client.send(*(put(number, b"later%d" % number) for number in range(20)))
        for publish in region.unpublished:
            publish()
        client.may_write.set()
        await client.until(*range(20))
        refused = [answer.error.code for answer in client.answers.values() if answer.HasField("error")]
        assert set(refused) == {Error.UNKNOWN_OUTCOME}
        assert 20 - len(refused) < 6

    run(test)


@pytest.mark.parametrize("config", [Config(answer_bytes_held_max=20_000)])
def test_workers_begin_no_gets_for_a_client_with_too_much_unread(
    run: Run, region: FakeRegion, workers: Workers, config: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rowlock_regionserver.engine.points._FEW_UNREAD_SHARE", 8)  # 1250 bytes: one answer
    region.value = b"v" * 1000

    async def test(client: Client) -> None:
        client.may_write.clear()
        await client.send(*(get(number, b"slow") for number in range(20)))
        region.gate.set()
        await until(lambda: client.points.statistics().in_flight == 0)
        # Those that have room, each twice; and each thread made one more that had none.
        assert len(region.begun) <= 9 + 2
        assert client.ledger.answers.bytes_held <= 20_000 + 2 * 11 * 400, "refusals are answers too"
        other = Client(region, workers, config, client.clock, client.points)
        await other.send(get(1, b"slow"))
        await other.until(1)
        assert other.answers[1].HasField("get")
        client.may_write.set()
        await client.until(*range(20))
        refused = [answer.error for answer in client.answers.values() if answer.HasField("error")]
        assert 20 - len(refused) <= 8 + 2 + 1
        assert {(error.code, error.can_retry, error.retry_after_ms > 0) for error in refused} == {
            (Error.REGION_TOO_BUSY, True, True)
        }
        await client.send(get(20, b"slow"))
        await client.until(20)
        assert client.answers[20].HasField("get")
        other.conversation.leave()

    run(test)


def test_a_large_message_is_executed_by_workers(run: Run, region: FakeRegion) -> None:
    async def test(client: Client) -> None:
        padding = put(99, *[b"x" * 1000] * (INLINE_MESSAGE_BYTES_MAX // 1000))
        await client.send(get(1, b"a"), put(2, b"b"), padding)
        await client.until(1, 2, 99)
        assert client.points.statistics().handed_over_count == 3
        assert len(client.answers[99].mutate.results) == INLINE_MESSAGE_BYTES_MAX // 1000

    run(test)


def long_change(request_id: int, part: str, row_count: int, count: int) -> region_pb2.PointRequest:
    request = put(request_id, *[b"a"] * row_count)
    for mutation in request.mutate.mutations:
        if part == "checks":
            mutation.condition.checks.extend([region_pb2.Check(family=b"f")] * count)
        else:
            getattr(mutation, part).extend([mutation.changes[0]] * count)
    return request


@pytest.mark.parametrize("part", ["changes", "otherwise", "checks"])
def test_a_long_change_is_executed_by_a_worker(run: Run, region: FakeRegion, part: str) -> None:
    async def test(client: Client) -> None:
        await client.send(
            long_change(1, part, 1, INLINE_PARTS_MAX // 2), long_change(2, part, 2, INLINE_PARTS_MAX // 3)
        )
        assert client.points.statistics().handed_over_count == 0
        await client.send(long_change(3, part, 1, INLINE_PARTS_MAX + 1), long_change(4, part, 4, INLINE_PARTS_MAX // 3))
        await client.until(1, 2, 3, 4)
        assert client.points.statistics().handed_over_count == 2
        assert len(client.answers[4].mutate.results) == 4

    run(test)


@pytest.mark.parametrize("config", [Config(request_bytes_in_flight_max=3 * REQUEST_COST * INLINE_MESSAGE_BYTES_MAX)])
def test_too_many_bytes_of_large_messages_are_refused(run: Run, region: FakeRegion) -> None:
    async def test(client: Client) -> None:
        padding = b"x" * 2 * INLINE_MESSAGE_BYTES_MAX
        message = region_pb2.PointRequests(requests=[put(1, b"slow", padding)])
        await client.send(*message.requests)
        byte_count = REQUEST_COST * message.ByteSize() + PARSED_REQUEST_BYTES
        assert client.ledger.requests.bytes_held == byte_count + 2 * ROW_COST
        await client.send(put(2, b"quick", padding))
        await client.until(2)
        assert client.answers[2].error.code == Error.REGION_TOO_BUSY
        region.gate.set()
        await client.until(1)
        await client.send(put(3, b"quick", padding))
        await client.until(3)
        assert client.answers[3].HasField("mutate")

    run(test)


@pytest.mark.parametrize("config", [Config(request_bytes_max=1000)])
def test_a_client_that_disconnects_while_a_large_message_waits_for_memory_releases_its_bytes(
    run: Run, region: FakeRegion, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rowlock_regionserver.rpc.services.conversation.INLINE_MESSAGE_BYTES_MAX", 200)
    region.results = ((b"f", b"q", 1, b"v" * 600),)
    region.gate.set()

    async def test(client: Client) -> None:
        client.may_write.clear()
        await client.send(put(0, b"later 0"), put(1, b"later 1"))
        region.unpublished.pop()()
        unread_bytes = client.conversation.unread_bytes
        assert unread_bytes > 1000  # The outbox is full before the message comes, however slow the workers are.
        sending = asyncio.create_task(client.send(*(get(number, b"slow") for number in range(2, 102))))
        await until(lambda: client.conversation.unread_bytes > unread_bytes)
        await until(lambda: client.points.statistics().in_flight == 0)
        assert not sending.done()
        assert client.ledger.requests.bytes_held
        sending.cancel()
        client.conversation.leave()
        await asyncio.wait((sending,))
        assert len(region.begun) < 100
        # Nothing of it is held, as the end of each test here looks.

    run(test)


def test_bytes_that_are_no_message_are_refused(run: Run) -> None:
    async def test(client: Client) -> None:
        for size in (10, INLINE_MESSAGE_BYTES_MAX + 1):
            with pytest.raises(InvalidRequestError, match="PointRequests"):
                await client.conversation.take(b"\xff" * size)
        for count in (101, INLINE_MESSAGE_BYTES_MAX):
            with pytest.raises(InvalidRequestError, match=f"{count} requests in {2 * count} bytes"):
                await client.conversation.take(b"\x1a\x00" * count)

    run(test)


def test_the_end_waits_for_every_answer(run: Run, region: FakeRegion) -> None:
    async def test(client: Client) -> None:
        await client.send(get(1, b"slow"), put(2, b"later"))
        end = asyncio.create_task(client.conversation.all_answered())
        await asyncio.sleep(0)
        assert not end.done()
        region.gate.set()
        await client.until(1)
        assert not end.done()
        region.unpublished[0]()
        await end
        assert client.answers.keys() == {1, 2}

    run(test)


@pytest.mark.parametrize("clock", [HurryingClock()])
def test_a_long_message_yields_to_the_event_loop(run: Run, region: FakeRegion) -> None:
    async def test(client: Client) -> None:
        turns = 0

        def turn() -> None:
            nonlocal turns
            turns += 1
            asyncio.get_running_loop().call_soon(turn)

        turn()
        await client.send(*(get(number, b"a") for number in range(20)))
        assert turns > 20
        await client.until(*range(20))

    run(test)
