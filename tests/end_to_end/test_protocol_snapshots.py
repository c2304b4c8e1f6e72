"""Snapshots and parts of a scan, as a client in another language would use them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import grpc
import pytest
from rowlock_proto.v1 import catalog_pb2, region_pb2, types_pb2
from rowlock_proto.v1.types_pb2 import Error
from rowlock_regionserver.clock import ManualClock
from rowlock_regionserver.config import Config
from rowlock_regionserver.server import Server

from tests.end_to_end.raw_client import RawClient, RawConversation, evidence, mutate, put

ID = b"snapshot is 16 b"


@pytest.fixture(scope="module")
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, clock: ManualClock) -> Iterator[Server]:
    config = Config(rows_per_request_max=10)
    with Server(tmp_path_factory.mktemp("data") / "folder", config=config, clock=clock) as server:
        yield server


@pytest.fixture
def client(server: Server) -> Iterator[RawClient]:
    with RawClient(server.address) as client:
        yield client


@pytest.fixture
def table(request: pytest.FixtureRequest) -> str:
    return re.sub(r"\W+", "-", request.node.name)


@pytest.fixture
def region_id(client: RawClient, table: str) -> int:
    return client.create_table(table, b"f")


def write(client: RawClient, region_id: int, row: bytes, value: bytes) -> int:
    """Writes a row and returns its timestamp."""
    conversation = RawConversation(client)
    (result,) = conversation.ask(mutate(1, region_id, put(row, value))).mutate.results
    conversation.end()
    return result.timestamp


def refused(call: Callable[[], object]) -> types_pb2.Error:
    with pytest.raises(grpc.RpcError) as failed:
        call()
    return evidence(failed.value)


def test_a_snapshot_has_its_attributes_and_a_scan_of_it_has_its_read_point(
    client: RawClient, table: str, region_id: int, clock: ManualClock
) -> None:
    write(client, region_id, b"r", b"old")
    snapshot_id = b"says what it is."
    request = catalog_pb2.MakeSnapshotRequest(table=table, snapshot_id=snapshot_id)
    snapshot = client.catalog.MakeSnapshot(request).snapshot
    assert (snapshot.snapshot_id, snapshot.table) == (snapshot_id, table)
    assert (snapshot.made_ms, snapshot.lease_ms) == (clock.now_ms(), 3600 * 1000)
    assert [region.region_id for region in snapshot.regions] == [region_id]
    write(client, region_id, b"r", b"new")
    scan = region_pb2.ScanRequest(region_id=region_id, snapshot_id=snapshot_id)
    (batch,) = client.regions.Scan(scan)
    assert batch.read_point == snapshot.regions[0].read_point
    assert client.scan(region_id, snapshot_id=snapshot_id).column("value").to_pylist() == [b"old"]
    assert client.catalog.MakeSnapshot(request).snapshot == snapshot
    renew = catalog_pb2.RenewSnapshotRequest(snapshot_id=snapshot_id)
    assert client.catalog.RenewSnapshot(renew).snapshot == snapshot
    client.catalog.EndSnapshot(catalog_pb2.EndSnapshotRequest(snapshot_id=snapshot_id))
    calls: list[Callable[[], object]] = [
        lambda: client.catalog.MakeSnapshot(request),
        lambda: client.catalog.RenewSnapshot(renew),
        lambda: client.scan(region_id, snapshot_id=snapshot_id),
    ]
    for call in calls:
        error = refused(call)
        assert (error.code, error.table, error.can_retry) == (Error.SNAPSHOT_ENDED, table, False)


def test_invalid_ids_are_refused(client: RawClient, table: str, region_id: int) -> None:
    for nonsense in (b"x", b"x" * 17):
        calls: list[Callable[[], object]] = [
            lambda: client.catalog.MakeSnapshot(
                catalog_pb2.MakeSnapshotRequest(table=table, snapshot_id=nonsense)  # noqa: B023  (called below)
            ),
            lambda: client.catalog.RenewSnapshot(
                catalog_pb2.RenewSnapshotRequest(snapshot_id=nonsense)  # noqa: B023
            ),
            lambda: client.catalog.EndSnapshot(catalog_pb2.EndSnapshotRequest(snapshot_id=nonsense)),  # noqa: B023
            lambda: client.scan(region_id, snapshot_id=nonsense),  # noqa: B023
        ]
        assert {refused(call).code for call in calls} == {Error.INVALID_ARGUMENT}


def test_a_longer_lease_than_a_day_and_another_incarnation_are_refused(client: RawClient, table: str) -> None:
    client.create_table(table, b"f")
    longest = 24 * 3600 * 1000
    request = catalog_pb2.MakeSnapshotRequest(table=table, snapshot_id=ID, lease_ms=longest + 1)
    error = refused(lambda: client.catalog.MakeSnapshot(request))
    assert (error.code, error.limit_value, error.found) == (Error.LIMIT_EXCEEDED, longest, longest + 1)
    request = catalog_pb2.MakeSnapshotRequest(table=table, snapshot_id=ID, incarnation_id="another")
    assert refused(lambda: client.catalog.MakeSnapshot(request)).code == Error.SNAPSHOT_ENDED
    info = client.catalog.ServerInfo(catalog_pb2.ServerInfoRequest())
    request = catalog_pb2.MakeSnapshotRequest(table=table, snapshot_id=ID, incarnation_id=info.incarnation_id)
    assert client.catalog.MakeSnapshot(request).snapshot.snapshot_id == ID


def test_the_servers_clock_is_not_below_a_stamp_of_the_table_that_is_named(
    client: RawClient, region_id: int, table: str, clock: ManualClock
) -> None:
    def info(name: str = "", reserve_ms: int = 0) -> catalog_pb2.ServerInfoResponse:
        request = catalog_pb2.ServerInfoRequest(table=name, reserve_ms=reserve_ms)
        answer: catalog_pb2.ServerInfoResponse = client.catalog.ServerInfo(request)
        return answer

    before = clock.now_ms()
    stamp = write(client, region_id, b"r", b"1")
    clock.set_now_ms(before - 10_000)
    assert info(table).now_ms == stamp >= before
    assert info().now_ms == clock.now_ms()
    assert write(client, region_id, b"r", b"2") > stamp
    clock.set_now_ms(before + 10_000)
    assert info(table).now_ms == info().now_ms == before + 10_000
    assert info(table, 500).reserved_ms == 500
    assert refused(lambda: info("no-such-table")).code == Error.TABLE_NOT_FOUND
    assert info().request_ids_remembered_ms == 3_600_000


def test_parts_of_a_region(client: RawClient, region_id: int) -> None:
    def planned(**fields: object) -> region_pb2.PlanScanResponse:
        request = region_pb2.PlanScanRequest(region_id=region_id, **fields)  # type: ignore[arg-type]
        answer: region_pb2.PlanScanResponse = client.regions.PlanScan(request)
        return answer

    for number in range(8):
        write(client, region_id, b"%d" % number, b"x" * 1000)
    (whole,) = planned().parts
    assert 8 * 1000 < whole.byte_count < 8 * 1100
    assert whole.ranges == [region_pb2.RowRange()]
    halves = planned(part_bytes=whole.byte_count // 2).parts
    assert [[(each.start, each.stop) for each in part.ranges] for part in halves] == [[(b"", b"4")], [(b"4", b"")]]
    many = [region_pb2.RowRange(start=b"%d" % number) for number in range(11)]
    assert refused(lambda: planned(ranges=many)).code == Error.LIMIT_EXCEEDED
    assert refused(lambda: planned(ranges=[region_pb2.RowRange(start=b"b", stop=b"a")])).code == Error.INVALID_ARGUMENT
    assert refused(lambda: planned(columns=[types_pb2.Column(family=b"x")])).code == Error.FAMILY_NOT_FOUND
    unknown = region_pb2.PlanScanRequest(region_id=1 << 40)
    assert refused(lambda: client.regions.PlanScan(unknown)).code == Error.NOT_SERVING_REGION
