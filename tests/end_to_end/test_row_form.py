"""Scans in row form from a real server: by the protocol alone, and by the client."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby

import grpc
import pyarrow as pa
import pytest
import rowlock
import rowlock.aio
from rowlock._codec.row_form import FormColumn
from rowlock_proto.v1 import region_pb2, types_pb2
from rowlock_proto.v1.region_pb2 import RowForm, RowFormColumn
from rowlock_proto.v1.types_pb2 import Error
from rowlock_regionserver.config import Config
from rowlock_regionserver.server import Server

from tests.end_to_end.raw_client import RawClient, evidence, read_batch
from tests.unit.client.plain_row_form import form_schema

ROW_COUNT = 1500
COLUMNS = [
    FormColumn(family, qualifier, is_timestamp)
    for family, qualifier in ((b"f", b"a"), (b"g", b""), (b"f", b"b"))
    for is_timestamp in (False, True)
]
VALUE = RowFormColumn.PART_VALUE


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    config = Config(request_bytes_max=1 << 20, scan_window_bytes=1 << 16)
    with Server(tmp_path_factory.mktemp("data") / "folder", config=config) as server:
        yield server


@pytest.fixture(scope="module")
def db(server: Server) -> Iterator[rowlock.Client]:
    with rowlock.connect(server.address, timeout=60) as db:
        yield db


@pytest.fixture(scope="module")
def table(db: rowlock.Client) -> rowlock.Table[bytes]:
    """Rows with some of the columns, several versions and deletions; half of them in a store file."""
    table = db.create_table("t", {"f": rowlock.Family(versions=2), "g": rowlock.Family()})
    generator = random.Random(3)
    for half in range(2):
        with table.batch() as batch:
            for row in range(ROW_COUNT):
                names = [name for name in ("f:a", "f:b", "g:", "g:unasked") if generator.random() < 0.5]
                if names:
                    data = {name: generator.randbytes(generator.choice([0, 8, 8, 100])) for name in names}
                    batch.put(f"{row:05d}", data, timestamp=10 * half + generator.randint(1, 9))
        if half == 0:
            with table.batch() as batch:
                for row in range(0, ROW_COUNT, 7):
                    batch.delete(f"{row:05d}", ["f:a"])
            db.flush("t")
    return table


@pytest.fixture
def raw(server: Server) -> Iterator[RawClient]:
    with RawClient(server.address) as client:
        yield client


Line = tuple[object, ...]


def laid_out(cells: Iterable[rowlock.Cell[bytes]], columns: Sequence[FormColumn]) -> list[Line]:
    """Returns cells of whole rows in row form, in plain Python."""
    lines: list[Line] = []
    for row, of_row in groupby(cells, key=lambda cell: cell.row):
        newest: dict[bytes, rowlock.Cell[bytes]] = {}
        for cell in of_row:
            newest.setdefault(cell.column, cell)
        line: list[object] = [row]
        for column in columns:
            found = newest.get(column.family + b":" + column.qualifier)
            line.append(None if found is None else found.timestamp if column.is_timestamp else found.value)
        lines.append(tuple(line))
    return lines


def read_rows(read: pa.Table) -> list[Line]:
    """Returns the rows that a mapping read, whose first column is the key as text."""
    return [(row.encode(), *rest) for row, *rest in zip(*read.to_pydict().values(), strict=True)]


def lines_of(batches: Iterable[pa.RecordBatch]) -> list[Line]:
    return [line for batch in batches for line in zip(*[column.to_pylist() for column in batch.columns], strict=True)]


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"reverse": True},
        {"limit": 100, "versions": 2},
        {"columns": ["f:a", "f:b", "g:"], "limit": 500},
        {"start": "00100", "stop": "00900", "batch_bytes": 500},
        {"where": rowlock.column("f:b").is_present(), "time_range": (5, 15)},
        {"ranges": [("00010", "00020"), ("01000", None)], "keys_only": True},
    ],
)
def test_the_row_form_lays_out_the_cells_that_the_same_scan_gives(
    table: rowlock.Table[bytes], options: dict[str, object]
) -> None:
    """Also of rows that have none of the form's columns, unless the scan chooses columns."""
    expected = laid_out(table.scan(**options).cells(), COLUMNS)  # type: ignore[arg-type]  # the case's
    assert len(expected) > 50
    assert "columns" in options or any(set(line[1:]) == {None} for line in expected)
    batches = list(table.scan(**options).form_batches(COLUMNS))  # type: ignore[arg-type]
    assert {batch.schema for batch in batches} == {form_schema(COLUMNS)}
    assert lines_of(batches) == expected


def test_a_mapping_reads_by_the_row_form_alike_in_both_clients(server: Server, table: rowlock.Table[bytes]) -> None:
    mapping = rowlock.Mapping("k STRING :key, b BINARY f:b, unasked BINARY g:unasked, a BINARY f:a")
    columns = [FormColumn(column.family, column.qualifier) for column in mapping.values]
    read = table.scan().to_arrow(mapping)
    assert read_rows(read) == laid_out(table.scan().cells(), columns)
    mapped_only = table.scan(columns=mapping.cell_columns)
    expected = laid_out(table.scan(columns=["f:b", "g:unasked", "f:a"]).cells(), columns)
    assert read_rows(mapped_only.to_arrow(mapping)) == expected
    assert len(expected) < read.num_rows

    async def read_by_asyncio() -> tuple[pa.Table, list[Line]]:
        async with rowlock.aio.connect(server.address, timeout=60) as db:
            mapped = await db.table("t").scan().to_arrow(mapping)
            return mapped, lines_of([batch async for batch in db.table("t").scan().form_batches(columns)])

    mapped, lines = asyncio.run(read_by_asyncio())
    assert mapped.equals(read)
    assert lines == read_rows(read)


def test_columns_that_were_not_chosen_are_null(table: rowlock.Table[bytes]) -> None:
    expected = [(row, a, None) for row, a in laid_out(table.scan(columns=["f:a"]).cells(), COLUMNS[:1])]
    assert lines_of(table.scan(columns=["f:a"]).form_batches([COLUMNS[0], COLUMNS[2]])) == expected


def test_a_form_without_columns_gives_the_keys(table: rowlock.Table[bytes]) -> None:
    assert lines_of(table.scan().form_batches([])) == [(row,) for row, _ in table.scan()]


def test_a_row_is_never_cut(table: rowlock.Table[bytes], raw: RawClient) -> None:
    form = RowForm(columns=[RowFormColumn(family=b"f", qualifier=b"a")])
    request = region_pb2.ScanRequest(region_id=raw.region_id("t"), row_form=form, batch_bytes=1)
    batches = list(raw.regions.Scan(request))
    assert [read_batch(batch).num_rows for batch in batches] == [batch.row_count for batch in batches]
    assert {batch.row_count for batch in batches} == {1}
    assert not any(batch.row_continues for batch in batches)
    assert len({batch.read_point for batch in batches}) == 1


def test_a_row_larger_than_an_answer_is_refused_by_its_name(db: rowlock.Client) -> None:
    table = db.create_table("large", ["f"])
    table.put("a", {"f:0": "small"})
    for number in range(3):
        table.put("b", {f"f:{number}": b"x" * 400_000})
    columns = [FormColumn(b"f", b"%d" % number) for number in range(3)]
    assert len(lines_of(table.scan().form_batches(columns[:2]))) == 2
    scanning = table.scan(batch_bytes=500_000).form_batches(columns)
    assert next(scanning).column("row").to_pylist() == [b"a"]
    with pytest.raises(rowlock.LimitExceededError, match="row 'b' takes 1200017 bytes in row form"):
        next(scanning)


@pytest.mark.parametrize(
    ("columns", "requested", "code"),
    [
        ([(b"zz", b"q", VALUE)], [], Error.FAMILY_NOT_FOUND),
        ([(b"f", b"q", VALUE), (b"f", b"q", VALUE)], [], Error.INVALID_ARGUMENT),
        ([(b"f", b"q", VALUE)], [b"r"], Error.INVALID_ARGUMENT),
        ([(b"f", b"q", 7)], [], Error.INVALID_ARGUMENT),
        ([(b"f", b"%d" % number, VALUE) for number in range(10_001)], [], Error.LIMIT_EXCEEDED),
        ([(b"f", b"q" * 40_000, VALUE)], [], Error.LIMIT_EXCEEDED),
    ],
)
def test_an_invalid_form_is_refused(
    table: rowlock.Table[bytes],
    raw: RawClient,
    columns: list[tuple[bytes, bytes, RowFormColumn.Part]],
    requested: list[bytes],
    code: Error.Code,
) -> None:
    form = RowForm(columns=[RowFormColumn(family=name[0], qualifier=name[1], part=name[2]) for name in columns])
    named = [types_pb2.Column(family=b"f", qualifier=qualifier) for qualifier in requested]
    with pytest.raises(grpc.RpcError) as failed:
        raw.scan(raw.region_id("t"), row_form=form, columns=named)
    assert evidence(failed.value).code == code


def test_a_form_of_as_many_columns_as_there_may_be_is_answered(table: rowlock.Table[bytes], raw: RawClient) -> None:
    form = RowForm(columns=[RowFormColumn(family=b"f", qualifier=b"%d" % number) for number in range(9_999)])
    form.columns.add(family=b"f", qualifier=b"a")
    read = raw.scan(raw.region_id("t"), row_form=form, row_limit=20)
    assert (read.num_rows, read.num_columns) == (20, 10_001)
    assert read.column("9998").null_count == 20
    expected = table.scan(columns=["f", "g"], limit=20).form_batches(COLUMNS[:1])
    assert read.column("9999").to_pylist() == [value for _, value in lines_of(expected)]
