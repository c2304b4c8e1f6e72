# Made from tests/unit/client/awaited/test_batches.py by tools/async_to_sync.py: change that, then `make faces`.
"""Batches that are sent, dropped, lost and closed (threads)."""

from __future__ import annotations

import pytest
import rowlock

from tests.unit.client.fake_server import FakeServer, Mishap

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
