"""Point operations of the threaded client against a server that loses, refuses and delays."""

from __future__ import annotations

import os
import signal
import threading
from concurrent.futures import ThreadPoolExecutor

import grpc
import pytest
import rowlock
from rowlock._core.features import PROTOCOL
from rowlock._transport import methods
from rowlock._transport.servers import Servers
from rowlock.aio._transport.servers import Servers as AsyncioServers
from rowlock_proto.v1 import catalog_pb2, types_pb2

from tests.threads import is_at
from tests.unit.client.answer_threads import answer_threads
from tests.unit.client.blocking.test_calls import connected
from tests.unit.client.fake_errors import Mishap, error
from tests.unit.client.fake_server import FakeServer
from tests.unit.client.pauses import in_each_pause
from tests.waiting import WAIT_S, wait_until

BOTH_WAYS = True
Error = types_pb2.Error


def test_everything_in_flight_is_sent_again_when_the_stream_is_lost(
    db: rowlock.Client, fake_server: FakeServer
) -> None:
    table = db.table("t")
    fake_server.script.extend([Mishap.NO_ANSWER] * 7 + [Mishap.ANSWER_IS_LOST])
    with ThreadPoolExecutor(8) as threads:
        numbers = list(threads.map(lambda _: table.increment("row", "f:n"), range(8)))
    assert sorted(numbers) == list(range(1, 9))
    assert table.counter("row", "f:n") == 8


def test_a_change_that_was_never_sent_is_certainly_not_made() -> None:
    server, others = FakeServer(), answer_threads()
    with rowlock.connect(server.address, timeout=60) as db:
        table = connected(db)
        server.stop()
        # Until the client knows that its stream has ended, a change goes out on it, and is rightly in doubt.
        wait_until(lambda: answer_threads() <= others)
        with pytest.raises(rowlock.DeadlineError, match="Nothing was changed"):
            table.with_options(timeout=0.3).put("row", {"f:q": "1"})


def test_waiting_requests_of_threads_share_a_message(db: rowlock.Client, fake_server: FakeServer) -> None:
    table = db.table("t")
    with ThreadPoolExecutor(32) as threads:
        for _ in range(10):
            list(threads.map(lambda number: table.put(f"row{number}", {"f:q": "1"}), range(32)))
    assert sum(fake_server.message_sizes) == 320
    assert len(fake_server.message_sizes) < 320, "every request travelled alone"
    assert fake_server.stream_count == 1


def test_the_floor_is_the_lowest_number_in_use(db: rowlock.Client, fake_server: FakeServer) -> None:
    table = db.table("t", timeout=30)
    fake_server.script.append(Mishap.NO_ANSWER)
    waiting = ThreadPoolExecutor(1)
    outcome = waiting.submit(table.put, "held", {"f:q": "1"})
    fake_server.wait_until(lambda server: len(server.requests) == 1)
    for _ in range(3):
        table.put("row", {"f:q": "1"})
    assert fake_server.floors == [1, 1, 1, 1]
    db.close()
    with pytest.raises(rowlock.UnknownOutcomeError, match="closed"):
        outcome.result(timeout=WAIT_S)
    waiting.shutdown()


def test_an_interrupted_wait_leaves_the_stream_to_the_others(db: rowlock.Client, fake_server: FakeServer) -> None:
    table = db.table("t", timeout=30)
    table.row("row")
    fake_server.script.append(Mishap.NO_ANSWER)

    def interrupt_when_sent() -> None:
        fake_server.wait_until(lambda server: len(server.requests) == 2)
        # The server may have the request before the caller has come back from sending it.
        caller = threading.main_thread()
        wait_until(lambda: is_at(caller, "channel.poll(") or is_at(caller, "done.acquire(timeout"))
        os.kill(os.getpid(), signal.SIGINT)

    interrupter = threading.Thread(target=interrupt_when_sent)
    interrupter.start()
    with pytest.raises(KeyboardInterrupt):
        table.put("row", {"f:q": "1"})
    interrupter.join()
    table.put("row", {"f:q": "2"})
    assert fake_server.stream_count == 1
    assert fake_server.floors[-1] == 2


@pytest.mark.parametrize("is_region_known", [True, False])
def test_a_change_in_doubt_stays_so_when_the_client_is_closed_before_a_repetition(
    servers: Servers,
    db: rowlock.Client,
    fake_server: FakeServer,
    monkeypatch: pytest.MonkeyPatch,
    is_region_known: bool,
) -> None:
    def close() -> None:
        db.close()
        if not is_region_known:
            servers.regions.forget_table("t")

    table = connected(db)
    in_each_pause(monkeypatch, close)
    fake_server.script.append(Mishap.ANSWER_IS_LOST)
    with pytest.raises(rowlock.UnknownOutcomeError, match="last error: the client was closed") as caught:
        table.increment("row", "f:n")
    assert isinstance(caught.value.__cause__, rowlock.ClosedError)
    assert fake_server.rows[b"row"][(b"f", b"n")] == (1).to_bytes(8, "big")


def test_a_refused_change_that_was_not_repeated_is_certainly_not_made_when_the_client_is_closed(
    db: rowlock.Client, fake_server: FakeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = connected(db)
    in_each_pause(monkeypatch, db.close)
    fake_server.script.append(error(Error.REGION_TOO_BUSY))
    with pytest.raises(rowlock.ClosedError):
        table.increment("row", "f:n")
    assert fake_server.rows == {}


@pytest.mark.parametrize("kind", [Servers, AsyncioServers])
def test_in_the_child_of_a_fork_a_client_has_nothing_with_a_lock_of_its_parents(
    kind: type[Servers] | type[AsyncioServers],
) -> None:
    servers = kind(("127.0.0.1:1",))
    parents = (servers.regions, servers.sequences)
    servers.after_fork_in_child()
    assert servers.regions is not parents[0]
    assert servers.sequences is not parents[1]
    assert servers.sequences.client_id != parents[1].client_id


class StuckChannel:
    """A channel of which no call ends any more."""

    def unary_unary(self, *_: object, **__: object) -> StuckChannel:
        return self

    def future(self, *_: object, **__: object) -> StuckChannel:
        return self

    def cancel(self) -> None: ...

    def result(self, timeout: float) -> object:
        raise grpc.FutureTimeoutError


def test_a_channel_on_which_no_call_ends_is_replaced(
    db: rowlock.Client, servers: Servers, fake_server: FakeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert db.tables() == ["t"]
    monkeypatch.setitem(servers._channels, fake_server.address, StuckChannel())
    with pytest.raises(grpc.RpcError, match="did not end at its deadline") as stuck:
        servers.call_once(fake_server.address, methods.LIST_TABLES, catalog_pb2.ListTablesRequest(), 60)
    assert isinstance(servers.error_for(stuck.value, fake_server.address), rowlock.ServerUnavailableError)
    assert db.tables() == ["t"]


def test_a_closed_client_says_so(fake_server: FakeServer) -> None:
    db = rowlock.connect(fake_server.address)
    table = db.table("t")
    table.row("row")
    db.close()
    db.close()
    for call in (
        lambda: table.row("row"),
        lambda: table.put("row", {"f:q": "1"}),
        db.tables,
        lambda: list(table.scan()),
    ):
        with pytest.raises(rowlock.ClosedError):
            call()


def test_a_server_must_speak_the_same_protocol(fake_server: FakeServer) -> None:
    fake_server.protocol = PROTOCOL + 1
    with pytest.raises(rowlock.InvalidArgumentError, match=f"protocol {PROTOCOL + 1}"):
        rowlock.connect(fake_server.address)


def test_the_first_address_that_answers_is_used(fake_server: FakeServer, monkeypatch: pytest.MonkeyPatch) -> None:
    with rowlock.connect(f"127.0.0.1:1, {fake_server.address}", timeout=60) as db:
        assert db.tables() == ["t"]
    monkeypatch.setenv("ROWLOCK_SERVER", fake_server.address)
    with rowlock.connect() as db:
        assert db.server_info().version == "fake"
    monkeypatch.delenv("ROWLOCK_SERVER")
    with pytest.raises(rowlock.InvalidArgumentError, match="ROWLOCK_SERVER"):
        rowlock.connect()
