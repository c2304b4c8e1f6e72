"""Bulk batches of a real server on direct connections: the same rows as by gRPC, little memory, forks, restarts."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pytest
import rowlock
import rowlock.aio
from rowlock_regionserver.config import MIB
from rowlock_regionserver.memory_plan import planned
from rowlock_regionserver.server import Server

from tests.end_to_end.server_command import ServerCommand
from tests.waiting import wait_until

MAPPING = "k BINARY :key, v BINARY f:v"
ROW_COUNT = 20_000


def data(first: int = 0, count: int = ROW_COUNT, value_bytes: int = 1000) -> pa.Table:
    keys = [b"%08d" % number for number in range(first, first + count)]
    return pa.table({"k": pa.array(keys, pa.binary()), "v": pa.array([os.urandom(value_bytes)] * count, pa.binary())})


@pytest.fixture
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with Server(tmp_path_factory.mktemp("server") / "data") as server:
        yield server


def streams_of(db: rowlock.Client | rowlock.aio.Client) -> tuple[int, int, int]:
    """Returns how many streams went directly and by gRPC, and how many connections they had."""
    [connection] = db.statistics().connections
    return connection.direct_bulk_streams, connection.grpc_bulk_streams, connection.bulk_connections


def direct_connections(server: Server) -> int:
    return server.statistics().direct.open_count


def test_batches_go_directly_and_write_the_same_as_by_grpc(server: Server) -> None:
    rows = data()
    with rowlock.connect(server.address, timeout=60) as db, rowlock.connect(server.address, timeout=60) as other:
        other._servers._is_direct = False
        for client, name in ((db, "direct"), (other, "grpc")):
            table = client.create_table(name, ["f"])
            for _ in range(2):
                assert table.put_arrow(rows, MAPPING, timestamp=5).row_count == ROW_COUNT
        assert (streams_of(db), streams_of(other)) == ((2, 0, 1), (0, 2, 0))
        found = [db.table(name).scan().to_arrow() for name in ("direct", "grpc")]
        assert found[0] == found[1]
        assert found[0].num_rows == ROW_COUNT
        wait_until(lambda: direct_connections(server) == 3)  # with that of the scan
    wait_until(lambda: not direct_connections(server))


def test_an_asyncio_client_sends_batches_directly_too(server: Server) -> None:
    async def run() -> None:
        async with rowlock.aio.connect(server.address, timeout=60) as db:
            table = await db.create_table("t", ["f"])
            results = await asyncio.gather(*(table.put_arrow(data(n * ROW_COUNT), MAPPING) for n in range(3)))
            assert [result.row_count for result in results] == [ROW_COUNT] * 3
            assert streams_of(db) == (3, 0, 3)
            assert len([row async for row, _ in table.scan(keys_only=True)]) == 3 * ROW_COUNT

    asyncio.run(run())
    wait_until(lambda: not direct_connections(server))


def test_many_clients_of_a_server_with_little_memory_write_everything(tmp_path_factory: pytest.TempPathFactory) -> None:
    config = planned({"memory": 64 * MIB}, 1024 * MIB)
    with (
        Server(tmp_path_factory.mktemp("server") / "data", config=config) as server,
        rowlock.connect(server.address, timeout=60) as db,
        ThreadPoolExecutor(8) as threads,
    ):
        table = db.create_table("t", ["f"], durability="os")
        writes = [threads.submit(table.put_arrow, data(n * ROW_COUNT), MAPPING) for n in range(8)]
        assert [write.result().row_count for write in writes] == [ROW_COUNT] * 8
        assert streams_of(db)[1] == 0
        assert sum(1 for _ in table.scan(keys_only=True)) == 8 * ROW_COUNT
        db.flush("t")
        wait_until(lambda: server.region_server.ledger.requests.bytes_held == 0)


def test_closing_the_client_ends_a_stream_of_another_thread(server: Server) -> None:
    started = threading.Event()

    def batches() -> Iterator[pa.RecordBatch]:
        for number in range(1_000_000):
            yield from data(100 * number, 100).to_batches()
            started.set()

    with rowlock.connect(server.address, timeout=60) as db, ThreadPoolExecutor(1) as threads:
        table = db.create_table("t", ["f"])
        writing = threads.submit(table.put_arrow, batches(), MAPPING)
        assert started.wait(60)
        db.close()
        with pytest.raises(rowlock.BulkError, match="the client was closed"):
            writing.result(60)
    wait_until(lambda: not direct_connections(server))


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_the_child_of_a_fork_leaves_the_connection_of_its_parent_alone(tmp_path: Path) -> None:
    with (
        ServerCommand("--data", tmp_path / "data", "--listen", "127.0.0.1:0") as server,
        rowlock.connect(server.ready(), timeout=60) as db,
    ):
        table = db.create_table("t", ["f"])
        table.put_arrow(data(0, 10), MAPPING)
        child = os.fork()
        if not child:
            with contextlib.suppress(BaseException):
                table.put_arrow(data(10, 10), MAPPING)
                is_well = streams_of(db) == (1, 0, 1)
                db.close()
                os._exit(0 if is_well else 1)
            os._exit(2)
        assert os.waitpid(child, 0)[1] == 0
        table.put_arrow(data(20, 10), MAPPING)
        assert streams_of(db) == (2, 0, 1)
        assert sum(1 for _ in table.scan()) == 30


def test_a_stream_goes_on_when_the_server_was_killed_and_started_again(tmp_path: Path) -> None:
    written: list[int] = []
    may_go_on = threading.Event()

    def batches() -> Iterator[pa.RecordBatch]:
        for number in range(20):
            if number == 10:
                assert may_go_on.wait(60)
            yield from data(1000 * number, 1000).to_batches()

    with ServerCommand("--data", tmp_path / "data", "--listen", "127.0.0.1:0") as server:
        address = server.ready()
        db = rowlock.connect(address, timeout=60)
        table = db.create_table("t", ["f"])
        threads = ThreadPoolExecutor(1)
        writing = threads.submit(table.put_arrow, batches(), MAPPING, on_progress=written.append)
        wait_until(lambda: bool(written))
        server.signal(signal.SIGKILL)
        server.process.wait()
    may_go_on.set()
    with db, threads, ServerCommand("--data", tmp_path / "data", "--listen", address) as server:
        assert server.ready() == address
        assert writing.result(60).row_count == 20_000
        assert sum(1 for _ in table.scan(keys_only=True)) == 20_000
        assert streams_of(db)[0] > 1
