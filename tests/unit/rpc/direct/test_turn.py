"""Changes of several connections, or of one, that come in one iteration of the event loop are made together."""

from __future__ import annotations

from rowlock_proto.v1.types_pb2 import Error
from rowlock_regionserver.engine.coalesced_changes import COALESCED_CHANGES_MAX

from tests.unit.engine.fakes import FakeRegion
from tests.unit.engine.loops import until
from tests.unit.rpc.direct.direct_client import Port, RunPort, requests_frame
from tests.unit.rpc.stream import get, put


def test_they_are_made_by_one_call_and_each_is_answered_to_its_client(run_port: RunPort, region: FakeRegion) -> None:
    async def test(port: Port) -> None:
        clients = [await port.welcomed() for _ in range(3)]
        port.ready_count = 3
        for number, client in enumerate(clients):
            await client.ask(put(number, b"row%d" % number))
        for number, client in enumerate(clients):
            await client.until(number)
            assert client.answers[number].mutate.results[0].timestamp == 5 + number
        assert region.changed_together == [[b"row0", b"row1", b"row2"]]
        assert port.points.statistics().accepted_count == 3

    run_port(test)


def test_the_change_of_the_only_ready_socket_waits_for_no_other(run_port: RunPort, region: FakeRegion) -> None:
    async def test(port: Port) -> None:
        clients = [await port.welcomed(), await port.welcomed()]
        for client in clients:
            await client.ask(put(1, b"row"))
        for client in clients:
            await client.until(1)
        assert region.changed_together == [[b"row"], [b"row"]]

    run_port(test)


def test_changes_that_one_receive_brought_are_made_together(run_port: RunPort, region: FakeRegion) -> None:
    async def test(port: Port) -> None:
        client = await port.welcomed()
        await client.send(b"".join(requests_frame(put(number, b"%d" % number)) for number in range(3)))
        await client.until(0, 1, 2)
        assert region.changed_together == [[b"0", b"1", b"2"]]
        assert [[answer.id for answer in message] for message in client.messages] == [[0, 1, 2]]

    run_port(test)


def test_changes_of_the_only_ready_socket_wait_for_no_other(run_port: RunPort, region: FakeRegion) -> None:
    async def test(port: Port) -> None:
        clients = [await port.welcomed(), await port.welcomed()]
        for client in clients:
            await client.send(requests_frame(put(1, b"a")) + requests_frame(put(2, b"b")))
        for client in clients:
            await client.until(1, 2)
        assert region.changed_together == [[b"a", b"b"], [b"a", b"b"]]

    run_port(test)


def test_a_change_does_not_wait_for_the_rest_of_a_frame(run_port: RunPort, region: FakeRegion) -> None:
    async def test(port: Port) -> None:
        client = await port.welcomed()
        rest = requests_frame(put(2, b"b"))
        await client.send(requests_frame(put(1, b"a")) + rest[:5])
        await client.until(1)
        await client.send(rest[5:])
        await client.until(2)
        assert region.changed_together == [[b"a"], [b"b"]]

    run_port(test)


def test_changes_before_a_get_in_one_receive_begin_before_it(run_port: RunPort, region: FakeRegion) -> None:
    async def test(port: Port) -> None:
        client = await port.welcomed()
        await client.send(b"".join(map(requests_frame, (put(1, b"a"), put(2, b"b"), get(3, b"got"), put(4, b"c")))))
        await client.until(1, 2, 3, 4)
        assert region.begun == [b"a", b"b", b"got", b"c"]

    run_port(test)


def test_changes_of_one_connection_are_answered_in_one_frame(run_port: RunPort, region: FakeRegion) -> None:
    async def test(port: Port) -> None:
        client, other = await port.welcomed(), await port.welcomed()
        port.ready_count = 2
        await client.send(requests_frame(put(1, b"a")) + requests_frame(put(2, b"b")))
        await other.ask(put(3, b"c"))
        await client.until(1, 2)
        await other.until(3)
        assert region.changed_together == [[b"a", b"b", b"c"]]
        assert [[answer.id for answer in message] for message in client.messages] == [[1, 2]]

    run_port(test)


def test_the_requests_of_a_connection_begin_in_their_order(run_port: RunPort, region: FakeRegion) -> None:
    async def test(port: Port) -> None:
        client, other = await port.welcomed(), await port.welcomed()
        port.ready_count = 2
        await other.ask(put(1, b"other"))
        await client.send(
            requests_frame(put(1, b"a"))
            + requests_frame(get(2, b"got"))
            + requests_frame(put(3, b"b"))
            + requests_frame(put(4, b"c"), put(5, b"d"))
        )
        await client.until(1, 2, 3, 4, 5)
        await other.until(1)
        assert region.begun == [b"other", b"a", b"got", b"b", b"c", b"d"]

    run_port(test)


def test_what_is_no_plain_change_does_not_wait(run_port: RunPort, region: FakeRegion) -> None:
    async def test(port: Port) -> None:
        clients = [await port.welcomed() for _ in range(3)]
        port.ready_count = 3
        await clients[0].ask(put(1, b"a"))
        await clients[1].ask(get(1, b"got"))
        await clients[2].ask(put(1, b"two", b"rows"))
        for client in clients:
            await client.until(1)
        assert region.begun == [b"got", b"two", b"a"]

    run_port(test)


def test_when_one_would_have_to_wait_the_others_do_not(run_port: RunPort, region: FakeRegion) -> None:
    async def test(port: Port) -> None:
        clients = [await port.welcomed() for _ in range(3)]
        port.ready_count = 3
        for client, row in zip(clients, (b"a", b"slow", b"b"), strict=True):
            await client.ask(put(1, row))
        await clients[0].until(1)
        await clients[2].until(1)
        region.gate.set()
        await clients[1].until(1)

    run_port(test)


def test_an_error_is_the_answer_to_its_own_client(run_port: RunPort, region: FakeRegion) -> None:
    async def test(port: Port) -> None:
        clients = [await port.welcomed() for _ in range(3)]
        port.ready_count = 3
        for client, row in zip(clients, (b"a", b"refused", b"b"), strict=True):
            await client.ask(put(1, row))
        for client in clients:
            await client.until(1)
        codes = [client.answers[1].mutate.results[0].error.code for client in clients]
        assert codes == [Error.CODE_UNSPECIFIED, Error.INVALID_ARGUMENT, Error.CODE_UNSPECIFIED]
        for client in clients:
            await client.ask(put(2, b"bug"))
        for client in clients:
            await client.until(2)
            assert client.answers[2].error.code == Error.INTERNAL

    run_port(test)


def test_those_that_are_published_later_are_answered_then(run_port: RunPort, region: FakeRegion) -> None:
    async def test(port: Port) -> None:
        clients = [await port.welcomed(), await port.welcomed()]
        port.ready_count = 2
        for client in clients:
            await client.ask(put(1, b"later"))
        await until(lambda: len(region.unpublished) == 1)
        assert port.points.statistics().in_flight == 2
        region.unpublished[0]()
        for client in clients:
            await client.until(1)

    run_port(test)


def test_no_more_than_the_bound_are_made_by_one_call(run_port: RunPort, region: FakeRegion) -> None:
    async def test(port: Port) -> None:
        client, other = await port.welcomed(), await port.welcomed()
        port.ready_count = 2
        count = COALESCED_CHANGES_MAX + 1
        await client.send(b"".join(requests_frame(put(number, b"row")) for number in range(count)))
        await other.ask(put(1, b"other"))
        await client.until(*range(count))
        await other.until(1)
        assert [len(rows) for rows in region.changed_together] == [COALESCED_CHANGES_MAX, 2]

    run_port(test)


def test_a_client_that_is_gone_takes_no_change_of_others_with_it(run_port: RunPort, region: FakeRegion) -> None:
    async def test(port: Port) -> None:
        gone, client = await port.welcomed(), await port.welcomed()
        port.ready_count = 2
        await gone.ask(put(1, b"gone"))
        await client.ask(put(1, b"a"))
        gone.close()
        await client.until(1)
        assert region.changed_together == [[b"gone", b"a"]]

    run_port(test)


def test_a_server_that_stops_answers_what_has_joined(run_port: RunPort, region: FakeRegion) -> None:
    async def test(port: Port) -> None:
        clients = [await port.welcomed(), await port.welcomed()]
        port.ready_count = 2
        for client in clients:
            await client.ask(put(1, b"row"))
        await until(lambda: port.ready_counted >= 2)
        port.clients.stop()
        for client in clients:
            await client.rest()
            assert client.answers[1].mutate.results[0].timestamp
            assert client.end is not None
            assert client.end.code == Error.SERVER_STOPPING

    run_port(test)
