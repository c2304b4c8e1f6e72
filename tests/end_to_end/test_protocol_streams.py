"""Scans and bulk batches of a real server, as a client of another language would use them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import grpc
import pytest
from rowlock_proto.v1 import region_pb2, types_pb2
from rowlock_proto.v1.types_pb2 import Error
from rowlock_regionserver.config import Config
from rowlock_regionserver.server import Server

from tests.end_to_end.raw_client import (
    RawClient,
    RawConversation,
    bulk_batch,
    bulk_message,
    bulk_put,
    evidence,
    get,
    put,
    read_batch,
)

ROW_COUNT = 2000
CONFIG = Config(request_bytes_max=8 << 20, scan_window_bytes=1 << 16, scans_open_max=4)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with Server(tmp_path_factory.mktemp("data") / "folder", config=CONFIG) as server:
        yield server


@pytest.fixture
def client(server: Server) -> Iterator[RawClient]:
    with RawClient(server.address) as client:
        yield client


@pytest.fixture
def region_id(client: RawClient, request: pytest.FixtureRequest) -> int:
    return client.create_table(re.sub(r"\W+", "-", request.node.name), b"f", b"g")


@pytest.fixture
def filled(client: RawClient, region_id: int) -> int:
    """A region of ROW_COUNT rows."""
    fill(client, region_id)
    return region_id


def fill(client: RawClient, region_id: int) -> None:
    """Puts ROW_COUNT rows, whose values together exceed any HTTP/2 window."""
    cells = [(b"row%05d" % i, b"f", b"q", 1, b"%05d" % i * 1000) for i in range(ROW_COUNT)]
    for start in range(0, ROW_COUNT, 1000):
        assert bulk_put(client, region_id, bulk_batch(cells[start : start + 1000])).cell_count == 1000


def test_a_scan_gives_every_row_in_order_at_one_read_point(client: RawClient, filled: int) -> None:
    batches = list(client.regions.Scan(region_pb2.ScanRequest(region_id=filled, batch_bytes=100_000)))
    assert len(batches) > 50
    assert len({batch.read_point for batch in batches}) == 1
    assert sum(batch.row_count for batch in batches) == ROW_COUNT
    rows = [row for batch in batches for row in read_batch(batch).column("row").to_pylist()]
    assert rows == [b"row%05d" % i for i in range(ROW_COUNT)]


def test_ranges_limits_filters_and_direction_are_obeyed(client: RawClient, filled: int) -> None:
    span = region_pb2.RowRange(start=b"row00010", stop=b"row00020")
    ten = [b"row%05d" % i for i in range(10, 20)]
    assert client.rows(filled, ranges=[span]) == ten
    assert client.rows(filled, ranges=[span], reverse=True) == ten[::-1]
    assert client.rows(filled, ranges=[span], row_limit=3) == ten[:3]
    row_prefix = types_pb2.Filter(row_prefix=b"row0001")
    assert client.rows(filled, where=row_prefix) == ten
    keys = client.scan(filled, ranges=[span], cells=types_pb2.CellFilter(keys_only=True))
    assert set(keys.column("value").to_pylist()) == {b""}
    assert client.rows(filled, columns=[types_pb2.Column(family=b"g")]) == []


def test_a_row_larger_than_a_batch_continues_in_the_next(client: RawClient, region_id: int) -> None:
    cells = [(b"wide", b"f", b"%04d" % i, 1, b"v" * 100) for i in range(1000)] + [(b"z", b"f", b"q", 1, b"v")]
    bulk_put(client, region_id, bulk_batch(cells))
    batches = list(client.regions.Scan(region_pb2.ScanRequest(region_id=region_id, batch_bytes=10_000)))
    assert [batch.row_continues for batch in batches].count(True) > 5
    assert not batches[-1].row_continues
    assert sum(batch.row_count for batch in batches) == 2
    assert sum(read_batch(batch).num_rows for batch in batches) == 1001


def test_a_scan_sees_nothing_that_was_written_after_it_began(client: RawClient, filled: int) -> None:
    scan = iter(client.regions.Scan(region_pb2.ScanRequest(region_id=filled, batch_rows=1)))
    first = next(scan)
    change = region_pb2.Mutate(mutations=[put(b"row%05d" % i, b"new") for i in range(ROW_COUNT)])
    client.regions.Mutate(region_pb2.MutateCall(region_id=filled, mutate=change))
    values = [value for batch in scan for value in read_batch(batch).column("value").to_pylist()]
    assert len(values) == ROW_COUNT - 1
    assert b"new" not in values
    later = next(iter(client.regions.Scan(region_pb2.ScanRequest(region_id=filled, batch_rows=1))))
    assert later.read_point > first.read_point
    assert read_batch(later).column("value").to_pylist() == [b"new"]


def test_a_scan_that_finds_no_row_reports_its_resume_key(tmp_path: Path) -> None:
    config = Config(scan_window_bytes=1 << 14, scan_heartbeat_ms=1)
    with Server(tmp_path / "folder", config=config) as server, RawClient(server.address) as client:
        region_id = client.create_table("t", b"f")
        rows = [b"row%05d" % number for number in range(20_000)]
        cells = [(row, b"f", b"q", 1, b"wanted" if row == rows[-1] else b"+1") for row in rows]
        bulk_put(client, region_id, bulk_batch(cells))
        where = types_pb2.Filter(
            column=types_pb2.ColumnComparison(
                family=b"f", qualifier=b"q", op=types_pb2.COMPARE_OP_EQUAL, operand=b"wanted"
            )
        )
        for reverse in (False, True):
            request = region_pb2.ScanRequest(region_id=region_id, where=where, reverse=reverse)
            batches = list(client.regions.Scan(request))
            assert [row for batch in batches for row in read_batch(batch).column("row").to_pylist()] == rows[-1:]
            reached = [batch.row_reached for batch in batches if batch.row_reached]
            assert reached
            assert sorted(reached, reverse=reverse) == reached


def test_a_scan_that_is_closed_frees_its_read_point_at_once(server: Server, client: RawClient, filled: int) -> None:
    scan = client.regions.Scan(region_pb2.ScanRequest(region_id=filled, batch_rows=1))
    next(iter(scan))
    assert server.statistics().engine.scans.open_count == 1
    scan.cancel()
    until(client, filled, lambda: server.statistics().engine.scans.open_count == 0)
    until(client, filled, lambda: readers(server, filled) == 0)


def test_a_scan_whose_client_stops_reading_loses_its_lease_with_an_error(tmp_path: Path) -> None:
    # On a server of its own: scans that are read slowly on a busy machine would lose theirs, too.
    config = replace(CONFIG, scan_lease_ms=300)
    with Server(tmp_path / "folder", config=config) as server, RawClient(server.address) as client:
        region_id = client.create_table("t", b"f", b"g")
        fill(client, region_id)
        scan = client.regions.Scan(region_pb2.ScanRequest(region_id=region_id, batch_bytes=1 << 20))
        next(iter(scan))
        until(client, region_id, lambda: server.statistics().engine.scans.lease_expired_count == 1)
        until(client, region_id, lambda: readers(server, region_id) == 0)
        with pytest.raises(grpc.RpcError) as failed:
            list(scan)
        assert evidence(failed.value).code == Error.LEASE_EXPIRED
        assert "scan_lease_ms = 300" in evidence(failed.value).message


def test_more_scans_than_the_limit_are_refused_with_a_delay(client: RawClient, filled: int) -> None:
    request = region_pb2.ScanRequest(region_id=filled, batch_rows=1)
    scans = [client.regions.Scan(request) for _ in range(4)]
    for scan in scans:
        next(iter(scan))
    with pytest.raises(grpc.RpcError) as failed:
        list(client.regions.Scan(request))
    error = evidence(failed.value)
    assert (error.code, error.can_retry, error.retry_after_ms > 0) == (Error.REGION_TOO_BUSY, True, True)
    for scan in scans:
        scan.cancel()


@pytest.mark.parametrize(
    ("request_fields", "code"),
    [
        ({"columns": [types_pb2.Column(family=b"zz")]}, Error.FAMILY_NOT_FOUND),
        ({"where": types_pb2.Filter()}, Error.INVALID_ARGUMENT),
        ({"time_range": types_pb2.TimeRange(start=5, stop=2)}, Error.INVALID_ARGUMENT),
        ({"time_range": types_pb2.TimeRange(start=-1)}, Error.INVALID_ARGUMENT),
        (
            {
                "where": types_pb2.Filter(
                    column=types_pb2.ColumnComparison(
                        family=b"f", qualifier=b"q", operand=b"123", type=types_pb2.VALUE_TYPE_INT64
                    )
                )
            },
            Error.FILTER_TYPE_MISMATCH,
        ),
    ],
)
def test_an_invalid_scan_is_refused(
    client: RawClient, region_id: int, request_fields: dict[str, object], code: Error.Code
) -> None:
    with pytest.raises(grpc.RpcError) as failed:
        client.scan(region_id, **request_fields)
    assert evidence(failed.value).code == code


@pytest.mark.parametrize("byte_count", [6000, 200_000])
def test_a_scan_of_a_family_with_a_very_long_name_is_refused_with_the_reason(
    client: RawClient, region_id: int, byte_count: int
) -> None:
    with pytest.raises(grpc.RpcError) as failed:
        client.scan(region_id, columns=[types_pb2.Column(family=b"z" * byte_count)])
    error = evidence(failed.value)
    assert (error.code, error.family) == (Error.FAMILY_NOT_FOUND, b"z" * 128)
    assert len(error.message) < 500


def test_bulk_batches_are_applied_in_order_and_read_back(client: RawClient, region_id: int) -> None:
    batches = [
        bulk_batch([(b"a", b"f", b"q", None, b"%d" % i), (b"r%d" % i, b"g", b"", 7, b"v"), (b"a", b"g", b"", 7, b"v")])
        for i in range(5)
    ]
    answers = list(client.regions.BulkPut(iter([bulk_message(region_id, batch) for batch in batches])))
    assert [(answer.cell_count, answer.row_count) for answer in answers] == [(3, 2)] * 5
    stamps = [answer.timestamp for answer in answers]
    assert stamps == sorted(stamps)
    cell = client.regions.Get(
        region_pb2.GetCall(
            region_id=region_id, get=region_pb2.Get(rows=[b"a"], columns=[types_pb2.Column(family=b"f")])
        )
    )
    assert cell.rows[0].cells[0].value == b"4"
    assert client.rows(region_id, columns=[types_pb2.Column(family=b"g")]) == [b"a", *(b"r%d" % i for i in range(5))]


def test_a_null_value_deletes_and_a_repeated_batch_is_applied_once(client: RawClient, region_id: int) -> None:
    first = bulk_message(region_id, bulk_batch([(b"a", b"f", b"q", None, b"v"), (b"b", b"f", b"q", None, b"v")]))
    second = bulk_message(
        region_id,
        bulk_batch([(b"a", b"f", b"q", None, None)]),
        client_id=b"c" * 16,
        sequence=1,
        sequence_floor=1,
    )
    answers = list(client.regions.BulkPut(iter([first, second, second])))
    assert [answer.error.code for answer in answers] == [0, 0, 0]
    assert [answer.repeated_request for answer in answers] == [False, False, True]
    assert client.rows(region_id) == [b"b"]


def test_a_bad_batch_is_refused_and_the_next_is_applied(client: RawClient, region_id: int) -> None:
    good = bulk_batch([(b"a", b"f", b"q", None, b"v")])
    broken = bulk_message(region_id, good)
    broken.arrow = broken.arrow[:-30]
    understated = bulk_message(region_id, bulk_batch([(b"b", b"f", b"q", None, b"v" * 10_000)]))
    understated.uncompressed_bytes = 10
    no_family = bulk_message(region_id, bulk_batch([(b"a", b"zz", b"q", None, b"v")]))
    elsewhere = bulk_message(99, good)
    fine = bulk_message(region_id, bulk_batch([(b"c", b"f", b"q", None, b"v")]))
    answers = list(client.regions.BulkPut(iter([broken, understated, no_family, elsewhere, fine])))
    assert [answer.error.code for answer in answers] == [
        Error.INVALID_ARGUMENT,
        Error.INVALID_ARGUMENT,
        Error.FAMILY_NOT_FOUND,
        Error.NOT_SERVING_REGION,
        0,
    ]
    assert client.rows(region_id) == [b"c"]


def until(client: RawClient, region_id: int, holds: Callable[[], bool]) -> None:
    """Waits for a state of the server, and sends it other requests meanwhile."""
    conversation = RawConversation(client)
    while not holds():
        conversation.ask(get(1, region_id, b"row00000"))
    conversation.cancel()


def readers(server: Server, region_id: int) -> int:
    """Returns the read points that are registered in the region."""
    return server.region_server.region(region_id).statistics().mvcc.registered_readers
