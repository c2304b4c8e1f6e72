"""Batches that are sent, dropped, lost and closed (asyncio)."""

from __future__ import annotations

import pytest
import rowlock

from tests.unit.client.fake_server import FakeServer, Mishap

BOTH_WAYS = True


async def test_a_batch_sends_when_full_and_at_the_end(db: rowlock.aio.Client, fake_server: FakeServer) -> None:
    async with db.table("t").batch(size=2) as batch:
        await batch.put("a", {"f:q": "1"})
        assert fake_server.rows == {}
        await batch.put("b", {"f:q": "2"})
        assert set(fake_server.rows) == {b"a", b"b"}
        await batch.increment("a", "f:n", 5)
        await batch.append("a", "f:q", "x")
        assert batch.applied_count == 3
        await batch.mutate_row("c", [rowlock.Put("f:q", "3")])
    assert set(fake_server.rows) == {b"a", b"b", b"c"}
    assert batch.applied_count == 4


async def test_an_exception_in_the_block_drops_what_is_unsent(db: rowlock.aio.Client, fake_server: FakeServer) -> None:
    batch = db.table("t").batch()

    async def fail_in_the_block() -> None:
        async with batch:
            await batch.put("a", {"f:q": "1"})
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await fail_in_the_block()
    await batch.send()
    assert fake_server.rows == {}


async def test_a_lost_batch_is_sent_again_and_applied_once(db: rowlock.aio.Client, fake_server: FakeServer) -> None:
    fake_server.script.append(Mishap.ANSWER_IS_LOST)
    async with db.table("t").batch() as batch:
        for _ in range(3):
            await batch.increment("a", "f:n")
            await batch.increment("b", "f:n")
    assert fake_server.repeated_count == 2
    assert await db.table("t").counter("a", "f:n") == 3


async def test_a_batch_of_a_closed_client_says_so(db: rowlock.aio.Client) -> None:
    batch = db.table("t").batch()
    await batch.increment("a", "f:n")
    await batch.increment("b", "f:n")
    await db.close()
    with pytest.raises(rowlock.ClosedError):
        await batch.send()
