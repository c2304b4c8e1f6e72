"""A change in doubt carries its age, and is not repeated when the server may have forgotten it (asyncio)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pyarrow as pa
import pytest
import rowlock

from tests.unit.client.fake_errors import Mishap
from tests.unit.client.fake_server import FakeServer
from tests.unit.client.pauses import in_each_pause

MAPPING = "k STRING :key, v STRING f:v"
BOTH_WAYS = True
DATA = pa.table({"k": ["a", "b"], "v": ["1", "2"]})


async def increment(db: rowlock.aio.Client) -> None:
    await db.table("t").increment("row", "f:n")


async def call(db: rowlock.aio.Client) -> None:
    await db.table("t").call("row", "count")


async def send_batch(db: rowlock.aio.Client) -> None:
    async with db.table("t").batch() as batch:
        await batch.put("a", {"f:q": "1"})
        await batch.put("b", {"f:q": "2"})


async def put_arrow(db: rowlock.aio.Client) -> None:
    await db.table("t").put_arrow(DATA, mapping=MAPPING)


Change = Callable[[rowlock.aio.Client], Awaitable[object]]
CHANGES: list[Change] = [increment, call, send_batch, put_arrow]


async def make(server: FakeServer, change: Change) -> None:
    async with rowlock.aio.connect(server.address, timeout=60) as db:
        await change(db)


def ages(server: FakeServer) -> list[set[int]]:
    """Returns the age in each attempt, in ms."""
    bulk = [{batch.age_ms} for batch in server.bulks]
    return bulk or [
        {request.call.age_ms}
        if request.HasField("call")
        else {mutation.age_ms for mutation in request.mutate.mutations}
        for request in server.requests
    ]


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """A clock of the client, in seconds, which the test sets by hand."""
    moment = [1000.0]
    for module in ("_core.retry", "_core.batch_send", "_transport.servers", "aio._transport.servers"):
        monkeypatch.setattr(f"rowlock.{module}.uptime_s", lambda: moment[0])
    return moment


def later(clock: list[float], seconds: float) -> None:
    clock[0] += seconds


@pytest.mark.parametrize("change", CHANGES)
async def test_a_repeated_change_carries_its_age(
    fake_server: FakeServer, monkeypatch: pytest.MonkeyPatch, clock: list[float], change: Change
) -> None:
    fake_server.script.extend([Mishap.ANSWER_IS_LOST] * 2)
    fake_server.bulk_script.extend([Mishap.ANSWER_IS_LOST] * 2)
    in_each_pause(monkeypatch, lambda: later(clock, 20 / (2 if change is send_batch else 1)))
    await make(fake_server, change)
    assert ages(fake_server) == [{0}, {20_000}, {40_000}]


@pytest.mark.parametrize("change", CHANGES)
async def test_a_change_in_doubt_is_not_repeated_after_half_of_the_servers_memory(
    fake_server: FakeServer, monkeypatch: pytest.MonkeyPatch, clock: list[float], change: Change
) -> None:
    """For example after the machine was suspended; the call's deadline has not passed."""
    fake_server.remembered_ms = 600_000
    fake_server.script.append(Mishap.ANSWER_IS_LOST)
    fake_server.bulk_script.append(Mishap.ANSWER_IS_LOST)
    in_each_pause(monkeypatch, lambda: later(clock, 301))
    with pytest.raises((rowlock.UnknownOutcomeError, rowlock.BatchError, rowlock.BulkError)) as caught:
        await make(fake_server, change)
    if isinstance(caught.value, rowlock.BatchError):
        assert [type(error) for _, error in caught.value.unknown] == [rowlock.UnknownOutcomeError] * 2
    if isinstance(caught.value, rowlock.BulkError):
        assert caught.value.unknown
    assert ages(fake_server) == [{0}]
