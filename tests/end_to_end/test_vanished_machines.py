"""A machine that vanished closes no connection: each side sends keepalive pings."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import rowlock
import rowlock.aio
from rowlock._transport import channels
from rowlock_proto.v1 import region_pb2
from rowlock_regionserver.rpc.grpc import listener as door
from rowlock_regionserver.server import Server

from tests.consistency.live_server import free_address
from tests.end_to_end.lossy_proxy import LossyProxy
from tests.end_to_end.raw_client import RawClient, RawConversation, get, put
from tests.end_to_end.server_command import ServerCommand
from tests.waiting import wait_until

# Much longer than a vanished server takes to be noticed here, much shorter than the calls' own deadline.
NOTICED_S = 60.0
DEADLINE_S = 600.0
ROW_COUNT = 4000


@pytest.fixture(autouse=True)
def _ask_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    for side in (channels, door):
        monkeypatch.setattr(side, "KEEPALIVE_MS", 300)
        monkeypatch.setattr(side, "KEEPALIVE_TIMEOUT_MS", 3000)


class Proxies:
    """The ways to a server that advertises only these: gRPC's, and perhaps one for direct connections."""

    def __init__(self, grpc: LossyProxy, direct: LossyProxy | None) -> None:
        self._all = [proxy for proxy in (grpc, direct) if proxy is not None]
        self.address = grpc.address
        self.is_direct = direct is not None

    def vanish(self) -> None:
        """Makes the server silent on the existing connections."""
        for proxy in self._all:
            proxy.vanish()

    def check_way(self, statistics: rowlock.ClientStatistics) -> None:
        """Checks which way point operations have gone."""
        [connection] = statistics.connections
        assert (connection.direct_requests > 0, connection.grpc_requests > 0) == (self.is_direct, not self.is_direct)


@pytest.fixture(params=["grpc", "direct"])
def proxy(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Proxies]:
    """The proxies of a server."""
    with contextlib.ExitStack() as closing:
        grpc = LossyProxy()
        closing.callback(grpc.close)
        words = ["--data", str(tmp_path / "data"), "--listen", "127.0.0.1:0", "--advertise", grpc.address]
        direct = None
        if request.param == "direct":
            direct = LossyProxy()
            closing.callback(direct.close)
            behind = free_address()
            direct.stand_before(behind)
            words += ["--direct", behind, "--advertise-direct", direct.address]
        server = closing.enter_context(ServerCommand(*words))
        grpc.stand_before(server.ready())
        yield Proxies(grpc, direct)


def test_a_call_goes_to_another_connection_when_the_server_vanished(proxy: Proxies) -> None:
    with rowlock.connect(proxy.address, timeout=DEADLINE_S) as db:
        table = db.create_table("t", ["f"])
        table.increment("r", "f:n")
        proxy.vanish()
        started = time.monotonic()
        assert table.increment("r", "f:n") == 2
        assert time.monotonic() - started < NOTICED_S
        proxy.check_way(db.statistics())


def test_a_scan_resumes_when_the_server_vanished(proxy: Proxies) -> None:
    with rowlock.connect(proxy.address, timeout=DEADLINE_S) as db:
        scan = iter(filled(db).scan())
        rows = [next(scan)[0]]
        proxy.vanish()
        started = time.monotonic()
        rows.extend(row for row, _ in scan)
        assert time.monotonic() - started < NOTICED_S
        assert rows == [b"%04d" % i for i in range(ROW_COUNT)]


def test_an_asyncio_call_goes_to_another_connection_when_the_server_vanished(proxy: Proxies) -> None:
    async def run() -> float:
        async with rowlock.aio.connect(proxy.address, timeout=DEADLINE_S) as db:
            table = await db.create_table("t", ["f"])
            await table.increment("r", "f:n")
            proxy.vanish()
            started = time.monotonic()
            assert await table.increment("r", "f:n") == 2
            proxy.check_way(db.statistics())
            return time.monotonic() - started

    assert asyncio.run(run()) < NOTICED_S


def test_streams_and_scans_of_a_client_that_vanished_end(tmp_path: Path) -> None:
    proxy = LossyProxy()
    with Server(tmp_path / "data") as server:
        proxy.stand_before(server.address)
        with RawClient(proxy.address) as client:
            region_id = client.create_table("t", b"f")
            for first in range(0, 5000, 1000):  # So many that the scan is not over when it is looked for.
                rows = [put(b"%04d" % i, b"v" * 10_000) for i in range(first, first + 1000)]
                mutate = region_pb2.Mutate(mutations=rows)
                client.regions.Mutate(region_pb2.MutateCall(region_id=region_id, mutate=mutate))
            conversation = RawConversation(client)
            conversation.ask(get(1, region_id, b"0000"))
            scan = client.regions.Scan(region_pb2.ScanRequest(region_id=region_id))
            next(iter(scan))
            (region,) = server.region_server.regions_of("t")
            assert server.statistics().region_service.conversations_open == 1
            assert region.statistics().mvcc.registered_readers == 1
            proxy.vanish()
            wait_until(lambda: server.statistics().region_service.conversations_open == 0)
            wait_until(lambda: region.statistics().mvcc.registered_readers == 0)
    proxy.close()


def filled(db: rowlock.Client) -> rowlock.Table[bytes]:
    """A table with more data than a scan's connection buffers."""
    table = db.create_table("t", ["f"])
    with table.batch() as batch:
        for i in range(ROW_COUNT):
            batch.put(b"%04d" % i, {"f:q": b"v" * 4000})
    return table
