"""Puts and increments of one message are made together, and differ from separate ones only in the time they take."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest
from rowlock_proto.v1 import region_pb2, types_pb2
from rowlock_proto.v1.types_pb2 import Error
from rowlock_regionserver.config import Config
from rowlock_regionserver.engine.coalesced_changes import COALESCED_CHANGES_MAX, COALESCED_PARTS_MAX
from rowlock_regionserver.operations import Increment, Put, RequestId, RowResult
from rowlock_regionserver.rpc.messages.mutations import PLAIN_CHANGES_MAX
from rowlock_regionserver.rpc.messages.one_row_answer import one_row_answer

from tests.unit.engine.fakes import FakeRegion
from tests.unit.rpc.stream import Client, HurryingClock, Run, get, put

CLIENT_ID = b"0123456789abcdef"


def numbered(rows: Sequence[bytes]) -> list[region_pb2.PointRequest]:
    return [put(number, row) for number, row in enumerate(rows)]


def test_neighbours_are_made_in_one_call_and_answered_in_one_message(run: Run, region: FakeRegion) -> None:
    async def test(client: Client) -> None:
        rows = [b"later a", b"later b", b"later b", b"later c"]
        await client.send(*numbered(rows))
        assert region.changed_together == [rows]
        assert client.points.statistics().in_flight == 4
        region.unpublished[0]()
        await client.until(0, 1, 2, 3)
        assert [[answer.id for answer in message] for message in client.messages] == [[0, 1, 2, 3]]
        # Each has its own outcome.
        assert [answer.mutate.results[0].timestamp for answer in answers(client)] == [5, 6, 7, 8]
        statistics = client.points.statistics()
        assert (statistics.in_flight, statistics.accepted_count, statistics.handed_over_count) == (0, 4, 0)
        await client.conversation.all_answered()

    run(test)


def test_each_keeps_its_puts_and_its_request_id(run: Run, region: FakeRegion) -> None:
    requests = numbered([b"a", b"b", b"c"])
    for request in requests[:2]:
        request.mutate.mutations[0].sequence = 10 + request.id
    requests[1].mutate.mutations[0].changes.add().put.qualifier = b"second"

    async def test(client: Client) -> None:
        await client.send(*requests, client_id=CLIENT_ID, sequence_floor=9)
        (made,) = region.changed
        assert [mutation.request for mutation in made] == [
            RequestId(CLIENT_ID, 10, 9),
            RequestId(CLIENT_ID, 11, 9),
            None,
        ]
        first = Put(b"f", b"q", b"v")
        assert [mutation.changes for mutation in made] == [(first,), (first, Put(b"", b"second", b"")), (first,)]

    run(test)


def test_increments_are_made_with_their_neighbours(run: Run, region: FakeRegion) -> None:
    requests = numbered([b"a", b"b", b"c"])
    for request in requests[1:]:
        increment = request.mutate.mutations[0].changes[0].increment
        increment.family, increment.qualifier, increment.amount = b"f", b"n", request.id

    async def test(client: Client) -> None:
        await client.send(*requests)
        (made,) = region.changed
        assert [mutation.changes for mutation in made] == [
            (Put(b"f", b"q", b"v"),),
            (Increment(b"f", b"n", 1),),
            (Increment(b"f", b"n", 2),),
        ]
        assert sorted(client.answers) == [0, 1, 2]

    run(test)


def test_increments_are_answered_in_one_message_though_they_have_cells(run: Run, region: FakeRegion) -> None:
    region.results = ((b"f", b"n", 5, bytes(8)),)

    async def test(client: Client) -> None:
        await client.send(*numbered([b"later a", b"later b"]))
        region.unpublished[0]()
        await client.until(0, 1)
        assert [[answer.id for answer in message] for message in client.messages] == [[0, 1]]
        assert [answer.mutate.results[0].results[0].value for answer in answers(client)] == [bytes(8)] * 2

    run(test)


def test_refused_and_repeated_puts_do_not_wait_for_the_others(run: Run, region: FakeRegion) -> None:
    async def test(client: Client) -> None:
        await client.send(*numbered([b"refused", b"later", b"made", b"later"]))
        assert client.answers.keys() == {0, 2}
        assert client.answers[0].mutate.results[0].error.code == Error.INVALID_ARGUMENT
        assert client.answers[2].mutate.results[0].timestamp == 7
        assert client.points.statistics().in_flight == 2
        region.unpublished[0]()
        await client.until(1, 3)
        assert [client.answers[number].mutate.results[0].timestamp for number in (1, 3)] == [6, 8]

    run(test)


def test_those_of_another_region_are_made_there(run: Run, region: FakeRegion) -> None:
    region.neighbour = neighbour = FakeRegion()

    async def test(client: Client) -> None:
        requests = numbered([b"a", b"b", b"c", b"d", b"e"])
        for request in requests[2:4]:
            request.region_id += 1
        await client.send(*requests)
        assert region.changed_together == [[b"a", b"b"], [b"e"]]
        assert neighbour.changed_together == [[b"c", b"d"]]

    run(test)


def test_coalesced_changes_are_split_into_batches_of_limited_size(run: Run, region: FakeRegion) -> None:
    async def test(client: Client) -> None:
        await client.send(*numbered([b"row"] * (COALESCED_CHANGES_MAX + 3)))
        assert [len(rows) for rows in region.changed_together] == [COALESCED_CHANGES_MAX, 3]

    run(test)


def test_puts_of_many_columns_are_made_in_smaller_batches(run: Run, region: FakeRegion) -> None:
    requests = numbered([b"row"] * 12)
    for request in requests:
        changes = request.mutate.mutations[0].changes
        changes.extend(list(changes) * 15)

    async def test(client: Client) -> None:
        await client.send(*requests)
        assert [len(rows) for rows in region.changed_together] == [10, 2]
        assert all(16 * len(rows) <= COALESCED_PARTS_MAX for rows in region.changed_together)
        assert sorted(client.answers) == list(range(12))

    run(test)


def test_a_single_put_takes_the_ordinary_path(run: Run, region: FakeRegion) -> None:
    async def test(client: Client) -> None:
        await client.send(put(1, b"a"), get(2, b"got"), put(3, b"b"))
        assert region.changed_together == [[b"a"], [b"b"]]
        assert [answer.mutate.results[0].timestamp for answer in (client.answers[1], client.answers[3])] == [5, 5]

    run(test)


@pytest.mark.parametrize("clock", [HurryingClock()])
def test_a_client_that_disconnects_during_a_yield_leaves_no_put_half_begun(run: Run, region: FakeRegion) -> None:
    async def test(client: Client) -> None:
        taking = asyncio.ensure_future(client.send(*numbered([b"later"] * 5)))
        while len(region.changed) < 2:
            await asyncio.sleep(0)
        taking.cancel()
        await asyncio.wait([taking])
        begun = len(region.changed)
        assert client.points.statistics().in_flight == begun < 5
        for publish in region.unpublished:
            publish()
        await client.conversation.all_answered()

    run(test)


def changed(request: region_pb2.PointRequest, kind: str) -> region_pb2.PointRequest:
    """Changes the put so that it is not applied together with its neighbours."""
    mutate = request.mutate
    mutation = mutate.mutations[0]
    if kind == "durability":
        mutate.durability = types_pb2.DURABILITY_FSYNC
    elif kind == "rows":
        mutate.mutations.append(mutation)
    elif kind == "condition":
        mutation.condition.existence = region_pb2.Condition.EXISTENCE_ABSENT
    elif kind == "otherwise":
        mutation.otherwise.add().put.value = b"v"
    elif kind == "changes":
        mutation.changes.extend(mutation.changes[:1] * PLAIN_CHANGES_MAX)
    elif kind == "append":
        mutation.changes[0].append.suffix = b"v"
    elif kind == "put and delete":
        mutation.changes.append(types_pb2.Change(delete=types_pb2.Delete(kind=types_pb2.Delete.KIND_VERSION)))
    return request


KINDS = ("durability", "rows", "condition", "otherwise", "changes", "append", "put and delete")


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_no_plain_change_is_made_in_its_place(run: Run, region: FakeRegion, kind: str) -> None:
    async def test(client: Client) -> None:
        other = changed(put(3, b"other"), kind)
        await client.send(put(1, b"a"), put(2, b"b"), other, put(4, b"c"), put(5, b"d"))
        assert region.changed_together[0] == [b"a", b"b"]
        assert set(region.changed_together[1]) == {b"other"}
        assert region.changed_together[2] == [b"c", b"d"]
        assert sorted(client.answers) == [1, 2, 3, 4, 5]

    run(test)


def test_a_get_between_them_is_made_in_its_place(run: Run, region: FakeRegion) -> None:
    async def test(client: Client) -> None:
        await client.send(put(1, b"a"), put(2, b"b"), get(3, b"got"), put(4, b"c"))
        assert region.begun == [b"a", b"b", b"got", b"c"]
        assert [[answer.id for answer in message] for message in client.messages] == [[1, 2, 3, 4]]

    run(test)


def test_when_one_would_have_to_wait_the_others_do_not(run: Run, region: FakeRegion) -> None:
    async def test(client: Client) -> None:
        await client.send(*numbered([b"a", b"slow", b"b"]))
        assert region.changed_together == [[b"a"], [b"b"]]
        assert client.answers.keys() == {0, 2}
        region.gate.set()
        await client.until(1)
        statistics = client.points.statistics()
        assert (statistics.accepted_count, statistics.handed_over_count) == (3, 1)

    run(test)


def test_what_the_region_refuses_together_is_tried_alone(run: Run, region: FakeRegion) -> None:
    async def test(client: Client) -> None:
        await client.send(*numbered([b"a", b"full", b"b"]))
        assert region.changed_together == [[b"a"], [b"b"]]
        assert client.answers[0].HasField("mutate")
        assert client.answers[1].error.code == Error.REGION_TOO_BUSY
        assert client.answers[2].HasField("mutate")

    run(test)


def test_each_put_of_an_unknown_region_gets_the_error(run: Run) -> None:
    async def test(client: Client) -> None:
        requests = numbered([b"a", b"b"])
        for request in requests:
            request.region_id = 99
        await client.send(*requests)
        assert {answer.error.code for answer in client.answers.values()} == {Error.NOT_SERVING_REGION}
        assert client.points.statistics().accepted_count == 2

    run(test)


def test_an_unknown_durability_fails_each_put(run: Run, region: FakeRegion) -> None:
    async def test(client: Client) -> None:
        requests = numbered([b"a", b"b"])
        for request in requests:
            request.mutate.durability = 77  # type: ignore[assignment]  # as a newer client may send
        await client.send(*requests)
        assert all("durability is 77" in answer.error.message for answer in client.answers.values())
        assert region.changed_together == []

    run(test)


@pytest.mark.parametrize(("client_id", "reason"), [(b"", "without a client_id"), (b"short", "5 bytes")])
def test_a_bad_client_id_fails_each_put(run: Run, region: FakeRegion, client_id: bytes, reason: str) -> None:
    async def test(client: Client) -> None:
        requests = numbered([b"a", b"b"])
        for request in requests:
            request.mutate.mutations[0].sequence = 1 + request.id
        await client.send(*requests, client_id=client_id)
        # Without an id of the client each mutation is refused in its place, with a wrong one the whole request.
        errors = [
            answer.error if answer.HasField("error") else answer.mutate.results[0].error for answer in answers(client)
        ]
        assert [reason in error.message for error in errors] == [True, True]
        assert all(not rows for rows in region.changed_together)

    run(test)


def answers(client: Client) -> list[region_pb2.PointAnswer]:
    return [client.answers[request_id] for request_id in sorted(client.answers)]


@pytest.mark.parametrize("config", [Config(requests_in_flight_max=3)])
def test_as_many_as_may_be_in_flight_are_made_together(run: Run, region: FakeRegion) -> None:
    async def test(client: Client) -> None:
        await client.send(*numbered([b"later"] * 3))
        assert region.changed_together == [[b"later"] * 3]
        await client.send(put(3, b"a"), put(4, b"b"))
        assert [client.answers[number].error.code for number in (3, 4)] == [Error.REGION_TOO_BUSY] * 2
        region.unpublished[0]()
        await client.until(0, 1, 2)

    run(test)


@pytest.mark.parametrize("config", [Config(requests_in_flight_max=3)])
def test_puts_beyond_the_limit_in_flight_are_refused(run: Run, region: FakeRegion) -> None:
    async def test(client: Client) -> None:
        await client.send(*numbered([b"later"] * 4))
        assert region.changed_together == [[b"later"]] * 3
        assert client.answers[3].error.code == Error.REGION_TOO_BUSY
        for publish in region.unpublished:
            publish()
        await client.until(0, 1, 2)

    run(test)


def test_a_bug_is_reported_to_each(run: Run, caplog: pytest.LogCaptureFixture) -> None:
    async def test(client: Client) -> None:
        await client.send(*numbered([b"a", b"bug"]))
        assert [answer.error.code for answer in answers(client)] == [Error.INTERNAL] * 2
        assert client.points.statistics().in_flight == 0

    run(test)
    assert "ZeroDivisionError" in caplog.text


def test_each_is_answered_once_when_memory_runs_out_between_their_answers(run: Run, region: FakeRegion) -> None:
    """Those that were published at once were answered again, and counted off twice."""

    async def test(client: Client) -> None:
        await client.send(*numbered([b"a", b"later large", b"b"]))
        assert sorted(answer.id for message in client.messages for answer in message) == [0, 1, 2]
        assert client.answers[1].error.code == Error.INTERNAL
        assert [client.answers[number].mutate.results[0].timestamp for number in (0, 2)] == [5, 7]
        assert client.points.statistics().in_flight == 0

    run(test)


@pytest.mark.parametrize("config", [Config(answer_bytes_held_max=1000, request_bytes_max=1000)])
def test_answers_with_cells_are_bounded_as_those_of_other_changes_are(run: Run, region: FakeRegion) -> None:
    region.results = ((b"f", b"q", 1, bytes(300)),)

    async def test(client: Client) -> None:
        await client.send(*numbered([b"a", b"b", b"c"]))
        told = [answer.HasField("mutate") for answer in answers(client)]
        assert told == [True, False, False]
        assert client.answers[0].mutate.results[0].timestamp == 5
        assert {answer.error.code for answer in answers(client)[1:]} == {Error.UNKNOWN_OUTCOME}

    run(test)


def test_an_outcome_that_can_not_be_encoded_does_not_affect_the_others(
    run: Run, region: FakeRegion, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(request_id: int, outcome: RowResult) -> bytes:
        if outcome.timestamp == 6:
            raise MemoryError
        return one_row_answer(request_id, outcome)

    monkeypatch.setattr("rowlock_regionserver.rpc.messages.answers.one_row_answer", broken)

    async def test(client: Client) -> None:
        await client.send(*numbered([b"later a", b"later b", b"later c"]))
        await asyncio.to_thread(region.unpublished[0])
        await client.until(0, 1, 2)
        assert [answer.HasField("mutate") for answer in answers(client)] == [True, False, True]
        assert client.answers[1].error.code == Error.INTERNAL
        assert client.points.statistics().in_flight == 0

    run(test)
    assert "MemoryError" in caplog.text
