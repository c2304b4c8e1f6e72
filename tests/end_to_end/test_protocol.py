"""The point stream and the catalog of a real server, as a client of another language would use them."""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc
from rowlock_proto.v1 import catalog_pb2, region_pb2, types_pb2
from rowlock_proto.v1.types_pb2 import Error
from rowlock_regionserver.config import Config
from rowlock_regionserver.rpc.services.catalog_service import PROTOCOL
from rowlock_regionserver.server import Server

from tests.end_to_end.raw_client import RawClient, RawConversation, evidence, get, increment, mutate, put

CLIENT_ID = b"0123456789abcdef"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    config = Config(request_bytes_max=1 << 20, cell_bytes_max=1 << 18)
    with Server(tmp_path_factory.mktemp("data") / "folder", config=config) as server:
        yield server


@pytest.fixture
def client(server: Server) -> Iterator[RawClient]:
    with RawClient(server.address) as client:
        yield client


@pytest.fixture
def region_id(client: RawClient, request: pytest.FixtureRequest) -> int:
    """The region of a new table, with the families f and g."""
    return client.create_table(re.sub(r"\W+", "-", request.node.name), b"f", b"g")


@pytest.fixture
def conversation(client: RawClient) -> Iterator[RawConversation]:
    conversation = RawConversation(client)
    yield conversation
    conversation.cancel()


def test_a_row_is_put_and_read(conversation: RawConversation, region_id: int) -> None:
    result = conversation.ask(mutate(1, region_id, put(b"row", b"value"))).mutate.results[0]
    assert result.condition_met
    assert result.timestamp > 1_600_000_000_000
    rows = conversation.ask(get(2, region_id, b"row", b"absent")).get.rows
    cell = rows[0].cells[0]
    assert (cell.family, cell.qualifier, cell.timestamp, cell.value) == (b"f", b"q", result.timestamp, b"value")
    assert len(rows[1].cells) == 0


def test_every_kind_of_change_and_condition_works_over_the_wire(conversation: RawConversation, region_id: int) -> None:
    condition = region_pb2.Condition(existence=region_pb2.Condition.EXISTENCE_ABSENT)
    create = put(b"r", b"1")
    create.condition.CopyFrom(condition)
    assert conversation.ask(mutate(1, region_id, create)).mutate.results[0].condition_met
    assert not conversation.ask(mutate(2, region_id, create)).mutate.results[0].condition_met
    mixed = region_pb2.RowMutation(
        row=b"r",
        condition=region_pb2.Condition(checks=[region_pb2.Check(family=b"f", qualifier=b"q", operand=b"1")]),
        changes=[
            types_pb2.Change(increment=types_pb2.Increment(family=b"g", qualifier=b"n", amount=-3)),
            types_pb2.Change(append=types_pb2.Append(family=b"g", qualifier=b"a", suffix=b"xyz")),
            types_pb2.Change(delete=types_pb2.Delete(family=b"f", qualifier=b"q")),
        ],
    )
    result = conversation.ask(mutate(3, region_id, mixed)).mutate.results[0]
    assert result.condition_met
    assert [cell.value for cell in result.seen] == [b"1"]
    assert [cell.value for cell in result.results] == [struct.pack(">q", -3), b"xyz"]
    again = conversation.ask(mutate(4, region_id, mixed)).mutate.results[0]
    assert (again.condition_met, len(again.seen), again.timestamp) == (False, 0, 0)
    cells = conversation.ask(get(5, region_id, b"r")).get.rows[0].cells
    assert [(cell.family, cell.qualifier) for cell in cells] == [(b"g", b"a"), (b"g", b"n")]


def test_a_change_that_is_sent_again_is_made_once(conversation: RawConversation, region_id: int) -> None:
    request = mutate(1, region_id, increment(b"r", sequence=1))
    first = conversation.ask(request, CLIENT_ID, 1).mutate.results[0]
    again = conversation.ask(request, CLIENT_ID, 1).mutate.results[0]
    assert [first.results[0].value, again.results[0].value] == [struct.pack(">q", 1)] * 2
    assert (first.repeated_request, again.repeated_request) == (False, True)


def test_a_batch_with_one_bad_row_has_the_results_of_the_others(conversation: RawConversation, region_id: int) -> None:
    too_long = put(b"b", b"x" * ((1 << 18) + 1))
    nothing_said = region_pb2.RowMutation(row=b"c", changes=[types_pb2.Change()])
    no_family = put(b"d", b"v", family=b"zz")
    batch = mutate(1, region_id, put(b"a", b"v"), too_long, nothing_said, no_family, put(b"e", b"v"))
    results = conversation.ask(batch).mutate.results
    assert [result.error.code for result in results] == [
        0,
        Error.LIMIT_EXCEEDED,
        Error.INVALID_ARGUMENT,
        Error.FAMILY_NOT_FOUND,
        0,
    ]
    limit = results[1].error
    assert (limit.limit, limit.limit_value, limit.found) == ("cell_bytes_max", 1 << 18, (1 << 18) + 1)
    rows = conversation.ask(get(2, region_id, b"a", b"b", b"c", b"d", b"e")).get.rows
    assert [len(row.cells) for row in rows] == [1, 0, 0, 0, 1]


def test_a_thousand_requests_in_one_message_are_all_answered(conversation: RawConversation, region_id: int) -> None:
    conversation.send(*(mutate(i, region_id, increment(b"hot")) for i in range(1000)))
    values = sorted(conversation.answer(i).mutate.results[0].results[0].value for i in range(1000))
    assert values == [struct.pack(">q", i) for i in range(1, 1001)]
    assert conversation.message_count < 500


def test_the_stream_ends_after_all_its_answers(conversation: RawConversation, region_id: int) -> None:
    conversation.send(*(mutate(i, region_id, put(b"r%d" % i, b"v")) for i in range(100)))
    conversation.end()
    assert {answer.id for answer in conversation.rest()} == set(range(100))


def test_a_client_that_vanishes_leaves_nothing_behind(server: Server, client: RawClient, region_id: int) -> None:
    conversation = RawConversation(client)
    conversation.send(*(mutate(i, region_id, increment(b"hot")) for i in range(500)))
    conversation.cancel()
    with RawClient(server.address) as other:
        fresh = RawConversation(other)
        while server.statistics().engine.points.in_flight:
            fresh.ask(get(1, region_id, b"hot"))
        while server.statistics().region_service.conversations_open > 1:
            fresh.ask(get(1, region_id, b"hot"))
        fresh.cancel()


def test_unary_calls_do_the_same_and_report_errors_in_the_status(client: RawClient, region_id: int) -> None:
    call = region_pb2.MutateCall(
        region_id=region_id,
        mutate=region_pb2.Mutate(mutations=[increment(b"r", 5, sequence=3)]),
        client_id=CLIENT_ID,
        sequence_floor=3,
    )
    for repeated in (False, True):
        result = client.regions.Mutate(call).results[0]
        assert (result.results[0].value, result.repeated_request) == (struct.pack(">q", 5), repeated)
    answer = client.regions.Get(region_pb2.GetCall(region_id=region_id, get=region_pb2.Get(rows=[b"r"])))
    assert answer.rows[0].cells[0].value == struct.pack(">q", 5)
    for method, bad in (
        (client.regions.Get, region_pb2.GetCall(region_id=999, get=region_pb2.Get(rows=[b"r"]))),
        (client.regions.Mutate, region_pb2.MutateCall(region_id=999, mutate=call.mutate, client_id=CLIENT_ID)),
    ):
        with pytest.raises(grpc.RpcError) as failed:
            method(bad, timeout=60)
        assert evidence(failed.value).code == Error.NOT_SERVING_REGION
        assert evidence(failed.value).can_retry


def test_a_cell_that_is_no_counter_is_named(client: RawClient, region_id: int) -> None:
    text = put(b"r", b"text", qualifier=b"n")
    client.regions.Mutate(region_pb2.MutateCall(region_id=region_id, mutate=region_pb2.Mutate(mutations=[text])))
    call = region_pb2.MutateCall(region_id=region_id, mutate=region_pb2.Mutate(mutations=[increment(b"r")]))
    error = client.regions.Mutate(call).results[0].error
    assert (error.code, error.row, error.family, error.qualifier) == (Error.NOT_A_COUNTER, b"r", b"f", b"n")


@pytest.mark.parametrize("method", ["Converse", "BulkPut", "Get", "Mutate", "Scan", "PlanScan", "Flush"])
def test_bytes_that_are_not_the_protocol_are_refused_and_the_server_continues(client: RawClient, method: str) -> None:
    # Without serializers, bytes are sent unchanged.
    channel: Any = client.channel
    rubbish, path = b"\xff\xff\xff\xff", f"/rowlock.v1.RegionService/{method}"
    call: Callable[[], object] = {
        "Converse": lambda: list(channel.stream_stream(path)(iter([rubbish]), timeout=60)),
        "BulkPut": lambda: list(channel.stream_stream(path)(iter([rubbish]), timeout=60)),
        "Scan": lambda: list(channel.unary_stream(path)(rubbish, timeout=60)),
    }.get(method, lambda: channel.unary_unary(path)(rubbish, timeout=60))
    with pytest.raises(grpc.RpcError) as failed:
        call()
    assert isinstance(failed.value, grpc.Call)
    assert failed.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert "rowlock.v1." in evidence(failed.value).message
    client.catalog.ListTables(catalog_pb2.ListTablesRequest(), timeout=60)


def test_a_message_beyond_the_limit_is_refused_with_the_limit(client: RawClient, region_id: int) -> None:
    for size in (1 << 20, 1 << 23):
        conversation = RawConversation(client)
        conversation.send(mutate(1, region_id, put(b"r", b"x" * size)))
        with pytest.raises(grpc.RpcError) as failed:
            list(conversation.rest())
        if size == 1 << 20:
            error = evidence(failed.value)
            assert (error.code, error.limit, error.limit_value) == (Error.LIMIT_EXCEEDED, "request_bytes_max", 1 << 20)
        else:  # Refused by gRPC itself before it is read.
            assert isinstance(failed.value, grpc.Call)
            assert failed.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        conversation.end()


def test_tables_are_made_described_altered_truncated_and_dropped(client: RawClient) -> None:
    family = types_pb2.Family(
        name=b"f",
        versions=3,
        min_versions=1,
        time_to_live_ms=60_000,
        block_bytes=8192,
        compression=types_pb2.COMPRESSION_ZSTD,
        bloom_filter=types_pb2.BLOOM_FILTER_NONE,
    )
    descriptor = types_pb2.TableDescriptor(name="made", families=[family], durability=types_pb2.DURABILITY_ASYNC)
    made = client.catalog.CreateTable(catalog_pb2.CreateTableRequest(table=descriptor)).table
    assert list(made.families) == [family]
    assert made.durability == types_pb2.DURABILITY_ASYNC
    described = client.catalog.DescribeTable(catalog_pb2.DescribeTableRequest(name="made"))
    assert described.table == made
    region = described.regions[0].region
    assert (region.table, region.table_id, region.start, region.stop) == ("made", made.table_id, b"", b"")
    altered = client.catalog.AlterTable(
        catalog_pb2.AlterTableRequest(
            name="made",
            set_families=[types_pb2.Family(name=b"g")],
            drop_families=[b"f"],
            durability=types_pb2.DURABILITY_FSYNC,
        )
    ).table
    assert [(each.name, each.versions, each.block_bytes) for each in altered.families] == [(b"g", 1, 128 * 1024)]
    assert (altered.durability, altered.table_id) == (types_pb2.DURABILITY_FSYNC, made.table_id)
    client.catalog.TruncateTable(catalog_pb2.TruncateTableRequest(name="made"))
    assert client.region_id("made") != region.region_id
    assert "made" in [table.name for table in client.catalog.ListTables(catalog_pb2.ListTablesRequest()).tables]
    client.catalog.DropTable(catalog_pb2.DropTableRequest(name="made"))
    assert "made" not in [table.name for table in client.catalog.ListTables(catalog_pb2.ListTablesRequest()).tables]


@pytest.mark.parametrize("name", ["", "../x", "a/b", "a\0b", "-a", ".a", "x" * 300, "ü"])
def test_a_table_name_outside_the_pattern_is_refused(client: RawClient, name: str) -> None:
    with pytest.raises(grpc.RpcError) as failed:
        client.create_table(name, b"f")
    assert evidence(failed.value).code == Error.INVALID_ARGUMENT


def test_missing_and_existing_tables_have_their_own_errors(client: RawClient) -> None:
    client.create_table("twice", b"f")
    with pytest.raises(grpc.RpcError) as failed:
        client.create_table("twice", b"f")
    assert isinstance(failed.value, grpc.Call)
    assert failed.value.code() is grpc.StatusCode.ALREADY_EXISTS
    assert (evidence(failed.value).code, evidence(failed.value).table) == (Error.TABLE_EXISTS, "twice")
    for call in (
        lambda: client.catalog.DropTable(catalog_pb2.DropTableRequest(name="none")),
        lambda: client.catalog.LocateRegions(catalog_pb2.LocateRegionsRequest(table="none")),
        lambda: client.regions.Flush(region_pb2.FlushRequest(table="none")),
    ):
        with pytest.raises(grpc.RpcError) as failed:
            call()
        assert isinstance(failed.value, grpc.Call)
        assert failed.value.code() is grpc.StatusCode.NOT_FOUND
        assert evidence(failed.value).code == Error.TABLE_NOT_FOUND


@pytest.mark.parametrize(
    ("family", "expected"),
    [
        (types_pb2.Family(name=b"a:b"), "':'"),
        (types_pb2.Family(name=b"f", time_to_live_ms=(1 << 64) - 1), "longer than any timestamp"),
        (types_pb2.Family(name=b"f", block_bytes=1), "block_bytes"),
    ],
)
def test_invalid_families_are_refused(client: RawClient, family: types_pb2.Family, expected: str) -> None:
    descriptor = types_pb2.TableDescriptor(name="families", families=[family])
    with pytest.raises(grpc.RpcError) as failed:
        client.catalog.CreateTable(catalog_pb2.CreateTableRequest(table=descriptor))
    assert evidence(failed.value).code == Error.INVALID_ARGUMENT
    assert expected in evidence(failed.value).message


def test_server_info_identifies_the_server(server: Server, client: RawClient) -> None:
    info = client.catalog.ServerInfo(catalog_pb2.ServerInfoRequest())
    assert (info.protocol, len(info.data_folder_id), info.limits.request_bytes_max) == (1, 32, 1 << 20)
    assert info.version.count(".") == 2
    assert info.now_ms > 1_600_000_000_000
    assert info.incarnation_id
    assert info.uptime_ms >= 1
    client.create_table("located", b"f")
    regions = client.catalog.LocateRegions(catalog_pb2.LocateRegionsRequest(table="located")).regions
    assert [region.server for region in regions] == [server.address]


def test_a_server_names_no_higher_protocol_than_its_caller(client: RawClient) -> None:
    """Callers of protocol 1, which don't name theirs, accept no other."""
    named = [client.catalog.ServerInfo(catalog_pb2.ServerInfoRequest(protocol=known)).protocol for known in (0, 1, 99)]
    assert named == [1, 1, PROTOCOL]


def test_flush_says_what_it_wrote_and_describe_shows_it(client: RawClient, region_id: int) -> None:
    mutations = [put(b"r%d" % i, b"v") for i in range(10)]
    client.regions.Mutate(region_pb2.MutateCall(region_id=region_id, mutate=region_pb2.Mutate(mutations=mutations)))
    name = test_flush_says_what_it_wrote_and_describe_shows_it.__name__
    flushed = client.regions.Flush(region_pb2.FlushRequest(table=name))
    assert (flushed.store_file_count, flushed.cell_count) == (1, 10)
    statistics = client.catalog.DescribeTable(catalog_pb2.DescribeTableRequest(name=name)).regions[0]
    assert (statistics.store_file_count, statistics.store_file_cells) == (1, 10)
    assert statistics.store_file_bytes > 0
    assert statistics.read_point >= 10
    assert client.rows(region_id) == [b"r%d" % i for i in range(10)]


def test_health_and_reflection_answer(client: RawClient) -> None:
    health = health_pb2_grpc.HealthStub(client.channel)
    for service in ("", "rowlock.v1.Catalog", "rowlock.v1.RegionService"):
        answer = health.Check(health_pb2.HealthCheckRequest(service=service))
        assert answer.status == health_pb2.HealthCheckResponse.SERVING
    reflection = reflection_pb2_grpc.ServerReflectionStub(client.channel)
    request = reflection_pb2.ServerReflectionRequest(list_services="")
    listed = next(reflection.ServerReflectionInfo(iter([request])))
    names = {service.name for service in listed.list_services_response.service}
    assert names >= {"rowlock.v1.Catalog", "rowlock.v1.RegionService", "grpc.health.v1.Health"}
    request = reflection_pb2.ServerReflectionRequest(file_containing_symbol="rowlock.v1.RegionService")
    described = next(reflection.ServerReflectionInfo(iter([request])))
    assert described.file_descriptor_response.file_descriptor_proto


def test_a_server_that_starts_again_on_its_folder_has_another_incarnation(tmp_path: Path) -> None:
    infos = []
    for _ in range(2):
        with Server(tmp_path) as server, RawClient(server.address) as client:
            infos.append(client.catalog.ServerInfo(catalog_pb2.ServerInfoRequest()))
    assert infos[0].data_folder_id == infos[1].data_folder_id
    assert infos[0].incarnation_id != infos[1].incarnation_id
