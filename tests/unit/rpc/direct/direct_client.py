"""The client's end of direct connections to a fake region, in one event loop with the server's end."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable
from typing import NoReturn, cast

from rowlock_proto.direct_frames import ANSWERS, END, HELLO, PREAMBLE, REQUESTS, FrameReader, frame
from rowlock_proto.v1 import direct_pb2, region_pb2, types_pb2
from rowlock_regionserver.clock import Clock, ManualClock
from rowlock_regionserver.config import Config
from rowlock_regionserver.engine.bulk_streams import BulkStreams
from rowlock_regionserver.engine.encoded_message import EncodedMessage
from rowlock_regionserver.engine.points import Points
from rowlock_regionserver.engine.scan_openings import ScanHost, ScanOpenings
from rowlock_regionserver.engine.scans import BatchSender, Scans
from rowlock_regionserver.engine.workers import Workers
from rowlock_regionserver.errors import NotServingRegionError
from rowlock_regionserver.ledger import Ledger
from rowlock_regionserver.operations import ScanPlan
from rowlock_regionserver.rpc.direct.clients import DirectClients
from rowlock_regionserver.rpc.direct.connection import DirectConnection
from rowlock_regionserver.rpc.direct.drop_log import DropLog
from rowlock_regionserver.rpc.direct.service import DirectService
from rowlock_regionserver.rpc.direct.turn import Turn
from rowlock_regionserver.rpc.messages.failures import parsed
from rowlock_regionserver.rpc.services.bulk_calls import BulkCalls
from rowlock_regionserver.rpc.services.large_message import INLINE_MESSAGE_BYTES_MAX

from tests.unit.engine.fakes import FakeRegion
from tests.unit.engine.loops import until
from tests.unit.rpc.stream import put

BUFFER_BYTES = 16 * 1024


class NoRegions:
    """The host of scans: random bytes may open one."""

    def region(self, region_id: int) -> NoReturn:
        raise NotServingRegionError(f"region {region_id} has no rows to scan")

    def region_at(self, region_id: int, snapshot_id: bytes) -> NoReturn:
        self.region(region_id)


class Port:
    """A direct port of a server with one fake region. Only connections for scans scan it."""

    def __init__(self, region: FakeRegion, workers: Workers, config: Config, clock: Clock | None = None) -> None:
        self.clock = clock or ManualClock()
        self.ledger = Ledger(config)
        self.counts: list[int] = []
        self.points = Points(region.region, workers, config, self.clock, self.ledger, lambda: self.clients.open_count)
        self.scans = Scans(workers, self.points.slow_calls, config, self.clock, self.ledger)
        self.bulk = BulkStreams(region.region, self.points.slow_calls, workers, self.ledger, config, self.clock)
        self.points.openings = ScanOpenings(cast("ScanHost", NoRegions()), self.scans)
        self._region = region
        self.batch: EncodedMessage = b"rows"
        self.clients = DirectClients(config, self.clock, self.counts.append)
        self.log = DropLog(self.clock)
        self.ready_count = 1  # sockets, as the connections see it
        self.ready_counted = 0  # how often they looked
        self.turn = Turn(self.points, self._count_ready)
        self.service = DirectService(
            self.points,
            self.turn,
            self.ledger,
            self.clients,
            self.log,
            "folder",
            "run",
            self._serve_scan,
            BulkCalls(self.bulk, config),
        )
        self._open: list[DirectClient] = []

    def _count_ready(self) -> int:
        self.ready_counted += 1
        return self.ready_count

    async def _serve_scan(self, data: bytes, peer: str, write: BatchSender) -> None:
        """Serves as many equal batches as rows are requested; in reverse, each waits for the region's gate."""
        message = parsed(region_pb2.ScanRequest, data)
        plan = ScanPlan(row_limit=message.row_limit, reverse=message.reverse)
        await self.scans.serve(self._region, plan, lambda _answer, _read_point: self.batch, write)

    async def connect(self) -> DirectClient:
        """Returns a client that has sent nothing yet. The system's buffers are small."""
        ours, theirs = socket.socketpair()
        for end in (ours, theirs):
            end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, BUFFER_BYTES)
            end.setblocking(False)
        connection = DirectConnection(self.service)
        await asyncio.get_running_loop().connect_accepted_socket(lambda: connection, theirs)
        client = DirectClient(ours, connection)
        self._open.append(client)
        return client

    async def welcomed(self) -> DirectClient:
        """Returns a client that was welcomed."""
        client = await self.connect()
        await client.send(PREAMBLE + frame(HELLO, b""))
        assert not (await client.welcome()).HasField("error")
        return client

    async def welcomed_for_scans(self) -> DirectClient:
        """Returns a client whose connection is for scans, and that was welcomed."""
        client = await self.connect()
        await client.send(PREAMBLE + frame(HELLO, direct_pb2.DirectHello(scans=True).SerializeToString()))
        assert (await client.welcome()).protocol >= 2
        return client

    async def welcomed_for_bulk(self) -> DirectClient:
        """Returns a client whose connection is for bulk batches, and that was welcomed."""
        client = await self.connect()
        await client.send(PREAMBLE + frame(HELLO, direct_pb2.DirectHello(bulk=True).SerializeToString()))
        assert (await client.welcome()).protocol >= 3
        return client

    async def close(self) -> None:
        """Closes all connections. Nothing may be held for them afterwards."""
        for client in self._open:
            client.close()
        self.clients.drop_silent()
        await until(lambda: self.clients.open_count + self.clients.greeting_count == 0)
        await until(lambda: self.points.statistics().in_flight == 0)
        await until(lambda: self.scans.statistics().open_count == 0)
        await until(lambda: self.ledger.bytes_held == 0)
        self.ledger._check()


class DirectClient:
    """A client's end. `connection` is the server's."""

    def __init__(self, ours: socket.socket, connection: DirectConnection) -> None:
        self.connection = connection
        self.socket = ours
        self._loop = asyncio.get_running_loop()
        self._reader = FrameReader(1 << 30, memoryview(bytearray(1 << 16)))
        self.messages: list[list[region_pb2.PointAnswer]] = []
        self.end: types_pb2.Error | None = None

    async def send(self, data: bytes) -> None:
        await self._loop.sock_sendall(self.socket, data)

    def send_some(self, data: bytes) -> int:
        """Sends as much as the system takes at once."""
        try:
            return self.socket.send(data)
        except BlockingIOError:
            return 0

    async def ask(self, *requests: region_pb2.PointRequest) -> None:
        await self.send(requests_frame(*requests))

    async def frame(self) -> tuple[int, bytes] | None:
        """Returns the next frame; None at the end of the connection."""
        while (found := self._reader.next()) is None:
            if self._reader.large_bytes:
                self._reader.begin_large()
            try:
                count = await self._loop.sock_recv_into(self.socket, self._reader.room())
            except ConnectionResetError:
                return None
            if not count:
                return None
            self._reader.received(count)
        return found[0], bytes(found[1])

    async def welcome(self) -> direct_pb2.DirectWelcome:
        found = await self.frame()
        assert found is not None
        kind, body = found
        assert kind == HELLO
        return direct_pb2.DirectWelcome.FromString(body)

    async def until(self, *ids: int) -> None:
        """Reads until these requests are answered."""
        while not set(ids) <= self.answers.keys():
            found = await self.frame()
            assert found is not None, "the connection has ended"
            self._take(*found)

    async def rest(self) -> None:
        """Reads to the end of the connection."""
        while (found := await self.frame()) is not None:
            self._take(*found)

    def _take(self, kind: int, body: bytes) -> None:
        if kind == ANSWERS:
            self.messages.append(list(region_pb2.PointAnswers.FromString(body).answers))
        elif kind == END:
            assert self.end is None
            self.end = types_pb2.Error.FromString(body)
        else:
            raise AssertionError(f"a frame of kind {kind}")

    @property
    def answers(self) -> dict[int, region_pb2.PointAnswer]:
        return {answer.id: answer for message in self.messages for answer in message}

    def close(self) -> None:
        self.socket.close()


def requests_frame(*requests: region_pb2.PointRequest, client_id: bytes = b"") -> bytes:
    message = region_pb2.PointRequests(client_id=client_id, requests=requests)
    return frame(REQUESTS, message.SerializeToString())


def large_requests(*requests: region_pb2.PointRequest) -> bytes:
    """A frame that is too large to be parsed on the loop."""
    padding = put(99, *[b"x" * 1000] * (INLINE_MESSAGE_BYTES_MAX // 1000))
    return requests_frame(*requests, padding)


async def turns(count: int = 20) -> None:
    """Lets the event loop turn a few times."""
    for _ in range(count):
        await asyncio.sleep(0)


RunPort = Callable[[Callable[[Port], Awaitable[None]]], None]
