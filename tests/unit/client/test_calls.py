"""Point operations of the threaded client against a server that loses, refuses and delays."""

from __future__ import annotations

import os
import signal
import threading
import time
import weakref
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pytest
import rowlock
from rowlock._transport import fork
from rowlock._transport.servers import Servers
from rowlock.aio._transport.servers import Servers as AsyncioServers
from rowlock.changes import Change
from rowlock_proto.v1 import types_pb2

from tests.unit.client.fake_server import FakeServer, Mishap, error
from tests.unit.client.pauses import in_each_pause
from tests.unit.wal.log_case import wait_until

Error = types_pb2.Error


def connected(db: rowlock.Client) -> rowlock.Table[bytes]:
    """A table whose region was looked up and whose stream is open: a call of it that is short of time is sent."""
    table = db.table("t", timeout=60)
    table.row("row")
    return table


def test_a_put_is_read_again(db: rowlock.Client) -> None:
    table = db.table("t")
    table.put("row", {"f:q": "value", "f:": b""})
    assert table.row("row") == {b"f:q": b"value", b"f:": b""}
    assert table.row("absent") == {}
    assert table.rows(["absent", "row", "row"])[1:] == [(b"row", {b"f:q": b"value", b"f:": b""})] * 2


def test_answers_are_text_in_a_table_with_an_encoding(db: rowlock.Client) -> None:
    table = db.table("t", encoding="utf-8")
    table.put("straße", {"f:ü": "€"})
    assert table.row("straße") == {"f:ü": "€"}
    assert table.rows(["straße"]) == [("straße", {"f:ü": "€"})]
    assert table.row("straße", include_timestamp=True) == {"f:ü": ("€", 1)}
    both: list[Change] = [rowlock.Append("f:ü", "2"), rowlock.Increment("f:n"), rowlock.Put("f:p", "1")]
    assert table.mutate_row("straße", both) == ["€2", 1, None]
    result = table.check_and_mutate("straße", [rowlock.Check("f:no", None)], both)
    assert (result.results, result.stored_results) == (["€22", 2, None], ["€22".encode(), 2, None])


def test_results_are_told_of_changes_that_can_be_gone_through_once(db: rowlock.Client) -> None:
    table = db.table("t")
    assert table.mutate_row("row", (rowlock.Increment("f:n") for _ in range(2))) == [1, 2]
    result = table.check_and_mutate("row", [rowlock.Check("f:no", None)], (rowlock.Increment("f:n") for _ in range(1)))
    assert result.results == [3]


def test_what_is_not_text_is_str_in_a_table_with_an_encoding_and_becomes_the_same_bytes_again(
    db: rowlock.Client,
) -> None:
    """In whatever is read, seen or answered; each byte that is not UTF-8 as a lone surrogate."""
    plain, table = db.table("t"), db.table("t", encoding="utf-8")
    odd, stored = "ä\udcff", "ä".encode() + b"\xff"
    plain.put(stored, {b"f:" + stored: stored})
    assert table.row(odd) == {f"f:{odd}": odd}
    assert table.row(odd, include_timestamp=True) == {f"f:{odd}": (odd, 1)}
    assert table.rows([odd, stored]) == [(odd, {f"f:{odd}": odd})] * 2
    assert table.cells(odd, f"f:{odd}") == [(odd, 1)]
    seen = table.check_and_put(odd, f"f:{odd}", odd, {f"f:{odd}": odd + "+"})
    assert (seen.applied, seen.current, seen.seen) == (True, odd, {f"f:{odd}": odd})
    assert seen.stored == {b"f:" + stored: stored}
    assert table.append(odd, f"f:{odd}", odd) == f"{odd}+{odd}"
    both: list[Change] = [rowlock.Increment("f:n"), rowlock.Append(f"f:{odd}", odd)]
    assert table.mutate_row(odd, both) == [1, f"{odd}+{odd}{odd}"]
    made = table.check_and_mutate(odd, [rowlock.Check("f:none", None)], both)
    assert made.results == [2, f"{odd}+{odd}{odd}{odd}"]
    assert plain.row(stored)[b"f:" + stored] == stored + b"+" + 3 * stored


def test_a_counter_of_any_size_is_read_with_its_row(db: rowlock.Client) -> None:
    for table in (db.table("t", encoding="utf-8"), db.table("t")):
        for amount in (1, 126, 1, 127, 1 << 40, -(1 << 62)):
            number = table.increment("row", "f:n", amount)
            [value] = table.row("row").values()
            assert rowlock.counter_value(value) == number == table.counter("row", "f:n")
    with pytest.raises(rowlock.NotACounterError, match="the value has 1 bytes, and a counter has 8"):
        rowlock.counter_value("x")
    db.table("t").put("row", {"f:n": "text"})
    with pytest.raises(rowlock.NotACounterError, match=r"b'f':b'n' of row b'row': the value has 4 bytes"):
        db.table("t").counter("row", "f:n")


def test_text_that_is_neither_bytes_nor_utf_8_is_refused(db: rowlock.Client) -> None:
    """A surrogate that stands for no byte."""
    with pytest.raises(UnicodeEncodeError):
        db.table("t", encoding="utf-8").put("row", {"f:q": "\ud800"})


def test_what_checks_saw_is_text_in_a_table_with_an_encoding(db: rowlock.Client) -> None:
    table = db.table("t", encoding="utf-8")
    table.put("row", {"f:a": "€"})
    result = table.check_and_mutate(
        "row", [rowlock.Check("f:a", "€"), rowlock.Check("f:b", None)], [rowlock.Append("f:a", "x")]
    )
    assert (result.current, result.seen) == ("€", {"f:a": "€", "f:b": None})
    assert table.append("row", "f:a", "y") == "€xy"


@pytest.mark.parametrize("mishap", [Mishap.ANSWER_IS_LOST, Mishap.REQUEST_IS_LOST])
def test_a_change_is_sent_again_over_a_new_stream_and_applies_once(
    db: rowlock.Client, fake_server: FakeServer, mishap: Mishap
) -> None:
    fake_server.script.extend([mishap, mishap])
    assert db.table("t").increment("row", "f:n", 5) == 5
    assert fake_server.stream_count == 3
    assert [request.mutate.mutations[0].sequence for request in fake_server.requests] == [1, 1, 1]
    # The first attempt, or the third, applied; the others were repetitions, or never arrived.
    assert fake_server.repeated_count == (2 if mishap is Mishap.ANSWER_IS_LOST else 0)
    assert db.table("t").counter("row", "f:n") == 5


def test_everything_in_flight_is_sent_again_when_the_stream_is_lost(
    db: rowlock.Client, fake_server: FakeServer
) -> None:
    table = db.table("t")
    fake_server.script.extend([Mishap.NO_ANSWER] * 7 + [Mishap.ANSWER_IS_LOST])
    with ThreadPoolExecutor(8) as threads:
        numbers = list(threads.map(lambda _: table.increment("row", "f:n"), range(8)))
    assert sorted(numbers) == list(range(1, 9))
    assert table.counter("row", "f:n") == 8


def test_a_change_without_an_answer_ends_in_an_unknown_outcome(db: rowlock.Client, fake_server: FakeServer) -> None:
    table = connected(db)
    fake_server.script.append(Mishap.NO_ANSWER)
    with pytest.raises(rowlock.UnknownOutcomeError):
        table.with_options(timeout=1).put("row", {"f:q": "1"})
    # The stream goes on, and the number that was given up is not waited for any more.
    table.put("row", {"f:q": "2"})
    assert fake_server.stream_count == 1
    assert fake_server.floors[-1] == 2


def test_a_read_without_an_answer_ends_in_a_deadline_error(db: rowlock.Client, fake_server: FakeServer) -> None:
    fake_server.script.append(Mishap.NO_ANSWER)
    began = time.monotonic()
    with pytest.raises(rowlock.DeadlineError) as caught:
        db.table("t", timeout=0.2).row("row")
    assert isinstance(caught.value, TimeoutError)
    assert time.monotonic() - began >= 0.2


def test_a_change_that_never_left_is_surely_not_made() -> None:
    server = FakeServer()
    with rowlock.connect(server.address, timeout=60) as db:
        table = connected(db)
        server.stop()
        # Until the client knows that its stream has ended, a change goes out on it, and is rightly in doubt.
        (stream,) = db._servers._streams.values()
        wait_until(lambda: stream._run is None)
        with pytest.raises(rowlock.DeadlineError, match="Nothing was changed"):
            table.with_options(timeout=0.3).put("row", {"f:q": "1"})


def test_a_change_that_left_before_the_server_died_is_in_doubt(fake_server: FakeServer) -> None:
    with rowlock.connect(fake_server.address, timeout=60) as db:
        table = connected(db)
        fake_server.script.extend([Mishap.ANSWER_IS_LOST] * 50)
        with pytest.raises(rowlock.UnknownOutcomeError, match="met last: the connection") as caught:
            table.with_options(timeout=1).put("row", {"f:q": "1"})
        assert isinstance(caught.value.__cause__, rowlock.ServerUnavailableError)


def test_a_change_whose_last_attempt_is_not_answered_tells_what_it_met_before(
    db: rowlock.Client, fake_server: FakeServer
) -> None:
    table = connected(db)
    fake_server.script.extend([Mishap.ANSWER_IS_LOST, Mishap.NO_ANSWER])
    with pytest.raises(rowlock.UnknownOutcomeError, match="met last: the connection") as caught:
        table.with_options(timeout=1).put("row", {"f:q": "1"})
    assert isinstance(caught.value.__cause__, rowlock.ServerUnavailableError)


def test_a_busy_server_is_asked_again_after_the_pause_it_named(db: rowlock.Client, fake_server: FakeServer) -> None:
    fake_server.script.extend([error(Error.REGION_TOO_BUSY, retry_after_ms=300), error(Error.DISK_FULL)])
    began = time.monotonic()
    db.table("t").put("row", {"f:q": "1"})
    assert time.monotonic() - began >= 0.3
    assert db.table("t").row("row") == {b"f:q": b"1"}


def test_a_server_that_stays_busy_is_told_as_it_is(db: rowlock.Client, fake_server: FakeServer) -> None:
    fake_server.script.extend([error(Error.DISK_FULL, retry_after_ms=10)] * 3)
    # Longer than the call may take: it ends here, however fast the machine is.
    fake_server.script.append(error(Error.DISK_FULL, "no space left", retry_after_ms=600_000))
    with pytest.raises(rowlock.DiskFullError, match="no space left") as caught:
        db.table("t", timeout=60).put("row", {"f:q": "1"})
    assert not fake_server.script
    assert caught.value.can_retry
    assert caught.value.retry_after_ms == 600_000
    assert fake_server.rows == {}


def test_a_region_that_moved_is_looked_up_again(db: rowlock.Client, fake_server: FakeServer) -> None:
    table = db.table("t")
    table.put("row", {"f:q": "1"})
    assert fake_server.locate_count == 1
    fake_server.region_id = 2
    table.put("row", {"f:q": "2"})
    assert fake_server.locate_count == 2
    assert table.row("row") == {b"f:q": b"2"}
    assert fake_server.locate_count == 2


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (Error.INVALID_ARGUMENT, rowlock.InvalidArgumentError),
        (Error.LIMIT_EXCEEDED, rowlock.LimitExceededError),
        (Error.FAMILY_NOT_FOUND, rowlock.FamilyNotFoundError),
        (Error.NOT_A_COUNTER, rowlock.NotACounterError),
        (Error.CORRUPTION, rowlock.CorruptionError),
        (Error.DEADLINE_EXCEEDED, rowlock.DeadlineError),
    ],
)
def test_refusals_are_raised_at_once(
    db: rowlock.Client, fake_server: FakeServer, code: Error.Code, kind: type[rowlock.RowlockError]
) -> None:
    fake_server.script.append(error(code, "because"))
    with pytest.raises(kind, match="because") as caught:
        db.table("t").increment("row", "f:n")
    assert type(caught.value) is kind
    assert len(fake_server.requests) == 1


def test_a_servers_own_failure_leaves_a_change_in_doubt_and_a_read_not(
    db: rowlock.Client, fake_server: FakeServer
) -> None:
    fake_server.script.extend([error(Error.INTERNAL, "a bug"), error(Error.INTERNAL, "a bug")])
    with pytest.raises(rowlock.UnknownOutcomeError, match="a bug"):
        db.table("t").put("row", {"f:q": "1"})
    with pytest.raises(rowlock.ServerError, match="a bug"):
        db.table("t").row("row")


def test_an_unknown_outcome_at_the_server_is_asked_for_again(db: rowlock.Client, fake_server: FakeServer) -> None:
    fake_server.script.append(error(Error.UNKNOWN_OUTCOME))
    assert db.table("t").increment("row", "f:n") == 1


def test_a_refusal_after_a_lost_answer_does_not_promise_that_nothing_was_changed(
    db: rowlock.Client, fake_server: FakeServer
) -> None:
    fake_server.script.extend([Mishap.ANSWER_IS_LOST, error(Error.TABLE_NOT_FOUND, "dropped meanwhile")])
    with pytest.raises(rowlock.UnknownOutcomeError, match="dropped meanwhile") as caught:
        db.table("t").put("row", {"f:q": "1"})
    assert isinstance(caught.value.__cause__, rowlock.TableNotFoundError)


def test_a_very_long_timeout_is_one(db: rowlock.Client, fake_server: FakeServer) -> None:
    db.table("t", timeout=1e9).put("row", {"f:q": "1"})
    assert fake_server.requests[0].timeout_ms == (1 << 32) - 1


def test_what_threads_have_waiting_travels_together(db: rowlock.Client, fake_server: FakeServer) -> None:
    table = db.table("t")
    with ThreadPoolExecutor(32) as threads:
        for _ in range(10):
            list(threads.map(lambda number: table.put(f"row{number}", {"f:q": "1"}), range(32)))
    assert sum(fake_server.message_sizes) == 320
    assert len(fake_server.message_sizes) < 320, "every request travelled alone"
    assert fake_server.stream_count == 1


def test_the_floor_is_the_lowest_number_waited_for(db: rowlock.Client, fake_server: FakeServer) -> None:
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
        outcome.result(timeout=60)
    waiting.shutdown()


def test_an_interrupted_wait_leaves_the_stream_to_the_others(db: rowlock.Client, fake_server: FakeServer) -> None:
    table = db.table("t", timeout=30)
    table.row("row")
    fake_server.script.append(Mishap.NO_ANSWER)

    def interrupt_when_sent() -> None:
        fake_server.wait_until(lambda server: len(server.requests) == 2)
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
def test_a_change_in_doubt_stays_so_when_the_client_is_closed_before_it_is_sent_again(
    db: rowlock.Client, fake_server: FakeServer, monkeypatch: pytest.MonkeyPatch, is_region_known: bool
) -> None:
    def close() -> None:
        db.close()
        if not is_region_known:
            db._servers.regions.forget_table("t")

    table = connected(db)
    in_each_pause(monkeypatch, close)
    fake_server.script.append(Mishap.ANSWER_IS_LOST)
    with pytest.raises(rowlock.UnknownOutcomeError, match="met last: the client was closed") as caught:
        table.increment("row", "f:n")
    assert isinstance(caught.value.__cause__, rowlock.ClosedError)
    assert fake_server.rows[b"row"][(b"f", b"n")] == (1).to_bytes(8, "big")


def test_a_change_that_was_refused_and_not_sent_again_is_surely_not_made_when_the_client_is_closed(
    db: rowlock.Client, fake_server: FakeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = connected(db)
    in_each_pause(monkeypatch, db.close)
    fake_server.script.append(error(Error.REGION_TOO_BUSY))
    with pytest.raises(rowlock.ClosedError):
        table.increment("row", "f:n")
    assert fake_server.rows == {}


def test_a_channel_that_is_closed_before_a_stream_is_opened_on_it_is_a_closed_client(db: rowlock.Client) -> None:
    table = db.table("t")
    db._servers.region_of("t", b"row", time.monotonic() + 60)
    (channel,) = db._servers._channels.values()
    channel.close()
    with pytest.raises(rowlock.ClosedError):
        table.put("row", {"f:q": "1"})
    with pytest.raises(rowlock.ClosedError):
        table.put_arrow(pa.table({"k": ["x"], "v": ["1"]}), "k STRING :key, v STRING f:v")


def test_a_stream_whose_thread_can_not_be_started_is_opened_anew(db: rowlock.Client, fake_server: FakeServer) -> None:
    def start(thread: threading.Thread) -> None:
        if thread.name == "rowlock answers":
            raise RuntimeError("can't start new thread")
        start_thread(thread)

    table, start_thread = db.table("t"), threading.Thread.start
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(threading.Thread, "start", start)
        with pytest.raises(RuntimeError, match="can't start new thread"):
            table.put("row", {"f:q": "1"})
    table.put("other", {"f:q": "1"})
    assert set(fake_server.rows) == {b"other"}


def test_in_the_child_of_a_fork_no_lock_is_the_parents(monkeypatch: pytest.MonkeyPatch) -> None:
    servers, asyncio_servers = Servers(("127.0.0.1:1",)), AsyncioServers(("127.0.0.1:1",))
    # And not what other tests left: there is no fork.
    monkeypatch.setattr(fork, "_survivors", weakref.WeakSet([servers, asyncio_servers]))
    parents = (servers.regions._lock, asyncio_servers.regions._lock, fork._register_lock)
    for lock in parents:
        lock.acquire()
    try:
        fork._after_fork_in_child()
        for owned in (servers.regions._lock, asyncio_servers.regions._lock, fork._register_lock):
            assert owned not in parents
    finally:
        for lock in parents:
            lock.release()


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


def test_an_admin_change_whose_answer_is_lost_is_never_sent_again(db: rowlock.Client, fake_server: FakeServer) -> None:
    with pytest.raises(rowlock.UnknownOutcomeError, match="connection broke"):
        db.drop_table("t")
    assert fake_server.dropped == ["t"]


def test_what_is_done_with_a_whole_table_may_take_longer_than_other_calls(fake_server: FakeServer) -> None:
    with rowlock.connect(fake_server.address, timeout=5) as db:
        assert db.flush("t").cell_count == 1
        with pytest.raises(rowlock.UnknownOutcomeError, match="may still be at it"):
            db.drop_table("t")
        db.flush("t", timeout=50)
    assert [round(work_s or 0, -1) for work_s in fake_server.work_s] == [600, 600, 50]


def test_who_stops_waiting_for_a_flush_is_told_that_it_goes_on(db: rowlock.Client, fake_server: FakeServer) -> None:
    fake_server.goes_on.clear()
    with pytest.raises(
        rowlock.DeadlineError, match=r"not done within 0\.2 s .* a later flush of the table waits for it"
    ):
        db.flush("t", timeout=0.2)
    fake_server.goes_on.set()
    assert db.flush("t").store_file_count == 1


def test_what_answers_must_speak_the_same_protocol(fake_server: FakeServer) -> None:
    fake_server.protocol = 2
    with pytest.raises(rowlock.InvalidArgumentError, match="protocol 2"):
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
