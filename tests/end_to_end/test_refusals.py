"""Requests that a real server refuses: the error says what and where, nothing changes, other clients are unharmed."""

from __future__ import annotations

import os
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Literal

import grpc
import pyarrow as pa
import pytest
import rowlock
from rowlock_proto.v1 import catalog_pb2, region_pb2, types_pb2
from rowlock_proto.v1.types_pb2 import Error

from tests.end_to_end.raw_client import (
    RawClient,
    RawConversation,
    bulk_batch,
    bulk_message,
    evidence,
    get,
    increment,
    mutate,
    put,
)
from tests.end_to_end.server_command import ServerCommand

REQUEST_BYTES_MAX = 4 << 20
LIMITS = (
    f"request_bytes_max={REQUEST_BYTES_MAX}",
    "cell_bytes_max=1MiB",
    "row_bytes_max=1000",
    "qualifier_bytes_max=1000",
)
DAY_MS = 24 * 3600 * 1000
INT64_MAX = (1 << 63) - 1


@pytest.fixture(scope="session")
def refusing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a server with small limits, which must still be there at the end."""
    settings = [word for limit in LIMITS for word in ("--config", limit)]
    folder = tmp_path_factory.mktemp("refusals") / "data"
    with ServerCommand("--data", folder, "--listen", "127.0.0.1:0", *settings) as server:
        yield server.ready()
        assert server.process.poll() is None
        server.process.terminate()
        assert server.ended() == (0, "", "")


@pytest.fixture
def raw(refusing: str) -> Iterator[RawClient]:
    with RawClient(refusing) as client:
        yield client


@pytest.fixture
def db(refusing: str) -> Iterator[rowlock.Client]:
    # The connections of a test may keep the server busy when it has ended.
    with rowlock.connect(refusing, timeout=60) as client:
        yield client


@pytest.fixture
def table(db: rowlock.Client) -> Iterator[rowlock.Table[bytes]]:
    """A new table with the families f and g and one row, which must be unchanged at the end."""
    name = f"t{time.monotonic_ns()}"
    table = db.create_table(name, {"f": rowlock.Family(), "g": rowlock.Family(versions=3)})
    table = db.table(name)
    table.put(b"kept", {b"f:q": b"v"})
    yield table
    assert table.row(b"kept") == {b"f:q": b"v"}
    db.drop_table(name)


def region_of(db: rowlock.Client, table: rowlock.Table[bytes]) -> int:
    return db.regions(table.name)[0].region_id


def refusal(call: Callable[[], object]) -> types_pb2.Error:
    with pytest.raises(grpc.RpcError) as refused:
        call()
    return evidence(refused.value)


@pytest.mark.parametrize("name", ["../x", "", "a" * 300, "a\0b", "a b", ".", "é", "a/b", "-x", "t\n"])
def test_a_name_outside_the_pattern_is_refused_by_every_call_of_the_catalog(raw: RawClient, name: str) -> None:
    families = [types_pb2.Family(name=b"f")]
    create = catalog_pb2.CreateTableRequest(table=types_pb2.TableDescriptor(name=name, families=families))
    assert refusal(lambda: raw.catalog.CreateTable(create)).code == Error.INVALID_ARGUMENT
    alter = catalog_pb2.AlterTableRequest(name=name, set_families=families)
    for call in (
        lambda: raw.catalog.AlterTable(alter),
        lambda: raw.catalog.DropTable(catalog_pb2.DropTableRequest(name=name)),
        lambda: raw.catalog.TruncateTable(catalog_pb2.TruncateTableRequest(name=name)),
        lambda: raw.catalog.DescribeTable(catalog_pb2.DescribeTableRequest(name=name)),
        lambda: raw.catalog.LocateRegions(catalog_pb2.LocateRegionsRequest(table=name)),
        lambda: raw.regions.Flush(region_pb2.FlushRequest(table=name)),
    ):
        assert refusal(call).code in (Error.INVALID_ARGUMENT, Error.TABLE_NOT_FOUND)


def test_an_unknown_table_is_named_by_every_operation(db: rowlock.Client) -> None:
    absent = db.table("absent")

    def batch() -> None:
        with absent.batch() as batch:
            batch.put(b"r", {b"f:q": b"v"})

    for call in (
        lambda: absent.put(b"r", {b"f:q": b"v"}),
        lambda: absent.row(b"r"),
        lambda: absent.increment(b"r", b"f:n"),
        lambda: list(absent.scan()),
        lambda: db.flush("absent"),
        lambda: db.truncate_table("absent"),
        lambda: db.drop_table("absent"),
    ):
        with pytest.raises(rowlock.TableNotFoundError, match="absent"):
            call()
    with pytest.raises(rowlock.BatchError, match="absent"):
        batch()


@pytest.mark.parametrize(
    ("mutation", "code"),
    [
        (put(b"", b"v"), Error.INVALID_ARGUMENT),
        (put(b"r" * 1001, b"v"), Error.LIMIT_EXCEEDED),
        (put(b"r", b"v", qualifier=b"q" * 1001), Error.LIMIT_EXCEEDED),
        (put(b"r", bytes((1 << 20) + 1)), Error.LIMIT_EXCEEDED),
        (put(b"r", b"v", family=b"zz"), Error.FAMILY_NOT_FOUND),
        (put(b"r", b"v", family=b""), Error.FAMILY_NOT_FOUND),
        (region_pb2.RowMutation(row=b"r"), Error.INVALID_ARGUMENT),
        (region_pb2.RowMutation(row=b"r", changes=[types_pb2.Change()]), Error.INVALID_ARGUMENT),
    ],
)
def test_an_invalid_change_is_refused_and_the_other_rows_are_changed(
    db: rowlock.Client,
    raw: RawClient,
    table: rowlock.Table[bytes],
    mutation: region_pb2.RowMutation,
    code: Error.Code,
) -> None:
    conversation = RawConversation(raw)
    batch = mutate(1, region_of(db, table), put(b"a", b"1"), mutation, put(b"b", b"2"))
    results = conversation.ask(batch).mutate.results
    assert [result.error.code for result in results] == [0, code, 0]
    assert results[1].error.message
    assert [row for row, _ in table.scan()] == [b"a", b"b", b"kept"]
    conversation.cancel()


@pytest.mark.parametrize("ahead_ms", [None, DAY_MS + 3_600_000])
@pytest.mark.parametrize("kind", ["put", "delete"])
def test_an_absurd_timestamp_is_refused(
    db: rowlock.Client, raw: RawClient, table: rowlock.Table[bytes], ahead_ms: int | None, kind: str
) -> None:
    stamps = [-1, -(1 << 63), INT64_MAX] if ahead_ms is None else [int(time.time() * 1000) + ahead_ms]
    conversation = RawConversation(raw)
    for number, stamp in enumerate(stamps):
        change = (
            types_pb2.Change(put=types_pb2.Put(family=b"f", qualifier=b"q", timestamp=stamp))
            if kind == "put"
            else types_pb2.Change(delete=types_pb2.Delete(family=b"f", qualifier=b"q", timestamp=stamp))
        )
        mutation = region_pb2.RowMutation(row=b"kept", changes=[change])
        error = conversation.ask(mutate(number, region_of(db, table), mutation)).mutate.results[0].error
        assert error.code in (Error.INVALID_ARGUMENT, Error.LIMIT_EXCEEDED)
        assert str(stamp) in error.message
    conversation.cancel()


def test_a_refused_increment_leaves_the_cell_unchanged(table: rowlock.Table[bytes]) -> None:
    table.put(
        b"c", {b"f:text": b"abc", b"f:high": struct.pack(">q", INT64_MAX), b"f:low": struct.pack(">q", -(1 << 63))}
    )
    before = table.row(b"c")
    with pytest.raises(rowlock.NotACounterError, match="8 bytes"):
        table.increment(b"c", b"f:text")
    for column, amount in ((b"f:high", 1), (b"f:low", -1)):
        with pytest.raises(rowlock.CounterOverflowError, match="64"):
            table.increment(b"c", column, amount)
    with pytest.raises(rowlock.CounterOverflowError):  # The put beside it is not made either.
        table.mutate_row(b"c", [rowlock.Put(b"g:q", b"v"), rowlock.Increment(b"f:high", 1)])
    assert table.row(b"c") == before


def test_a_filter_that_does_not_fit_is_refused_by_scans_and_conditions(table: rowlock.Table[bytes]) -> None:
    is_large = rowlock.column(b"f:q", int) > 5
    with pytest.raises(rowlock.FilterTypeError, match="kept"):
        list(table.scan(where=is_large))
    with pytest.raises(rowlock.FilterTypeError, match="kept"):
        table.check_and_mutate(b"kept", [is_large], [rowlock.Put(b"f:q", b"other")])
    with pytest.raises(rowlock.FamilyNotFoundError, match="zz"):
        list(table.scan(where=rowlock.column(b"zz:q") == b""))


@pytest.mark.parametrize("depth", [33, 90, 5000])
def test_a_deep_filter_is_refused_by_the_server_too(
    db: rowlock.Client, raw: RawClient, table: rowlock.Table[bytes], depth: int
) -> None:
    nested = types_pb2.Filter(row_prefix=b"x").SerializeToString()
    for _ in range(depth):  # Filter.not is field 3, of bytes; nesting them as messages would take time of its own.
        nested = b"\x1a" + _varint(len(nested)) + nested
    request = region_pb2.ScanRequest(region_id=region_of(db, table)).SerializeToString()
    request += b"\x32" + _varint(len(nested)) + nested  # ScanRequest.where
    scan: grpc.UnaryStreamMultiCallable[bytes, bytes] = raw.channel.unary_stream("/rowlock.v1.RegionService/Scan")
    assert refusal(lambda: list(scan(request))).code == Error.INVALID_ARGUMENT


def test_a_scan_whose_stop_is_before_its_start_is_refused(
    db: rowlock.Client, raw: RawClient, table: rowlock.Table[bytes]
) -> None:
    with pytest.raises(rowlock.InvalidArgumentError, match="before"):
        list(table.scan(b"b", b"a"))
    ranges = [region_pb2.RowRange(start=b"b", stop=b"a")]
    assert refusal(lambda: raw.scan(region_of(db, table), ranges=ranges)).code == Error.INVALID_ARGUMENT


@pytest.mark.parametrize("byte_count", [REQUEST_BYTES_MAX + 1000, REQUEST_BYTES_MAX + (3 << 20)])
def test_a_put_beyond_the_limit_is_refused_alone(table: rowlock.Table[bytes], byte_count: int) -> None:
    """The client increments meanwhile, over the same stream, and each increment is applied once."""
    counted: list[int] = []
    failed: list[BaseException] = []
    is_over = threading.Event()

    def count() -> None:
        try:
            while not is_over.is_set():
                counted.append(table.increment(b"counter", b"f:n"))
        except BaseException as error:
            failed.append(error)

    counters = [threading.Thread(target=count) for _ in range(4)]
    for counter in counters:
        counter.start()
    cell = bytes(byte_count // 8)
    for _ in range(5):
        with pytest.raises(rowlock.LimitExceededError):
            table.put(b"large", {b"f:%d" % number: cell for number in range(8)})
    is_over.set()
    for counter in counters:
        counter.join()
    assert failed == []
    assert sorted(counted) == list(range(1, len(counted) + 1))
    assert table.row(b"large") == {}


def forged_batches() -> dict[str, tuple[bytes, int]]:
    """Returns {fault: (Arrow bytes, declared size)}."""
    batch = bulk_batch([(b"row%d" % number, b"f", b"q", None, bytes(200)) for number in range(10)])
    whole = bulk_message(0, batch).arrow
    offsets = batch.column(0).buffers()[1]
    assert offsets is not None
    at = whole.index(offsets.to_pybytes()[:40])

    def stream(schema: pa.Schema, rows: pa.RecordBatch | None, compression: Literal["zstd"] | None = None) -> bytes:
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, schema, options=pa.ipc.IpcWriteOptions(compression=compression)) as writer:
            if rows is not None:
                writer.write_batch(rows)
        return sink.getvalue().to_pybytes()

    nested: pa.DataType = pa.binary()
    for _ in range(60):
        nested = pa.list_(nested)
    zeros = bulk_batch([(b"r", b"f", b"q", None, bytes(3 << 20))])
    coded = pa.RecordBatch.from_arrays(
        [batch.column(0).dictionary_encode(), *batch.columns[1:]],
        schema=batch.schema.set(0, pa.field("row", pa.dictionary(pa.int32(), pa.binary()), nullable=False)),
    )
    return {
        "no bytes": (b"", 0),
        "random": (os.urandom(1000), 1000),
        "cut in the schema": (whole[:50], batch.nbytes),
        "cut in the body": (whole[:-40], batch.nbytes),
        "offsets out of bounds": (whole[:at] + struct.pack("<i", 1 << 30) * 10 + whole[at + 40 :], batch.nbytes),
        "offsets that go back": (whole[:at] + struct.pack("<2i", 9, 3) + whole[at + 8 :], batch.nbytes),
        "negative offsets": (whole[:at] + struct.pack("<i", -9) + whole[at + 4 :], batch.nbytes),
        "more declared than allowed": (whole, 1 << 62),
        "less declared than there is": (whole, 1),
        "metadata beyond the end": (b"\xff\xff\xff\xff\xff\xff\xff\x7f" + bytes(100), 100),
        "another order of columns": (stream(*_both(batch.select([1, 0, 2, 3, 4]))), batch.nbytes),
        "a column too many": (stream(*_both(batch.append_column("x", batch.column(0)))), 2 * batch.nbytes),
        "a dictionary": (stream(coded.schema, coded), batch.nbytes),
        "nested types": (stream(pa.schema([pa.field("row", nested)]), None), 10),
        "a compressed bomb": (stream(zeros.schema, zeros, "zstd"), zeros.nbytes),
        "no cells": (stream(*_both(batch.slice(0, 0))), 0),
        "a schema alone": (stream(batch.schema, None), 0),
        "two batches": (whole[:-8] + whole[whole.index(b"\xff\xff\xff\xff", 8) :], batch.nbytes),
    }


def _both(batch: pa.RecordBatch) -> tuple[pa.Schema, pa.RecordBatch]:
    return batch.schema, batch


def test_forged_arrow_batches_are_refused_one_by_one_and_a_good_one_after_each_is_applied(
    db: rowlock.Client, raw: RawClient, table: rowlock.Table[bytes]
) -> None:
    region_id = region_of(db, table)
    good = bulk_message(region_id, bulk_batch([(b"good", b"f", b"q", None, b"v")]))
    for what, (arrow, declared) in forged_batches().items():
        forged = region_pb2.BulkBatch(region_id=region_id, arrow=arrow, uncompressed_bytes=declared)
        answers = list(raw.regions.BulkPut(iter([forged, good])))
        assert answers[0].error.code in (Error.INVALID_ARGUMENT, Error.LIMIT_EXCEEDED), what
        assert answers[0].error.message, what
        assert answers[1].cell_count == 1, what
    assert [row for row, _ in table.scan()] == [b"good", b"kept"]


@pytest.mark.parametrize(
    ("cell", "code"),
    [
        ((b"", b"f", b"q", None, b"v"), Error.INVALID_ARGUMENT),
        ((b"r" * 1001, b"f", b"q", None, b"v"), Error.LIMIT_EXCEEDED),
        ((b"r", b"f", b"q" * 1001, None, b"v"), Error.LIMIT_EXCEEDED),
        ((b"r", b"f", b"q", None, bytes((1 << 20) + 1)), Error.LIMIT_EXCEEDED),
        ((b"r", b"zz", b"q", None, b"v"), Error.FAMILY_NOT_FOUND),
        ((b"r", b"f", b"q", -1, b"v"), Error.INVALID_ARGUMENT),
        ((b"r", b"f", b"q", INT64_MAX, b"v"), Error.INVALID_ARGUMENT),
        ((b"r", b"f", b"q", INT64_MAX - 1, b"v"), Error.LIMIT_EXCEEDED),
    ],
)
def test_one_bad_cell_refuses_its_whole_bulk_batch(
    db: rowlock.Client,
    raw: RawClient,
    table: rowlock.Table[bytes],
    cell: tuple[bytes, bytes, bytes, int | None, bytes],
    code: Error.Code,
) -> None:
    message = bulk_message(region_of(db, table), bulk_batch([(b"good", b"f", b"q", None, b"v"), cell]))
    (answer,) = raw.regions.BulkPut(iter([message]))
    assert answer.error.code == code
    assert [row for row, _ in table.scan()] == [b"kept"]


PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])


def frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    """A frame of HTTP/2."""
    return struct.pack(">I", len(payload))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + payload


def converse(stream: int) -> bytes:
    """The headers that open a point stream."""
    headers = (
        (b":method", b"POST"),
        (b":scheme", b"http"),
        (b":path", b"/rowlock.v1.RegionService/Converse"),
        (b":authority", b"x"),
        (b"te", b"trailers"),
        (b"content-type", b"application/grpc"),
    )
    literal = b"".join(b"\0" + bytes([len(name)]) + name + bytes([len(value)]) + value for name, value in headers)
    return frame(1, 4, stream, literal)


@pytest.mark.parametrize(
    "sent",
    [
        os.urandom(10_000),
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        b"\x16\x03\x01\x02\x00" + bytes(500),
        PREFACE[:30],
        PREFACE + bytes([0, 64, 0, 0]),
        PREFACE + converse(1) + frame(0, 0, 1, b"\0" + struct.pack(">I", REQUEST_BYTES_MAX) + b"half a message"),
        PREFACE + b"".join(map(converse, range(1, 1001, 2))),
        PREFACE + b"".join(converse(number) + frame(3, 0, number, bytes(4)) for number in range(1, 1001, 2)),
    ],
    ids=["random", "HTTP/1", "TLS", "half a preface", "half a frame", "half a message", "500 streams", "500 resets"],
)
def test_connections_with_another_protocol_or_none_delay_no_other_client(
    refusing: str, db: rowlock.Client, table: rowlock.Table[bytes], sent: bytes
) -> None:
    host, port = refusing.rsplit(":", 1)
    connections = [socket.create_connection((host, int(port))) for _ in range(10)]
    try:
        for connection in connections:
            connection.sendall(sent)
        assert table.name in db.tables()
        patient = table.with_options(timeout=60)
        assert patient.row(b"kept") == {b"f:q": b"v"}
        assert patient.increment(b"counter", b"f:n") == 1
    finally:
        for connection in connections:
            connection.close()


def test_a_client_that_never_reads_delays_no_other_client(
    db: rowlock.Client, raw: RawClient, table: rowlock.Table[bytes]
) -> None:
    region_id = region_of(db, table)
    table.put(b"large", {b"f:q": bytes(1 << 20)})
    deaf = [RawConversation(raw) for _ in range(5)]
    for conversation in deaf:
        conversation.send(*(get(number, region_id, b"large") for number in range(50)))
        conversation.send(mutate(50, region_id, increment(b"counter")))
    patient = table.with_options(timeout=60)
    assert patient.row(b"kept") == {b"f:q": b"v"}
    assert patient.increment(b"mine", b"f:n") == 1
    for conversation in deaf:
        conversation.cancel()


def _varint(number: int) -> bytes:
    groups = bytearray()
    while number > 0x7F:
        groups.append(number & 0x7F | 0x80)
        number >>= 7
    groups.append(number)
    return bytes(groups)


@pytest.mark.parametrize("setting", ["log_segment_bytes=0", "worker_threads=0"])
def test_an_unworkable_setting_is_refused(tmp_path: Path, setting: str) -> None:
    with ServerCommand("--data", tmp_path / "data", "--listen", "127.0.0.1:0", "--config", setting) as server:
        code, output, errors = server.ended()
    assert (code, output) == (2, "")
    assert errors.startswith(f"rowlock-server: can't start: {setting.split('=')[0]} must be at least 1")
    assert errors.count("\n") == 1


@pytest.mark.parametrize("setting", ["row_bytes_max=65536", "qualifier_bytes_max=64KiB"])
def test_a_limit_beyond_what_the_log_can_hold_is_refused(tmp_path: Path, setting: str) -> None:
    with ServerCommand("--data", tmp_path / "data", "--listen", "127.0.0.1:0", "--config", setting) as server:
        code, output, errors = server.ended()
    assert (code, output) == (2, "")
    name = setting.split("=")[0]
    assert errors == f"rowlock-server: can't start: {name} must be at most 65535, it is 65536\n"


def test_requests_larger_than_a_message_are_refused(tmp_path: Path) -> None:
    most = (2 << 30) - (1 << 20) - 1
    arguments = ("--data", tmp_path / "data", "--listen", "127.0.0.1:0", "--config")
    with ServerCommand(*arguments, f"request_bytes_max={most + 1}") as server:
        code, output, errors = server.ended()
    assert (code, output) == (2, "")
    assert errors == f"rowlock-server: can't start: request_bytes_max must be at most {most}, it is {most + 1}\n"
    with ServerCommand(*arguments, "request_bytes_max=128MiB") as server:
        assert server.ready()
