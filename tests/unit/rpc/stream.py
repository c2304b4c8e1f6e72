"""The client's end of a point stream, and requests to send on it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from rowlock_proto.v1 import region_pb2, types_pb2
from rowlock_regionserver.clock import ManualClock
from rowlock_regionserver.config import Config
from rowlock_regionserver.engine.points import Points
from rowlock_regionserver.engine.workers import Workers
from rowlock_regionserver.ledger import Ledger
from rowlock_regionserver.rpc.services.conversation import Conversation

from tests.unit.engine.fakes import REGION_ID, FakeRegion

Answers = list[region_pb2.PointAnswer]


class HurryingClock(ManualClock):
    """Whoever looks at it has held the loop for as long as he may: the loop turns after each request."""

    def monotonic(self) -> float:
        self.advance(10)
        return super().monotonic()


class Client:
    """The client's end of a stream: the messages written to it."""

    def __init__(
        self, region: FakeRegion, workers: Workers, config: Config, clock: ManualClock, points: Points | None = None
    ) -> None:
        """points: of another client, to share its bounds; None: of its own."""
        self.clock = clock
        self.open_calls = 1
        self.ledger = Ledger(config)
        self.points = points or Points(region.region, workers, config, self.clock, self.ledger, lambda: self.open_calls)
        self.messages: list[Answers] = []
        self._arrived = asyncio.Event()
        self.may_write = asyncio.Event()
        self.may_write.set()
        self.conversation = Conversation(self.points, self._write)

    async def _write(self, data: bytes) -> None:
        await self.may_write.wait()
        self.messages.append(list(region_pb2.PointAnswers.FromString(data).answers))
        self._arrived.set()

    @property
    def answers(self) -> dict[int, region_pb2.PointAnswer]:
        return {answer.id: answer for message in self.messages for answer in message}

    async def send(self, *requests: region_pb2.PointRequest, client_id: bytes = b"", sequence_floor: int = 0) -> None:
        message = region_pb2.PointRequests(client_id=client_id, sequence_floor=sequence_floor, requests=requests)
        await self.conversation.take(message.SerializeToString())

    async def until(self, *ids: int) -> None:
        """Waits until these requests are answered."""
        while not set(ids) <= self.answers.keys():
            self._arrived.clear()
            await self._arrived.wait()


def get(request_id: int, row: bytes, timeout_ms: int = 0, region_id: int = REGION_ID) -> region_pb2.PointRequest:
    get = region_pb2.Get(rows=[row])
    return region_pb2.PointRequest(id=request_id, region_id=region_id, timeout_ms=timeout_ms, get=get)


def put(request_id: int, *rows: bytes, timeout_ms: int = 0) -> region_pb2.PointRequest:
    change = types_pb2.Change(put=types_pb2.Put(family=b"f", qualifier=b"q", value=b"v"))
    mutations = [region_pb2.RowMutation(row=row, changes=[change] if row != b"bad" else []) for row in rows]
    for mutation in mutations:
        if mutation.row == b"bad":
            mutation.changes.append(types_pb2.Change())
    return region_pb2.PointRequest(
        id=request_id, region_id=REGION_ID, timeout_ms=timeout_ms, mutate=region_pb2.Mutate(mutations=mutations)
    )


Run = Callable[[Callable[[Client], Awaitable[None]]], None]
