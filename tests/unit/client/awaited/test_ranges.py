"""Whether a row exists, how many rows a range has, and the deletion of ranges in pieces (asyncio)."""

from __future__ import annotations

from typing import Any

import pytest
import rowlock
from rowlock import column
from rowlock.errors import InvalidArgumentError, PartlyDeletedError
from rowlock_proto.v1 import region_pb2, types_pb2

from tests.unit.client.fake_errors import Mishap, error
from tests.unit.client.fake_server import FakeServer
from tests.unit.client.test_scans import batch, requested_ranges

MAPPING = "user STRING :key, orders BIGINT count:orders, score DOUBLE model:score"


def deleted_rows(request: region_pb2.PointRequest) -> list[bytes]:
    """The rows that a request deletes as a whole."""
    for mutation in request.mutate.mutations:
        [change] = mutation.changes
        assert change.delete.kind == types_pb2.Delete.KIND_ROW
    return [mutation.row for mutation in request.mutate.mutations]


async def test_a_row_exists_if_it_has_a_cell(db: rowlock.aio.Client, fake_server: FakeServer) -> None:
    for table in (db.table("t"), db.table("t", mapping=MAPPING)):
        assert not await table.exists("nobody")
        # Whatever its column.
        fake_server.rows[b"alice"] = {(b"other", b"x"): b"?"}
        assert await table.exists("alice")
        get = fake_server.requests[-1].get
        assert (get.cells.first_key_only, get.cells.keys_only, len(get.columns)) == (True, True, 0)


async def test_rows_are_counted_by_their_keys(db: rowlock.aio.Client, fake_server: FakeServer) -> None:
    fake_server.scan = lambda request: iter([batch(b"a", b"b"), batch(b"c")])
    for table in (db.table("t"), db.table("t", mapping=MAPPING)):
        seen: list[int] = []
        assert await table.count("a", "x", on_progress=seen.append) == 3
        assert seen == [2, 3]
        [request] = fake_server.scans
        assert requested_ranges(request) == [(b"a", b"x")]
        assert request.HasField("row_form")
        assert list(request.row_form.columns) == []
        fake_server.scans.clear()
    assert await db.table("t").count(columns=["f:x"]) == 3
    [asked] = fake_server.scans[0].columns
    assert (asked.family, asked.qualifier) == (b"f", b"x")


async def test_a_range_is_deleted_in_pieces(db: rowlock.aio.Client, fake_server: FakeServer) -> None:
    rows = [b"r%04d" % number for number in range(2500)]
    fake_server.scan = lambda request: iter([batch(*rows)])
    seen: list[int] = []
    assert await db.table("t").delete_range(prefix="r", on_progress=seen.append) == 2500
    assert seen == [1000, 2000, 2500]
    assert [row for request in fake_server.requests for row in deleted_rows(request)] == rows
    assert not any(mutation.HasField("condition") for mutation in fake_server.requests[0].mutate.mutations)
    assert requested_ranges(fake_server.scans[0]) == [(b"r", b"s")]


async def test_rows_are_deleted_while_the_filter_matches_them(
    db: rowlock.aio.Client, fake_server: FakeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_server.scan = lambda request: iter([batch(b"a", b"b", b"c")])
    where = column("f:q") == "x"
    carried_out = fake_server._mutate

    def mutate(mutation: region_pb2.RowMutation) -> region_pb2.MutationResult:
        """Answers that row b no longer matches."""
        result = carried_out(mutation)
        result.condition_met = mutation.row != b"b"
        return result

    monkeypatch.setattr(fake_server, "_mutate", mutate)
    assert await db.table("t").delete_range("a", "d", where=where) == 2
    assert fake_server.scans[0].where == where.message
    assert [mutation.condition.filter for mutation in fake_server.requests[0].mutate.mutations] == [where.message] * 3


async def test_typed_ranges_are_deleted_as_whole_rows(db: rowlock.aio.Client, fake_server: FakeServer) -> None:
    fake_server.scan = lambda request: iter([batch(b"alice", b"bob")])
    table = db.table("t", mapping=MAPPING)
    assert await table.delete_range("a", where=table.column("orders") > 5) == 2
    assert deleted_rows(fake_server.requests[-1]) == [b"alice", b"bob"]
    filtered = fake_server.requests[-1].mutate.mutations[0].condition.filter
    assert filtered.column.operand == (5).to_bytes(8, "big")


async def test_a_stopped_deletion_says_what_it_deleted(db: rowlock.aio.Client, fake_server: FakeServer) -> None:
    rows = [b"r%04d" % number for number in range(2500)]
    fake_server.scan = lambda request: iter([batch(*rows)])
    refused = error(types_pb2.Error.CORRUPTION, "the file is damaged")
    fake_server.script.extend([Mishap.NONE, refused])
    with pytest.raises(PartlyDeletedError) as raised:
        await db.table("t").delete_range("r")
    assert (raised.value.row_count, raised.value.row, raised.value.table) == (1000, b"r1000", "t")
    assert raised.value.message.startswith("1000 rows of table 't' were deleted, and not all from row 'r1000' on: ")
    assert raised.value.message.endswith(". The same call again deletes the others")
    assert "the file is damaged" in raised.value.message


async def test_an_error_before_the_first_deletion_is_raised_as_it_is(
    db: rowlock.aio.Client, fake_server: FakeServer
) -> None:
    def scan(request: region_pb2.ScanRequest) -> Any:
        raise ConnectionError("the connection was cut")

    fake_server.scan = scan
    with pytest.raises(rowlock.DeadlineError):
        await db.table("t").with_options(timeout=0.2).delete_range("r")
    assert fake_server.requests == []


async def test_all_rows_are_not_deleted_by_a_forgotten_argument(db: rowlock.aio.Client) -> None:
    for table in (db.table("t"), db.table("t", mapping=MAPPING)):
        with pytest.raises(InvalidArgumentError, match=r"no range is given: .*; truncate_table\(\) deletes all rows"):
            await table.delete_range()
        with pytest.raises(InvalidArgumentError, match="no range is given"):
            await table.delete_range(where=rowlock.row_key().starts_with("a"))


@pytest.mark.parametrize(
    "bounds",
    [
        {"prefix": ""},
        {"start": ""},
        {"stop": ""},
        {"start": "", "stop": ""},
        {"ranges": [(None, None)]},
        {"ranges": [("a", "b"), ("", "")]},
        {"ranges": [(None, "b"), ("b", None)]},
    ],
)
async def test_all_rows_are_not_deleted_by_empty_bounds(
    db: rowlock.aio.Client, fake_server: FakeServer, bounds: dict[str, Any]
) -> None:
    fake_server.scan = lambda request: iter([batch(b"alice", b"bob")])
    for table in (db.table("t"), db.table("t", mapping=MAPPING)):
        with pytest.raises(InvalidArgumentError, match="no range is given: "):
            await table.delete_range(**bounds)
    assert fake_server.scans == fake_server.requests == []
