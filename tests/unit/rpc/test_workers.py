"""Slow table operations on all of their threads: other calls are still answered."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from rowlock_proto.v1 import catalog_pb2, region_pb2
from rowlock_regionserver.cells import Family
from rowlock_regionserver.clock import Clock
from rowlock_regionserver.config import Config
from rowlock_regionserver.engine.encoded_message import EncodedMessage
from rowlock_regionserver.engine.engine import Engine
from rowlock_regionserver.engine.scans import Scans
from rowlock_regionserver.engine.workers import Workers
from rowlock_regionserver.files import Files
from rowlock_regionserver.host.region_server import RegionServer
from rowlock_regionserver.ledger import Ledger
from rowlock_regionserver.operations import ScanPlan
from rowlock_regionserver.rpc.grpc.calls import Calls
from rowlock_regionserver.rpc.services.catalog_service import CatalogService
from rowlock_regionserver.rpc.services.region_service import RegionService

from tests.unit.engine.fakes import NEVER_SLOW, FakeRegion
from tests.unit.engine.loops import run, until

NO_CONTEXT: Any = None


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[RegionServer]:
    fatal: list[BaseException] = []
    server = RegionServer.open(tmp_path, Config(), Clock(), Files(), fatal.append)
    server.create_table("t", [Family(0, b"f")])
    yield server
    server.stop()
    assert fatal == []


@pytest.fixture
def busy_workers(workers: Workers) -> Iterator[Workers]:
    """All threads for table operations are busy until the test ends."""
    may_end = threading.Event()
    for _ in range(100):
        workers.tables.submit(may_end.wait)
    yield workers
    may_end.set()


def test_slow_table_operations_do_not_delay_new_connections(engine: RegionServer, busy_workers: Workers) -> None:
    async def test() -> None:
        config = Config()
        methods = CatalogService(engine, busy_workers, "host:1", "id", config).methods()
        info = await methods["ServerInfo"](b"", NO_CONTEXT)
        assert catalog_pb2.ServerInfoResponse.FromString(info or b"").data_folder_id == "id"
        location = catalog_pb2.LocateRegionsRequest(table="t").SerializeToString()
        found = catalog_pb2.LocateRegionsResponse.FromString(
            await methods["LocateRegions"](location, NO_CONTEXT) or b""
        )
        assert [region.region_id for region in found.regions] == [1]
        await methods["ListTables"](b"", NO_CONTEXT)
        await methods["DescribeTable"](catalog_pb2.DescribeTableRequest(name="t").SerializeToString(), NO_CONTEXT)
        engine.make_snapshot("t", b"s" * 16, 0, "")
        renewal = catalog_pb2.RenewSnapshotRequest(snapshot_id=b"s" * 16).SerializeToString()
        await methods["RenewSnapshot"](renewal, NO_CONTEXT)
        await methods["EndSnapshot"](renewal, NO_CONTEXT)
        ledger = Ledger(config)
        calls = Calls(config, ledger, lambda _: None)
        admission = Engine(engine, busy_workers, config, Clock(), ledger, lambda: calls.open_count)
        regions = RegionService(engine, admission, calls, config)
        await regions.methods()["PlanScan"](region_pb2.PlanScanRequest(region_id=1).SerializeToString(), NO_CONTEXT)

    run(test)


def test_slow_table_operations_do_not_delay_closing_the_read_points_of_scans(
    region: FakeRegion, busy_workers: Workers
) -> None:
    async def write(_: EncodedMessage) -> None:
        raise ConnectionError("the client is gone")

    async def test() -> None:
        scans = Scans(busy_workers, NEVER_SLOW, Config(), Clock(), Ledger(Config()))
        with pytest.raises(ConnectionError):
            await scans.serve(region, ScanPlan(row_limit=5), lambda *_: b"", write)
        await until(lambda: region.open_scans == 0)

    run(test)
