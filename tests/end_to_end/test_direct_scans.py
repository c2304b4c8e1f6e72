"""Scans of a real server on direct connections: the same rows as by gRPC, early ends, forks, restarts."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from pathlib import Path

import pytest
import rowlock
import rowlock.aio
from rowlock_regionserver.rpc.direct import stream_connection
from rowlock_regionserver.rpc.direct.scan_connection import ScanConnection
from rowlock_regionserver.server import Server

from tests.end_to_end.server_command import ServerCommand
from tests.waiting import wait_until

ROW_COUNT = 3000
ROWS = [b"%04d" % number for number in range(ROW_COUNT)]
VALUE = b"v" * 4000


def fill(db: rowlock.Client) -> rowlock.Table[bytes]:
    """Makes a table with more data than the system and the server keep for a scan that is not read."""
    table = db.create_table("t", ["f"])
    with table.batch() as batch:
        for row in ROWS:
            batch.put(row, {"f:q": VALUE})
    return table


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with Server(tmp_path_factory.mktemp("server") / "data") as server:
        with rowlock.connect(server.address, timeout=60) as db:
            fill(db)
        yield server


@pytest.fixture
def db(server: Server) -> Iterator[rowlock.Client]:
    with rowlock.connect(server.address, timeout=60) as db:
        yield db


def scans_of(db: rowlock.Client | rowlock.aio.Client) -> tuple[int, int]:
    """Returns how many scans went directly, and by gRPC."""
    connection = connection_of(db)
    return connection.direct_scans, connection.grpc_scans


def connection_of(db: rowlock.Client | rowlock.aio.Client) -> rowlock.ConnectionStatistics:
    [connection] = db.statistics().connections
    return connection


def test_a_long_scan_goes_directly_and_has_the_same_rows_as_by_grpc(server: Server, db: rowlock.Client) -> None:
    direct = list(db.table("t").scan())
    assert direct == [(row, {b"f:q": VALUE}) for row in ROWS]
    assert scans_of(db) == (1, 0)
    with rowlock.connect(server.address, timeout=60) as other:
        other._servers._is_direct = False
        assert list(other.table("t").scan()) == direct
        assert other.table("t").scan().to_arrow() == db.table("t").scan().to_arrow()
        assert scans_of(other) == (0, 2)
    assert scans_of(db) == (2, 0)


def test_an_asyncio_client_scans_directly_too_and_a_dropped_scan_ends(server: Server) -> None:
    async def run() -> None:
        async with rowlock.aio.connect(server.address, timeout=60) as db:
            assert [row async for row, _ in db.table("t").scan()] == ROWS
            assert scans_of(db) == (1, 0)
            for is_closed in (True, False):
                scan = small_batches(db)
                await anext(scan)
                assert open_scans(server) == 1
                if is_closed:
                    assert isinstance(scan, AsyncGenerator)
                    await scan.aclose()
                del scan
                while open_scans(server):
                    await asyncio.sleep(0.01)
            scan = small_batches(db)
            await anext(scan)
        with pytest.raises(rowlock.ClosedError):
            await asyncio.wait_for(read(scan), 60)

    def small_batches(db: rowlock.aio.Client) -> AsyncIterator[object]:
        # In large ones the server would have made all of them before the scan is dropped.
        return db.table("t").scan(batch_bytes=100_000).to_batches()

    async def read(batches: AsyncIterator[object]) -> None:
        async for _ in batches:
            pass

    asyncio.run(run())
    wait_until(lambda: not open_scans(server))


def test_scans_one_after_another_use_one_connection_which_ends_with_the_client(server: Server) -> None:
    async def run() -> None:
        async with rowlock.aio.connect(server.address, timeout=60) as db:
            for _ in range(3):
                assert [row async for row, _ in db.table("t").scan()] == ROWS
            assert connection_of(db).scan_connections == 1

    wait_until(lambda: not direct_connections(server))
    with rowlock.connect(server.address, timeout=60) as db:
        for _ in range(3):
            assert [row for row, _ in db.table("t").scan()] == ROWS
        assert connection_of(db).scan_connections == 1
        wait_until(lambda: direct_connections(server) == 2)
        assert open_scans(server) == 0
    wait_until(lambda: not direct_connections(server))
    asyncio.run(run())
    wait_until(lambda: not direct_connections(server))


def test_a_scan_has_another_connection_when_the_server_has_closed_the_idle_one(
    server: Server, db: rowlock.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert [row for row, _ in db.table("t").scan()] == ROWS
    monkeypatch.setattr(stream_connection, "IDLE_SECONDS_MAX", 0.0)
    wait_until(lambda: direct_connections(server) == 1)
    monkeypatch.undo()
    assert [row for row, _ in db.table("t").scan()] == ROWS
    assert (scans_of(db), connection_of(db).scan_connections) == ((2, 0), 2)


def test_a_strict_scan_that_has_its_first_rows_survives_the_loss_of_a_kept_connection(
    server: Server, db: rowlock.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert [row for row, _ in db.table("t").scan()] == ROWS

    def close_at_the_request(connection: ScanConnection) -> None:
        monkeypatch.undo()
        connection.abort()

    monkeypatch.setattr(ScanConnection, "_take", close_at_the_request)
    scan = db.table("t").scan(limit=ROW_COUNT, strict=True)
    assert [row for row, _ in scan] == ROWS
    assert not scan.resumed
    assert (scans_of(db), connection_of(db).scan_connections) == ((2, 0), 2)


def direct_connections(server: Server) -> int:
    return server.statistics().direct.open_count


def test_a_private_server_stops_after_its_last_client_which_has_scanned(tmp_path: Path) -> None:
    with rowlock.open(tmp_path / "data") as db:
        table = fill(db)
        assert [row for row, _ in table.scan()] == ROWS
        assert connection_of(db).scan_connections == 1
    wait_until(lambda: not (tmp_path / "data" / "direct").exists())


def open_scans(server: Server) -> int:
    (region,) = server.region_server.regions_of("t")
    return region.statistics().mvcc.registered_readers


@pytest.mark.parametrize("way", ["close", "drop"])
def test_a_scan_that_is_closed_or_dropped_half_read_ends_on_the_server(
    server: Server, db: rowlock.Client, way: str
) -> None:
    scan = db.table("t").scan()
    for _ in range(100):
        next(scan)
    assert open_scans(server) == 1
    if way == "close":
        scan.close()
    del scan
    wait_until(lambda: not open_scans(server))
    assert scans_of(db) == (1, 0)


def test_closing_a_scan_in_another_thread_ends_it(db: rowlock.Client) -> None:
    scan = db.table("t").scan()
    rows = []
    for row, _ in scan:
        rows.append(row)
        if len(rows) == 100:
            closer = threading.Thread(target=scan.close)
            closer.start()
            closer.join()
    assert ROWS[0] in rows
    assert len(rows) < ROW_COUNT


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_parent_s_scan_goes_on_after_a_fork_and_the_child_resumes_or_scans_by_itself(tmp_path: Path) -> None:
    with (
        ServerCommand("--data", tmp_path / "data", "--listen", "127.0.0.1:0") as server,
        rowlock.connect(server.ready(), timeout=60) as db,
    ):
        table = fill(db)
        scan = table.scan()
        rows = [next(scan)[0] for _ in range(100)]
        pid = os.fork()
        if not pid:
            with contextlib.suppress(BaseException):
                inherited = [*rows, *(row for row, _ in scan)]
                is_well = (inherited, scan.resumed) == (ROWS, True)
                is_well = is_well and [row for row, _ in table.scan()] == ROWS and scans_of(db) == (2, 0)
                is_well = is_well and connection_of(db).scan_connections == 1
                os._exit(0 if is_well else 1)
            os._exit(2)
        assert os.waitpid(pid, 0)[1] == 0
        rows.extend(row for row, _ in scan)
        assert (rows, scan.resumed) == (ROWS, False)
        assert scans_of(db) == (1, 0)
        # The same with a connection that is kept while the process forks.
        pid = os.fork()
        if not pid:
            with contextlib.suppress(BaseException):
                is_well = [row for row, _ in table.scan()] == ROWS and connection_of(db).scan_connections == 1
                db.close()
                os._exit(0 if is_well else 1)
            os._exit(2)
        assert os.waitpid(pid, 0)[1] == 0
        assert [row for row, _ in table.scan()] == ROWS
        assert (scans_of(db), connection_of(db).scan_connections) == ((2, 0), 1)


def test_a_scan_resumes_directly_when_the_server_was_killed_and_started_again(tmp_path: Path) -> None:
    with ServerCommand("--data", tmp_path / "data", "--listen", "127.0.0.1:0") as server:
        address = server.ready()
        db = rowlock.connect(address, timeout=60)
        scan = fill(db).scan()
        rows = [next(scan)[0] for _ in range(100)]
        server.signal(signal.SIGKILL)
        server.process.wait()
    with db, ServerCommand("--data", tmp_path / "data", "--listen", address) as server:
        assert server.ready() == address
        rows.extend(row for row, _ in scan)
        assert (rows, scan.resumed) == (ROWS, True)
        assert scans_of(db) == (2, 0)
