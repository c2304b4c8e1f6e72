"""Links with calls of several tasks or threads at once."""

from __future__ import annotations

import asyncio
import socket
from concurrent.futures import ThreadPoolExecutor

import pytest
import rowlock
import rowlock.aio
from rowlock._transport.servers import Servers

from tests.unit.client.fake_errors import Mishap
from tests.unit.client.fake_server import FakeServer
from tests.waiting import WAIT_S, wait_until


@pytest.fixture
def way() -> str:
    return "direct"


def by_grpc(db: rowlock.Client) -> rowlock.Table[bytes]:
    """Returns a table of the same client whose calls go by gRPC, beside those that are under way."""
    servers = db._servers
    [(key, link)] = servers._links.items()
    other = Servers(servers.addresses, is_direct=False)
    other.sequences = servers.sequences
    other.regions = servers.regions
    assert link is servers._links[key]
    return rowlock.Client(other, 60).table("t")


def test_the_floor_of_one_way_never_passes_a_change_that_is_waited_for_on_the_other(
    db: rowlock.Client, fake_server: FakeServer
) -> None:
    table = db.table("t", timeout=60)
    table.put("before", {"f:q": "1"})
    fake_server.script.append(Mishap.NO_ANSWER)
    with ThreadPoolExecutor(1) as threads:
        waiting = threads.submit(table.put, "held", {"f:q": "1"})
        fake_server.wait_until(lambda server: len(server.requests) == 2)
        other = by_grpc(db)
        for _ in range(3):
            other.increment("row", "f:n")
        assert fake_server.grpc_message_count == 3
        assert fake_server.floors[-4:] == [2, 2, 2, 2]
        other._servers.close()
        db.close()
        with pytest.raises(rowlock.UnknownOutcomeError):
            waiting.result(WAIT_S)


def test_threads_that_call_together_open_one_connection(db: rowlock.Client, fake_server: FakeServer) -> None:
    table = db.table("t")
    with ThreadPoolExecutor(20) as threads:
        numbers = list(threads.map(lambda _: table.increment("row", "f:n"), range(40)))
    assert sorted(numbers) == list(range(1, 41))
    assert fake_server.direct is not None
    assert fake_server.direct.accepted_count == 1


def test_tasks_that_call_together_open_one_connection_and_share_messages(fake_server: FakeServer) -> None:
    async def run() -> None:
        async with rowlock.aio.connect(fake_server.address, timeout=60) as db:
            table = db.table("t")
            numbers = await asyncio.gather(*(table.increment("row", "f:n") for _ in range(40)))
            assert sorted(numbers) == list(range(1, 41))

    asyncio.run(run())
    assert fake_server.direct is not None
    assert fake_server.direct.accepted_count == 1
    assert len(fake_server.message_sizes) < 10


def test_a_put_whose_server_is_silent_when_it_is_asked_about_itself_says_that_nothing_was_changed(
    fake_server: FakeServer,
) -> None:
    with rowlock.connect(fake_server.address, timeout=60) as db:
        table = db.table("t", timeout=0.5)
        db.table("t").row("row")
        [link] = db._servers._links.values()
        direct = link._direct
        assert direct is not None
        fake_server.stop()

        def is_over() -> bool:
            direct.look()
            return direct.is_over

        wait_until(is_over)
        with socket.create_server(("127.0.0.1", int(fake_server.address.rpartition(":")[2]))):  # answers nothing
            db._servers._stop_using(fake_server.address)  # Not after a pause that follows a refusal.
            with pytest.raises(rowlock.DeadlineError, match=r"did not answer in time.*Nothing was changed"):
                table.put("row", {"f:q": "1"})


def test_threads_that_wait_for_one_connection_fail_together_when_no_server_answers(fake_server: FakeServer) -> None:
    with rowlock.connect(fake_server.address, timeout=60) as db:
        table = db.table("t")
        table.row("row")
        fake_server.stop()

        def call(_: int) -> None:
            with pytest.raises(rowlock.DeadlineError):
                table.with_options(timeout=1).row("row")

        with ThreadPoolExecutor(32) as threads:
            list(threads.map(call, range(32)))
