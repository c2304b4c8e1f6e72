# Made from tests/unit/client/awaited/test_batches.py by tools/async_to_sync.py: change that, then `make faces`.
"""Batches that are sent, dropped, lost and closed (threads)."""

from __future__ import annotations

import pytest
import rowlock
from rowlock_proto.v1 import types_pb2

from tests.unit.client.fake_errors import Mishap, error
from tests.unit.client.fake_server import FakeServer
from tests.waiting import WAIT_S

BOTH_WAYS = True


def test_a_batch_sends_when_full_and_at_the_end(db: rowlock.Client, fake_server: FakeServer) -> None:
    with db.table("t").batch(size=2) as batch:
        batch.put("a", {"f:q": "1"})
        assert fake_server.rows == {}
        batch.put("b", {"f:q": "2"})
        assert set(fake_server.rows) == {b"a", b"b"}
        batch.increment("a", "f:n", 5)
        batch.append("a", "f:q", "x")
        assert batch.applied_count == 3
        batch.mutate_row("c", [rowlock.Put("f:q", "3")])
    assert set(fake_server.rows) == {b"a", b"b", b"c"}
    assert batch.applied_count == 4


def test_an_exception_in_the_block_drops_what_is_unsent(db: rowlock.Client, fake_server: FakeServer) -> None:
    batch = db.table("t").batch()

    def fail_in_the_block() -> None:
        with batch:
            batch.put("a", {"f:q": "1"})
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail_in_the_block()
    batch.send()
    assert fake_server.rows == {}


def test_a_lost_batch_is_sent_again_and_applied_once(db: rowlock.Client, fake_server: FakeServer) -> None:
    fake_server.script.append(Mishap.ANSWER_IS_LOST)
    with db.table("t").batch() as batch:
        for _ in range(3):
            batch.increment("a", "f:n")
            batch.increment("b", "f:n")
    assert fake_server.repeated_count == 2
    assert db.table("t").counter("a", "f:n") == 3


def test_a_batch_of_a_closed_client_says_so(db: rowlock.Client) -> None:
    batch = db.table("t").batch()
    batch.increment("a", "f:n")
    batch.increment("b", "f:n")
    db.close()
    with pytest.raises(rowlock.ClosedError):
        batch.send()


def test_many_puts_are_sent_in_columns_to_a_server_that_knows_them(fake_server: FakeServer) -> None:
    fake_server.protocol = 6
    with rowlock.connect(fake_server.address, timeout=WAIT_S) as db:
        for answers_together in (True, False):
            fake_server.answers_puts_together = answers_together
            with db.table("t").batch() as batch:
                for number in range(100):
                    batch.put(b"%03d" % number, {"f:q": "1", "f:r": "2"})
                batch.increment("counter", "f:n", 5)
            assert batch.applied_count == 101
    operations = [request.WhichOneof("operation") for request in fake_server.requests]
    assert operations == ["put_rows", "mutate"] * 2
    assert len(fake_server.rows) == 101
    assert fake_server.rows[b"007"] == {(b"f", b"q"): b"1", (b"f", b"r"): b"2"}


def test_puts_in_columns_whose_answer_is_lost_are_applied_once(fake_server: FakeServer) -> None:
    fake_server.protocol = 6
    fake_server.script.append(Mishap.ANSWER_IS_LOST)
    with rowlock.connect(fake_server.address, timeout=WAIT_S) as db:
        with db.table("t").batch() as batch:
            for number in range(100):
                batch.put(b"%03d" % number, {"f:q": "1"})
        assert batch.applied_count == 100
    assert fake_server.repeated_count == 100
    assert [request.WhichOneof("operation") for request in fake_server.requests] == ["put_rows", "mutate"]


def test_an_earlier_server_in_the_place_of_this_one_gets_mutations(fake_server: FakeServer) -> None:
    fake_server.protocol = 6
    with rowlock.connect(fake_server.address, timeout=WAIT_S) as db:
        fake_server.script.append(error(types_pb2.Error.INVALID_ARGUMENT, "request 1 has no operation"))
        with db.table("t").batch() as batch:
            for number in range(100):
                batch.put(b"%03d" % number, {"f:q": "1"})
        assert batch.applied_count == 100
    assert [request.WhichOneof("operation") for request in fake_server.requests] == ["put_rows", "mutate"]
