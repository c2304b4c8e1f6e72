# Made from tests/unit/client/awaited/test_typed_tables.py by tools/async_to_sync.py: change that, then `make faces`.
"""Typed tables: rows of Python values, and the mapping that a table keeps and changes (threads)."""

from __future__ import annotations

import datetime
from typing import Any, TypedDict

import pyarrow as pa
import pytest
import rowlock
from rowlock.changes import Change
from rowlock.errors import MappingError
from rowlock_proto.v1 import region_pb2, types_pb2

from tests.unit.client.fake_server import FakeServer
from tests.unit.client.test_bulk import read

MAPPING = "user STRING :key, orders BIGINT count:orders, score DOUBLE model:score, at TIMESTAMP :timestamp"
FEW = "user STRING :key, orders BIGINT count:orders"


def changes_of(server: FakeServer) -> list[types_pb2.Change]:
    """The changes of the last request."""
    return list(server.requests[-1].mutate.mutations[0].changes)


def test_a_row_is_read_as_it_was_put(db: rowlock.Client, fake_server: FakeServer) -> None:
    table = db.table("t", mapping=MAPPING)
    table.put("alice", {"orders": 7, "score": 0.5})
    assert table.row("alice") == {"orders": 7, "score": 0.5}
    assert fake_server.rows[b"alice"][(b"count", b"orders")] == (7).to_bytes(8, "big")
    table.put("bob", {"orders": 1})
    assert table.row("bob") == {"orders": 1, "score": None}
    assert table.row("bob", ["orders"]) == {"orders": 1}
    assert table.row("nobody") == {}
    assert table.row("alice", include_timestamp=True) == {"orders": (7, 1), "score": (0.5, 1)}
    assert table.rows(["bob", "nobody", "alice"]) == [
        ("bob", {"orders": 1, "score": None}),
        ("nobody", {}),
        ("alice", {"orders": 7, "score": 0.5}),
    ]
    assert table.cells("bob", "orders") == [(1, 1)]
    assert table.counter("bob", "orders") == 1
    assert table.mapping.text == MAPPING
    assert table.name == "t"


def test_only_the_columns_of_the_mapping_are_asked_for(db: rowlock.Client, fake_server: FakeServer) -> None:
    table = db.table("t", mapping=MAPPING)
    table.row("alice")
    asked = [(column.family, column.qualifier) for column in fake_server.requests[-1].get.columns]
    assert asked == [(b"count", b"orders"), (b"model", b"score")]
    table.rows(["alice"], ["score"])
    assert [column.qualifier for column in fake_server.requests[-1].get.columns] == [b"score"]
    # What else the row has is not in the way.
    fake_server.rows[b"alice"] = {(b"other", b"x"): b"?", (b"model", b"score"): b"\x3f\xe0" + bytes(6)}
    assert table.row("alice") == {"orders": None, "score": 0.5}


def test_none_deletes_a_cell_in_the_same_change(db: rowlock.Client, fake_server: FakeServer) -> None:
    table = db.table("t", mapping=MAPPING)
    for call in (table.put, table.update):
        call("alice", {"orders": 7, "score": None}, timestamp=5)
        put, delete = changes_of(fake_server)
        assert (put.put.qualifier, put.put.timestamp) == (b"orders", 5)
        assert (delete.delete.qualifier, delete.delete.kind, delete.delete.timestamp) == (
            b"score",
            types_pb2.Delete.KIND_COLUMN,
            5,
        )
    table.update("alice", {"score": None})
    [delete] = changes_of(fake_server)
    assert delete.delete.qualifier == b"score"
    # A new row has no cells to delete.
    assert table.create("carl", {"orders": 7, "score": None})
    [put] = changes_of(fake_server)
    assert put.put.qualifier == b"orders"
    existence = fake_server.requests[-1].mutate.mutations[0].condition.existence
    assert existence == region_pb2.Condition.EXISTENCE_ABSENT
    with pytest.raises(rowlock.InvalidArgumentError, match="all columns are None"):
        table.create("carl", {"score": None})
    with pytest.raises(rowlock.InvalidArgumentError, match="no column is given"):
        table.put("carl", {})


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (
            ["user", "orders", "scor"],
            r"^the data has the column 'scor', which the mapping does not name \(did you mean 'score'\?\): rename it, "
            "or leave it out of the data. The mapping has user, orders, score, at$",
        ),
        (["user", "scor"], r"the column 'scor', .*\(did you mean 'score'\?\)"),
        (["usr", "score"], r"the column 'usr', .*\(did you mean 'user'\?\)"),
        (["user", "score", "AT"], r"the column 'AT', .*\(did you mean 'at'\?\)"),
        # What is like a name that the data has was not meant.
        (["user", "score", "score2"], r"the column 'score2', which the mapping does not name: rename it"),
        (["user", "zz", "score"], "the column 'zz', which the mapping does not name: rename it"),
    ],
)
def test_a_column_of_the_data_that_the_mapping_does_not_name_is_refused(
    db: rowlock.Client, fake_server: FakeServer, columns: list[str], message: str
) -> None:
    table = db.table("t", mapping=MAPPING)
    data = pa.table({name: ["a" if name in ("user", "usr") else 1] for name in columns})
    for form in (data, data.to_pandas()):
        with pytest.raises(MappingError, match=message):
            table.put_arrow(form)
    assert not fake_server.bulks


def test_the_unnamed_index_of_a_data_frame_is_no_column(db: rowlock.Client, fake_server: FakeServer) -> None:
    table = db.table("t", mapping=MAPPING)
    frame = pa.table({"user": ["a", "b", "c"], "score": [0.1, 0.2, 0.3]}).to_pandas()
    chosen = frame[frame.score != 0.2]
    assert "__index_level_0__" in pa.RecordBatchReader.from_stream(chosen).schema.names
    assert table.put_arrow(chosen).row_count == 2
    with pytest.raises(MappingError, match="the column 'number'"):
        table.put_arrow(chosen.rename_axis("number"))


def test_the_time_of_a_row_is_the_timestamp_of_its_cells(db: rowlock.Client, fake_server: FakeServer) -> None:
    table = db.table("t", mapping=MAPPING)
    moment = datetime.datetime(2024, 1, 1, microsecond=1999)
    table.put("alice", {"orders": 7, "score": None, "at": moment})
    put, delete = changes_of(fake_server)
    assert put.put.timestamp == delete.delete.timestamp == 1704067200001
    table.put("alice", {"orders": 7, "at": None})
    assert not changes_of(fake_server)[0].put.HasField("timestamp")
    batch = pa.table({"user": ["a", "b"], "orders": [1, 2], "score": [0.1, None], "at": [moment, None]})
    table.put_arrow(batch, timestamp=9)
    assert read(fake_server.bulks[-1]).column("timestamp").to_pylist() == [1704067200001, 1704067200001, 9]
    table.put_arrow(batch.drop_columns(["at"]))
    assert read(fake_server.bulks[-1]).column("timestamp").to_pylist() == [None, None, None]
    # Columns that the data lacks are not written.
    table.put_arrow(batch.select(["user", "score"]))
    assert read(fake_server.bulks[-1]).column("qualifier").to_pylist() == [b"score"]
    with pytest.raises(MappingError, match="the column 'user' is not in the data"):
        table.put_arrow(batch.select(["score"]))
    with pytest.raises(MappingError, match="no column of the mapping besides the key; those are orders, score"):
        table.put_arrow(batch.select(["user"]))
    with pytest.raises(rowlock.InvalidArgumentError, match="given twice, by the column 'at' and as timestamp"):
        table.put("alice", {"orders": 7, "at": moment}, timestamp=5)
    with pytest.raises(MappingError, match="the timestamp of a cell is not before 1970"):
        table.put("alice", {"orders": 7, "at": datetime.datetime(1969, 1, 1)})
    with pytest.raises(TypeError, match="the column 'at' is TIMESTAMP and takes a datetime"):
        table.put("alice", {"orders": 7, "at": 5})
    with pytest.raises(rowlock.InvalidArgumentError, match="no column is given"):
        table.put("alice", {"at": moment})
    with pytest.raises(MappingError, match="the mapping has no column 'at'"):
        table.row("alice", ["at"])
    numbers = db.table("t", mapping="user STRING :key, orders BIGINT count:orders, at BIGINT :timestamp")
    numbers.put("alice", {"orders": 7, "at": 17})
    assert changes_of(fake_server)[0].put.timestamp == 17


def test_changes_and_their_results_are_typed(db: rowlock.Client, fake_server: FakeServer) -> None:
    table = db.table("t", mapping="user STRING :key, orders BIGINT count:orders, note STRING info:note")
    assert table.increment("alice", "orders", 3) == 3
    assert table.append("alice", "note", "ä") == "ä"
    made: list[Change] = [
        rowlock.Put("note", "b"),
        rowlock.Append("note", "ü"),
        rowlock.Increment("orders"),
        rowlock.Put("note", None),
        rowlock.Delete("orders", exact=True),
        rowlock.Delete(),
    ]
    assert table.mutate_row("alice", made) == [None, "bü", 4, None, None, None]
    kinds = [change.WhichOneof("change") for change in changes_of(fake_server)]
    assert kinds == ["put", "append", "increment", "delete", "delete", "delete"]
    table.delete("alice", ["note"])
    [change] = changes_of(fake_server)
    assert (change.delete.family, change.delete.qualifier) == (b"info", b"note")
    table.delete("alice")
    assert changes_of(fake_server)[0].delete.kind == types_pb2.Delete.KIND_ROW
    with table.batch() as batch:
        batch.put("a", {"orders": 1, "note": None})
        batch.increment("a", "orders", 2)
        batch.append("a", "note", "x")
        batch.delete("b")
        batch.delete("b", ["note"])
        batch.mutate_row("c", [rowlock.Put("orders", 5)])
    assert batch.applied_count == 3
    assert table.row("c") == {"orders": 5, "note": None}


def test_checks_are_typed_and_find_typed_values(db: rowlock.Client, fake_server: FakeServer) -> None:
    """A check is a comparison of bytes if that is the same, so that it is answered by every server."""
    table = db.table("t", mapping=MAPPING)
    table.put("alice", {"orders": 7, "score": 0.5})
    result = table.check_and_put("alice", "orders", 7, {"score": 0.25})
    assert (result.applied, result.current, result.seen, result.results) == (True, 7, {"orders": 7}, [None])
    condition = fake_server.requests[-1].mutate.mutations[0].condition
    assert condition.checks[0].operand == (7).to_bytes(8, "big")
    assert not condition.HasField("filter")
    absent = table.check_and_delete("bob", "score", None, ["orders"])
    assert (bool(absent), absent.current, absent.seen) == (True, None, {"score": None})
    table.check_and_put("alice", "score", 0.5, {"orders": 1}, op="<")
    condition = fake_server.requests[-1].mutate.mutations[0].condition
    assert not condition.checks
    assert condition.filter.column.type == types_pb2.VALUE_TYPE_FLOAT64
    both = table.check_and_mutate(
        "alice", [rowlock.Check("orders", 7), table.column("score") > 0.1], [rowlock.Increment("orders")]
    )
    assert both.results == [2]
    single = table.check_and_mutate("alice", [table.column("score") > 0.1], [rowlock.Put("orders", 5)])
    assert single.applied
    with pytest.raises(TypeError, match="then must be a list of changes, not one"):
        table.check_and_mutate("alice", [rowlock.Check("orders", 7)], rowlock.Put("orders", 5))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("message", "call"),
    [
        (
            r"the mapping has no column 'count:orders' \(did you mean 'orders'\?\); its columns are orders, score",
            lambda t: t.put("a", {"count:orders": 1}),
        ),
        ("'user' is part of the key", lambda t: t.put("a", {"user": "a"})),
        (r"'user' is part of the key, .*by a scan's start, stop or prefix, .*row_key\(\)", lambda t: t.column("user")),
        ("the column 'orders' can't be 9223372036854775808", lambda t: t.put("a", {"orders": 1 << 63})),
        ("the column 'score' is DOUBLE as 'binary'; only a BIGINT", lambda t: t.increment("a", "score")),
        ("the column 'score' is DOUBLE; only a STRING or BINARY", lambda t: t.append("a", "score", "1")),
        ("the key has one part, user, and 2 are given", lambda t: t.row(("a", "b"))),
        ("the mapping has no column 'x'", lambda t: t.delete("a", ["x"])),
        ("the mapping has no column 'x'", lambda t: t.check_and_put("a", "x", 1, {"orders": 1})),
        ("the mapping has no column 'x'", lambda t: t.mutate_row("a", [rowlock.Put("x", 1)])),
    ],
)
def test_what_does_not_fit_the_mapping_is_refused_before_anything_is_sent(
    db: rowlock.Client, fake_server: FakeServer, message: str, call: Any
) -> None:
    with pytest.raises(MappingError, match=message):
        call(db.table("t", mapping=MAPPING))
    assert not fake_server.requests


@pytest.mark.parametrize(
    ("message", "call"),
    [
        ("the column 'orders' is BIGINT and takes an int, not str: '7'", lambda t: t.put("a", {"orders": "7"})),
        ("the key column 'user' is STRING and takes a str, not int: 5", lambda t: t.row(5)),
        ("data must be a dict of names and values, not list", lambda t: t.put("a", [1])),
        ("keys must be a list of keys, not one", lambda t: t.rows("alice")),
        (r"columns must be a list of names, not one: \['score'\]", lambda t: t.row("a", "score")),
        ("a change must be a rowlock.Put", lambda t: t.mutate_row("a", ["x"])),
        ("changes must be a list of changes, not one", lambda t: t.mutate_row("a", rowlock.Put("orders", 1))),
        ("a check must be a rowlock.Check or a filter", lambda t: t.check_and_mutate("a", ["x"], [])),
    ],
)
def test_wrong_types_are_refused_before_anything_is_sent(
    db: rowlock.Client, fake_server: FakeServer, message: str, call: Any
) -> None:
    with pytest.raises(TypeError, match=message):
        call(db.table("t", mapping=MAPPING))
    assert not fake_server.requests


def test_bytes_that_do_not_fit_are_an_error_with_row_and_column(db: rowlock.Client, fake_server: FakeServer) -> None:
    fake_server.rows[b"alice"] = {(b"count", b"orders"): b"7"}
    with pytest.raises(
        MappingError, match=r"count:orders of row 'alice' can't be read as BIGINT binary: a value has 1"
    ) as e:
        db.table("t", mapping=FEW).row("alice")
    assert (e.value.row, e.value.column) == (b"alice", b"count:orders")


class Features(TypedDict, total=False):
    score: float | None


class WrongType(TypedDict):
    score: int | None


class NeverAbsent(TypedDict):
    score: float


class WrongName(TypedDict):
    x: float | None


def test_a_row_type_chooses_the_columns(db: rowlock.Client, fake_server: FakeServer) -> None:
    table = db.table("t", mapping=MAPPING, row_type=Features)
    table.put("alice", {"score": 0.5})
    assert table.row("alice") == {"score": 0.5}
    assert [column.qualifier for column in fake_server.requests[-1].get.columns] == [b"score"]
    # Arrow data has all columns.
    table.put_arrow(pa.table({"user": ["a"], "orders": [1], "score": [0.1]}))
    assert read(fake_server.bulks[-1]).num_rows == 2


# The mapping that a table keeps


def test_a_table_is_opened_by_the_mapping_that_it_keeps(db: rowlock.Client, fake_server: FakeServer) -> None:
    with pytest.raises(MappingError, match="table 't' keeps no mapping; pass one to table"):
        db.typed_table("t")
    fake_server.mapping = FEW
    table = db.typed_table("t")
    assert table.mapping.text == FEW
    table.put("alice", {"orders": 7})
    assert table.row("alice") == {"orders": 7}
    with pytest.raises(MappingError, match=r"Features.score|the mapping has no column 'score'"):
        db.typed_table("t", row_type=Features)


def test_a_mapping_that_contradicts_the_kept_one_is_refused_by_every_call(
    db: rowlock.Client, fake_server: FakeServer
) -> None:
    fake_server.mapping = FEW
    wrong = "user STRING :key, orders INT count:orders"
    table = db.table("t", mapping=wrong)
    with pytest.raises(MappingError, match="count:orders is BIGINT binary, and not INT binary"):
        table.put("alice", {"orders": 7})
    with pytest.raises(MappingError, match="does not agree"):
        table.row("alice")
    with pytest.raises(MappingError, match="does not agree"), table.batch() as batch:
        batch.put("alice", {"orders": 7})
    with pytest.raises(MappingError, match="does not agree"):
        table.scan().to_arrow()
    with pytest.raises(MappingError, match="does not agree"):
        db.table("t").scan().to_arrow(wrong)
    with pytest.raises(MappingError, match="does not agree"):
        db.table("t").put_arrow(pa.table({"user": ["a"], "orders": [1]}), wrong)
    assert not fake_server.requests
    assert not fake_server.bulks
    assert not fake_server.scans
    # Bytes are not checked.
    db.table("t").put("alice", {"count:orders": "7"})


def test_part_of_a_composite_key_is_refused_instead_of_read_as_garbage(
    db: rowlock.Client, fake_server: FakeServer
) -> None:
    fake_server.mapping = "day DATE :key, carrier STRING :key, delay INT info:delay"
    with pytest.raises(MappingError, match=r"the key has 2 parts, \(day, carrier\), and not one part, day"):
        db.table("t").scan().to_arrow("day STRING :key, delay INT info:delay")
    table = db.typed_table("t")
    with pytest.raises(MappingError, match=r"the key has 2 parts, \(day, carrier\), and 1 is given"):
        table.row(datetime.date(2013, 1, 1))
    assert not fake_server.scans


def test_a_table_of_the_kept_mapping_follows_it_when_a_value_does_not_fit(
    db: rowlock.Client, fake_server: FakeServer
) -> None:
    fake_server.mapping = "user STRING :key, n INT f:n"
    table = db.typed_table("t")
    table.put("old", {"n": 5})
    fake_server.mapping = "user STRING :key, n BIGINT f:n was INT, m INT f:m"
    # What fits still goes by what is known, without a lookup.
    lookups = fake_server.locate_count
    table.put("still", {"n": 6})
    assert table.row("old") == {"n": 5}
    assert fake_server.locate_count == lookups
    # What does not fit is looked up again: when it is written,
    table.put("new", {"n": 1 << 40})
    assert fake_server.rows[b"new"][(b"f", b"n")] == (1 << 40).to_bytes(8, "big")
    assert table.row("old") == {"n": 5, "m": None}
    # and when it is read.
    fake_server.mapping = "user STRING :key, n DECIMAL(30,2) f:n was INT"
    fake_server.rows[b"newest"] = {(b"f", b"n"): bytes(4) + b"\1"}
    with pytest.raises(MappingError, match=r"another scale|instead of 8"):
        table.row("newest")
    assert "DECIMAL" in table.mapping.text
    fake_server.mapping = "user STRING :key, n DECIMAL(30,0) f:n was INT"
    assert table.row("newest") == {"n": 1}
    with pytest.raises(MappingError, match="the mapping has no column 'x'"):
        table.put("a", {"x": 1})


def test_bounds_that_do_not_fit_are_encoded_by_the_kept_mapping(db: rowlock.Client, fake_server: FakeServer) -> None:
    fake_server.mapping = "n INT :key text, v INT f:v"
    fake_server.scan = lambda request: iter(())
    large = 1 << 40
    for call in ("count", "delete_range"):
        fake_server.mapping = "n INT :key text, v INT f:v"
        db._servers.regions.forget_table("t")
        table = db.typed_table("t")
        fake_server.mapping = "n BIGINT :key text, v INT f:v"
        ranges = iter([(None, large)])  # for one pass
        assert getattr(table, call)(ranges=ranges) == 0
        assert "BIGINT" in table.mapping.text


def test_a_mapping_of_ones_own_is_compared_again_when_a_value_does_not_fit(
    db: rowlock.Client, fake_server: FakeServer
) -> None:
    table = db.table("t", mapping="user STRING :key, n INT f:n")
    table.put("a", {"n": 5})
    fake_server.mapping = "user STRING :key, n BIGINT f:n was INT"
    assert table.row("a") == {"n": 5}
    with pytest.raises(MappingError, match="f:n is BIGINT binary, and not INT binary; it was widened"):
        table.put("a", {"n": 1 << 40})
    # It learns of former types.
    other = db.table("t", mapping="user STRING :key, big BIGINT f:n")
    assert other.row("a") == {"big": 5}


def test_a_kept_mapping_that_was_dropped_goes_on_for_who_has_it(db: rowlock.Client, fake_server: FakeServer) -> None:
    fake_server.mapping = FEW
    table = db.typed_table("t")
    fake_server.mapping = ""
    with pytest.raises(MappingError, match="the mapping has no column 'x'"):
        table.put("alice", {"x": 7})
    table.put("alice", {"orders": 7})
    assert table.row("alice") == {"orders": 7}


def test_contradicting_arguments_are_refused(db: rowlock.Client) -> None:
    with pytest.raises(rowlock.InvalidArgumentError, match="an encoding or a mapping, not both"):
        db.table("t", encoding="utf-8", mapping=FEW)  # type: ignore[call-overload]
    with pytest.raises(rowlock.InvalidArgumentError, match="row_type needs a mapping"):
        db.table("t", row_type=Features)  # type: ignore[call-overload]
    with pytest.raises(TypeError, match="row_type must be a typing"):
        db.table("t", mapping=MAPPING, row_type=dict)
    with pytest.raises(
        MappingError, match=r"WrongType\.score is int \| None, and the column is DOUBLE: declare it as float \| None"
    ):
        db.table("t", mapping=MAPPING, row_type=WrongType)
    with pytest.raises(MappingError, match=r"NeverAbsent\.score is float, and any cell may be absent"):
        db.table("t", mapping=MAPPING, row_type=NeverAbsent)
    with pytest.raises(MappingError, match="the mapping has no column 'x'"):
        db.table("t", mapping=MAPPING, row_type=WrongName)
    with pytest.raises(TypeError, match=r"mapping must be a rowlock\.Mapping or its text, not int"):
        db.table("t", mapping=5)  # type: ignore[call-overload]
