# Made from tests/unit/client/awaited/test_calls.py by tools/async_to_sync.py: change that, then `make faces`.
"""Point operations and calls against a server that loses, refuses and delays (threads)."""

from __future__ import annotations

import time

import pytest
import rowlock
from rowlock._core.features import VALUES_PROTOCOL
from rowlock._transport.servers import Servers
from rowlock.changes import Change
from rowlock_proto.v1 import region_pb2, types_pb2

from tests.unit.client.fake_errors import Mishap, error
from tests.unit.client.fake_server import FakeServer

BOTH_WAYS = True
Error = types_pb2.Error


def connected(db: rowlock.Client) -> rowlock.Table[bytes]:
    """Returns a table whose region is cached and whose stream is open, so that even a very short call is sent."""
    table = db.table("t", timeout=60)
    table.row("row")
    return table


def test_a_put_is_read_again(db: rowlock.Client) -> None:
    table = db.table("t")
    table.put("row", {"f:q": "value", "f:": b""})
    assert table.row("row") == {b"f:q": b"value", b"f:": b""}
    assert table.row("absent") == {}
    assert table.rows(["absent", "row", "row"])[1:] == [(b"row", {b"f:q": b"value", b"f:": b""})] * 2


def test_a_put_reaches_a_server_that_is_of_an_earlier_version_now(
    db: rowlock.Client, servers: Servers, fake_server: FakeServer
) -> None:
    table = connected(db)
    servers.protocols[servers.catalog_address] = VALUES_PROTOCOL
    fake_server.script.append(error(Error.INVALID_ARGUMENT, "the mutation has no change"))
    table.put("row", {"f:q": "value"})
    assert not fake_server.script
    assert not servers.takes_values
    assert table.row("row") == {b"f:q": b"value"}


def test_an_unanswered_call_says_where_the_server_s_address_is_from(
    db: rowlock.Client, servers: Servers, fake_server: FakeServer
) -> None:
    table = connected(db)
    fake_server.script.append(Mishap.NO_ANSWER)
    with pytest.raises(rowlock.DeadlineError, match=r"\Ano answer within 0.1 s.\Z"):
        table.with_options(timeout=0.1).row("row")
    # As if another address had been given.
    servers.addresses = ("given:1",)
    fake_server.script.append(Mishap.NO_ANSWER)
    with pytest.raises(rowlock.DeadlineError) as raised:
        table.with_options(timeout=0.1).row("row")
    at = fake_server.address
    assert f"no answer within 0.1 s; {at} is the address that the server at given:1 gives to its" in str(raised.value)


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


def test_changes_may_be_an_iterator_and_have_results(db: rowlock.Client) -> None:
    table = db.table("t")
    assert table.mutate_row("row", (rowlock.Increment("f:n") for _ in range(2))) == [1, 2]
    result = table.check_and_mutate("row", [rowlock.Check("f:no", None)], (rowlock.Increment("f:n") for _ in range(1)))
    assert result.results == [3]


def test_bytes_that_are_not_text_are_str_in_a_table_with_an_encoding_and_round_trip(
    db: rowlock.Client,
) -> None:
    """In all results; each byte that is not UTF-8 becomes a lone surrogate."""
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
    with pytest.raises(rowlock.NotACounterError, match="a counter has 8 bytes, and the value has 1"):
        rowlock.counter_value("x")
    db.table("t").put("row", {"f:n": "text"})
    with pytest.raises(rowlock.NotACounterError, match=r"can't read f:n of row 'row' as a counter: .* the value has 4"):
        db.table("t").counter("row", "f:n")


def test_text_that_is_neither_bytes_nor_utf_8_is_refused(db: rowlock.Client) -> None:
    """A surrogate that represents no byte."""
    with pytest.raises(UnicodeEncodeError):
        db.table("t", encoding="utf-8").put("row", {"f:q": "\ud800"})


def test_values_seen_by_checks_are_text_in_a_table_with_an_encoding(db: rowlock.Client) -> None:
    table = db.table("t", encoding="utf-8")
    table.put("row", {"f:a": "€"})
    result = table.check_and_mutate(
        "row", [rowlock.Check("f:a", "€"), rowlock.Check("f:b", None)], [rowlock.Append("f:a", "x")]
    )
    assert (result.current, result.seen) == ("€", {"f:a": "€", "f:b": None})
    assert table.append("row", "f:a", "y") == "€xy"


@pytest.mark.parametrize("mishap", [Mishap.ANSWER_IS_LOST, Mishap.REQUEST_IS_LOST])
def test_a_call_of_a_procedure_is_sent_again_with_its_number(
    db: rowlock.Client, fake_server: FakeServer, mishap: Mishap
) -> None:
    fake_server.script.extend([mishap, mishap])
    table = db.table("t", durability="os")
    assert table.call("row", "count", "x") == b"1 x"
    assert [request.call.sequence for request in fake_server.requests] == [1, 1, 1]
    assert fake_server.repeated_count == (2 if mishap is Mishap.ANSWER_IS_LOST else 0)
    assert table.call("row", "count", b"y") == b"2 y"
    assert fake_server.requests[-1].call == region_pb2.CallProcedure(
        row=b"row", name="count", argument=b"y", sequence=2, durability=types_pb2.DURABILITY_OS
    )
    with pytest.raises(rowlock.ProcedureNotFoundError):
        table.call("row", "other")


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


def test_a_change_without_an_answer_ends_in_an_unknown_outcome(db: rowlock.Client, fake_server: FakeServer) -> None:
    table = connected(db)
    fake_server.script.append(Mishap.NO_ANSWER)
    with pytest.raises(rowlock.UnknownOutcomeError):
        table.with_options(timeout=1).put("row", {"f:q": "1"})
    # The stream continues, and the abandoned number is not in use any more.
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


def test_a_change_that_left_before_the_server_died_is_in_doubt(fake_server: FakeServer) -> None:
    with rowlock.connect(fake_server.address, timeout=60) as db:
        table = connected(db)
        fake_server.script.extend([Mishap.ANSWER_IS_LOST] * 50)
        with pytest.raises(rowlock.UnknownOutcomeError, match="last error: the connection") as caught:
            table.with_options(timeout=1).put("row", {"f:q": "1"})
        assert isinstance(caught.value.__cause__, rowlock.ServerUnavailableError)


def test_a_change_whose_last_attempt_is_not_answered_names_the_error_before(
    db: rowlock.Client, fake_server: FakeServer
) -> None:
    table = connected(db)
    fake_server.script.extend([Mishap.ANSWER_IS_LOST, Mishap.NO_ANSWER])
    with pytest.raises(rowlock.UnknownOutcomeError, match="last error: the connection") as caught:
        table.with_options(timeout=1).put("row", {"f:q": "1"})
    assert isinstance(caught.value.__cause__, rowlock.ServerUnavailableError)


def test_a_busy_server_is_retried_after_the_pause_that_it_requested(
    db: rowlock.Client, fake_server: FakeServer
) -> None:
    fake_server.script.extend([error(Error.REGION_TOO_BUSY, retry_after_ms=300), error(Error.DISK_FULL)])
    began = time.monotonic()
    db.table("t").put("row", {"f:q": "1"})
    assert time.monotonic() - began >= 0.3
    assert db.table("t").row("row") == {b"f:q": b"1"}


def test_a_server_that_stays_busy_is_reported_as_busy(db: rowlock.Client, fake_server: FakeServer) -> None:
    fake_server.script.extend([error(Error.DISK_FULL, retry_after_ms=10)] * 3)
    # Longer than the call's timeout: the call ends here, however fast the machine is.
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


def test_an_unknown_outcome_at_the_server_is_retried(db: rowlock.Client, fake_server: FakeServer) -> None:
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


def test_an_admin_change_whose_answer_is_lost_is_never_sent_again(db: rowlock.Client, fake_server: FakeServer) -> None:
    with pytest.raises(rowlock.UnknownOutcomeError, match="connection broke"):
        db.drop_table("t")
    assert fake_server.dropped == ["t"]


def test_operations_on_a_whole_table_may_take_longer_than_other_calls(fake_server: FakeServer) -> None:
    with rowlock.connect(fake_server.address, timeout=5, lock_wait_s=100, lock_retries=0) as db:
        assert db.flush("t").cell_count == 1
        with pytest.raises(rowlock.UnknownOutcomeError, match="may still be working on it"):
            db.drop_table("t")
        db.flush("t", timeout=50)
    assert [round(work_s or 0, -1) for work_s in fake_server.work_s] == [600, 700, 50]


def test_a_flush_that_times_out_raises_an_error_that_says_it_continues(
    db: rowlock.Client, fake_server: FakeServer
) -> None:
    fake_server.goes_on.clear()
    with pytest.raises(
        rowlock.DeadlineError, match=r"did not end within 0\.2 s .* a later flush of the table waits for it"
    ):
        db.flush("t", timeout=0.2)
    fake_server.goes_on.set()
    assert db.flush("t").store_file_count == 1


def test_a_conditional_delete_takes_a_list_of_columns_and_not_one(db: rowlock.Client, fake_server: FakeServer) -> None:
    with pytest.raises(TypeError, match="a list of columns, not one"):
        db.table("t").check_and_delete("row", "f:q", "1", "ab")
    assert fake_server.requests == []
