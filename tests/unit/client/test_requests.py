"""The messages that calls of a table send, and the calls that are refused before a message is sent."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
import rowlock
from rowlock._core import point
from rowlock._core.bulk_write_requests import GatheredRows
from rowlock._core.conversation import Request
from rowlock.checks import compared_columns, set_condition
from rowlock.errors import InvalidArgumentError
from rowlock.selection import Selection
from rowlock_proto.v1 import region_pb2, types_pb2


def mutation(request: Request) -> region_pb2.RowMutation:
    return request.point.mutate.mutations[0]


def test_puts_name_a_timestamp_only_if_there_is_one() -> None:
    plain = mutation(point.put("t", "r", {"f:a": "1", "f:b": b""}, None, types_pb2.DURABILITY_UNSPECIFIED))
    assert [(c.put.qualifier, c.put.value, c.put.HasField("timestamp")) for c in plain.changes] == [
        (b"a", b"1", False),
        (b"b", b"", False),
    ]
    stamped = mutation(point.put("t", "r", {"f:a": "1"}, 0, types_pb2.DURABILITY_UNSPECIFIED))
    assert stamped.changes[0].put.HasField("timestamp")
    assert not plain.HasField("condition")


def test_deletes_tell_row_family_column_and_version_apart() -> None:
    changes = mutation(
        point.mutate(
            "t",
            "r",
            [rowlock.Delete(), rowlock.Delete("f"), rowlock.Delete("f:"), rowlock.Delete("f:q", 5, exact=True)],
            types_pb2.DURABILITY_UNSPECIFIED,
        )
    ).changes
    assert [(c.delete.kind, c.delete.family, c.delete.qualifier, c.delete.HasField("timestamp")) for c in changes] == [
        (types_pb2.Delete.KIND_ROW, b"", b"", False),
        (types_pb2.Delete.KIND_FAMILY, b"f", b"", False),
        (types_pb2.Delete.KIND_COLUMN, b"f", b"", False),
        (types_pb2.Delete.KIND_VERSION, b"f", b"q", True),
    ]


def test_conditions_tell_absent_from_empty() -> None:
    condition = region_pb2.Condition()
    set_condition(
        condition,
        [
            rowlock.Check("f:a", None),
            rowlock.Check("f:b", None, "!="),
            rowlock.Check("f:c", b"", "="),
            rowlock.Check("f:d", "5", ">="),
            rowlock.column("f:e") == "x",
            rowlock.column("f:g").is_absent(),
        ],
    )
    assert compared_columns(condition) == [(b"f", b"a"), (b"f", b"b"), (b"f", b"c"), (b"f", b"d")]
    condition.return_filtered = True
    assert compared_columns(condition)[4:] == [(b"f", b"e"), (b"f", b"g")]
    assert [(c.op, c.HasField("operand")) for c in condition.checks] == [
        (types_pb2.COMPARE_OP_EQUAL, False),
        (types_pb2.COMPARE_OP_NOT_EQUAL, False),
        (types_pb2.COMPARE_OP_EQUAL, True),
        (types_pb2.COMPARE_OP_GREATER_OR_EQUAL, True),
    ]
    assert len(condition.filter.all.filters) == 2


def test_a_selection_is_written_to_the_request() -> None:
    get = region_pb2.Get()
    Selection(["f", "f:", "f:q"], time_range=(5, None), versions=3, where=rowlock.row_key() > "a").write(get)
    assert [(c.family, c.HasField("qualifier"), c.qualifier) for c in get.columns] == [
        (b"f", False, b""),
        (b"f", True, b""),
        (b"f", True, b"q"),
    ]
    assert (get.time_range.start, get.time_range.stop, get.versions) == (5, 0, 3)
    assert get.HasField("where")
    at = region_pb2.Get()
    Selection(timestamp=7).write(at)
    assert (at.time_range.start, at.time_range.stop) == (0, 8)
    cells = region_pb2.ScanRequest()
    Selection(
        keys_only=True,
        cells=rowlock.CellFilter("p", "a", "b", (">", "5"), first_key_only=True, offset=2, limit=3),
    ).write(cells)
    assert cells.cells == types_pb2.CellFilter(
        qualifier_prefix=b"p",
        qualifier_start=b"a",
        qualifier_stop=b"b",
        value=types_pb2.CellFilter.ValueComparison(op=types_pb2.COMPARE_OP_GREATER, operand=b"5"),
        keys_only=True,
        first_key_only=True,
        cell_offset=2,
        cell_limit=3,
    )


BadCall = Callable[[rowlock.Client, rowlock.Table[bytes]], object]
REFUSED: list[tuple[str, BadCall]] = [
    ("the row is empty", lambda db, t: t.put("", {"f:q": "1"})),
    ("no column is given", lambda db, t: t.put("r", {})),
    ("names a family", lambda db, t: t.put("r", {"f": "1"})),
    ("milliseconds", lambda db, t: t.put("r", {"f:q": "1"}, timestamp=-1)),
    ("milliseconds", lambda db, t: t.delete("r", timestamp=-1)),
    ("list of columns is empty", lambda db, t: t.delete("r", [])),
    ("list of columns is empty", lambda db, t: t.check_and_delete("r", "f:q", "1", [])),
    ("list of columns is empty", lambda db, t: t.row("r", [])),
    ("exact version must name a column", lambda db, t: t.delete("r", exact=True)),
    ("exact version must name a column", lambda db, t: t.delete("r", ["f"], exact=True)),
    ("no change", lambda db, t: t.mutate_row("r", [])),
    ("no change", lambda db, t: t.check_and_mutate("r", [rowlock.Check("f:q", "1")], [])),
    ("no check", lambda db, t: t.check_and_mutate("r", [], [rowlock.Put("f:q", "1")])),
    ("only be checked with = and !=", lambda db, t: t.check_and_put("r", "f:q", None, {"f:q": "1"}, op="<")),
    ("operator", lambda db, t: t.check_and_put("r", "f:q", "1", {"f:q": "1"}, op="~")),  # type: ignore[arg-type]
    ("64 signed bits", lambda db, t: t.increment("r", "f:q", 1 << 63)),
    ("not both", lambda db, t: t.row("r", timestamp=1, time_range=(0, 2))),
    ("is empty: stop must be after start", lambda db, t: t.row("r", time_range=(5, 5))),
    ("versions", lambda db, t: t.cells("r", "f:q", 0)),
    ("names a family", lambda db, t: t.cells("r", "f")),
    ("comes before its start", lambda db, t: t.scan("b", "a")),
    ("one of the three", lambda db, t: t.scan("b", prefix="a")),
    ("list of ranges is empty", lambda db, t: t.scan(ranges=[])),
    ("versions must be 1 to 2147483647", lambda db, t: t.scan(versions=1 << 40)),
    ("limit must be 0 to", lambda db, t: t.scan(limit=-1)),
    ("limit must be 0 to 18446744073709551615", lambda db, t: t.scan(limit=1 << 64)),
    ("batch_bytes must be 0 to", lambda db, t: t.scan(batch_bytes=-1)),
    ("batch_bytes must be 0 to 4294967295", lambda db, t: t.scan(batch_bytes=1 << 32)),
    ("offset must be 0 to", lambda db, t: rowlock.CellFilter(offset=-1)),
    ("offset must be 0 to 4294967295", lambda db, t: rowlock.CellFilter(offset=1 << 32)),
    ("limit must be 1 to", lambda db, t: rowlock.CellFilter(limit=0)),
    ("limit must be 1 to 4294967295", lambda db, t: rowlock.CellFilter(limit=1 << 32)),
    ("size and max_bytes", lambda db, t: t.batch(size=0)),
    ("durability", lambda db, t: t.with_options(durability="paper")),  # type: ignore[arg-type]
    ("timeout", lambda db, t: t.with_options(timeout=0)),
    ("not the name of a table", lambda db, t: db.table("../x")),
    ("not the name of a table", lambda db, t: db.create_table("x" * 256, ["f"])),
    ("not the name of a table", lambda db, t: db.describe("")),
    ("not the name of a table", lambda db, t: db.drop_table("a\0b")),
    ("at least one column family", lambda db, t: db.create_table("t", {})),
    ("'a:b' is not the name of a family: the family", lambda db, t: db.create_table("t", ["a:b"])),
    ("'a:b' is not the name of a family", lambda db, t: db.alter_table("t", drop_families=["a:b"])),
    ("can't read a column as", lambda db, t: rowlock.column("f:q", [int])),  # type: ignore[arg-type]
    ("encoding must be 'utf-8' or None, not 'latin-1'", lambda db, t: db.table("t", encoding="latin-1")),
    ("versions must be 1 to 2147483647, not 0", lambda db, t: rowlock.Family(versions=0)),
    ("min_versions", lambda db, t: rowlock.Family(min_versions=2)),
    ("time_to_live_ms", lambda db, t: rowlock.Family(time_to_live_ms=-1)),
    ("time_to_live_ms", lambda db, t: rowlock.Family(time_to_live_ms=(1 << 63) - 1)),
    ("too large for this column", lambda db, t: rowlock.column("f:q", float) > 10**400),
    ("the operand is too large for this column", lambda db, t: rowlock.column("f:q", float) > 10**5000),
    ("too large for this column", lambda db, t: rowlock.column("f:q", "float") < 10**400),
    ("block_bytes", lambda db, t: rowlock.Family(block_bytes=1)),
    ("compression", lambda db, t: rowlock.Family(compression="rar")),  # type: ignore[arg-type]
    ("no alteration is given", lambda db, t: db.alter_table("t")),
    ("not the address", lambda db, t: rowlock.connect("host:port")),
    ("no server address", lambda db, t: rowlock.connect(", ,")),
]


@pytest.fixture(scope="module")
def unreachable() -> rowlock.Client:
    """A client that hangs or fails if it sends a message."""
    from rowlock._transport.servers import Servers

    return rowlock.Client(Servers(("127.0.0.1:1",)), 0.01)


@pytest.mark.parametrize(("words", "call"), REFUSED, ids=range(len(REFUSED)))
def test_an_invalid_call_is_refused_before_it_is_sent(unreachable: rowlock.Client, words: str, call: BadCall) -> None:
    with pytest.raises(rowlock.InvalidArgumentError) as caught:
        call(unreachable, unreachable.table("t"))
    assert words in str(caught.value)


CHECK = rowlock.Check("f:q", "1")


@pytest.mark.parametrize(("expected", "op"), [("1", "xx"), ("1", "=="), ("1", "<>"), ("1", ""), (None, "<")])
def test_an_operator_is_checked_when_a_check_is_made(expected: str | None, op: Any) -> None:
    with pytest.raises(InvalidArgumentError):
        rowlock.Check("f:q", expected, op)


WRONG_TYPES: list[tuple[str, BadCall]] = [
    (r"increment\(\)", lambda db, t: t.put("r", {"f:q": 5})),  # type: ignore[dict-item]
    ("a list of columns, not one", lambda db, t: t.row("r", "f:q")),
    ("a list of columns, not one", lambda db, t: t.delete("r", "f:q")),
    ("a list of columns, not one", lambda db, t: t.check_and_delete("r", "f:q", "1", "ab")),
    ("a list of columns, not one", lambda db, t: t.check_and_delete("r", "f:q", "1", b"f:q")),  # type: ignore[arg-type]
    ("amount must be an int", lambda db, t: t.increment("r", "f:q", 1.5)),  # type: ignore[arg-type]
    ("a change must be a rowlock.Put", lambda db, t: t.mutate_row("r", [("f:q", "1")])),  # type: ignore[list-item]
    ("a check must be", lambda db, t: t.check_and_mutate("r", ["f:q"], [])),  # type: ignore[list-item]
    ("versions must be an int", lambda db, t: t.scan(versions="1")),  # type: ignore[arg-type]
    ("versions must be an int", lambda db, t: t.cells("r", "f:q", True)),
    ("limit must be an int", lambda db, t: t.scan(limit=1.5)),  # type: ignore[arg-type]
    ("batch_bytes must be an int", lambda db, t: t.scan(batch_bytes="1")),  # type: ignore[arg-type]
    ("offset must be an int", lambda db, t: rowlock.CellFilter(offset="1")),  # type: ignore[arg-type]
    ("limit must be an int", lambda db, t: rowlock.CellFilter(limit="1")),  # type: ignore[arg-type]
    ("a range must be a pair", lambda db, t: t.scan(ranges=["ab"])),  # type: ignore[list-item]
    ("a range must be a pair", lambda db, t: t.scan(ranges=[5])),  # type: ignore[list-item]
    ("a range must be a pair", lambda db, t: t.scan(ranges=("a", "b"))),  # type: ignore[arg-type]
    ("a range must be a pair", lambda db, t: t.scan(ranges=[("a", "b", "c")])),  # type: ignore[list-item]
    ("data must be a dict", lambda db, t: t.check_and_put("r", "f:q", "1", None)),  # type: ignore[arg-type]
    ("where must be a filter", lambda db, t: t.scan(where="f:q = 1")),  # type: ignore[arg-type]
    ("name must be a str, the name of a table, not bytes", lambda db, t: db.table(b"t")),  # type: ignore[call-overload]
    ("families must be", lambda db, t: db.create_table("t", "f")),
    ("rowlock.Family", lambda db, t: db.create_table("t", {"f": 1})),
    ("timeout must be a number of seconds, not str", lambda db, t: t.with_options(timeout="5")),  # type: ignore[arg-type]
    ("Arrow tables or batches", lambda db, t: t.put_arrow(5)),  # type: ignore[arg-type]
    ("changes must be a list of changes, not one: .Put", lambda db, t: t.mutate_row("r", rowlock.Put("f:q", "1"))),  # type: ignore[arg-type]
    ("changes must be a list of changes, not NoneType", lambda db, t: t.mutate_row("r", None)),  # type: ignore[arg-type]
    ("changes must be a list of changes, not one", lambda db, t: t.batch().mutate_row("r", rowlock.Delete())),  # type: ignore[arg-type]
    ("a list of changes, not one", lambda db, t: t.check_and_mutate("r", [CHECK], rowlock.Put("f:q", "1"))),  # type: ignore[arg-type]
    ("otherwise must be a list of", lambda db, t: t.check_and_mutate("r", [CHECK], [], rowlock.Delete())),  # type: ignore[arg-type]
    ("checks must be a list of checks", lambda db, t: t.check_and_mutate("r", None, [])),  # type: ignore[arg-type]
    ("column must be bytes or str", lambda db, t: t.mutate_row("r", [rowlock.Put({"f:q": "1"}, "1")])),  # type: ignore[arg-type]
    ("column must be bytes or str", lambda db, t: t.mutate_row("r", [rowlock.Delete({"f:q": "1"})])),  # type: ignore[arg-type]
    ("column must be bytes or str", lambda db, t: t.row("r", [["f:q"]])),  # type: ignore[list-item]
    ("columns must be a list of columns, not int", lambda db, t: t.row("r", 5)),  # type: ignore[call-overload]
    ("columns must be a list of columns, not int", lambda db, t: t.delete("r", 5)),  # type: ignore[arg-type]
    ("rows must be a list of rows, not int", lambda db, t: t.rows(5)),  # type: ignore[arg-type]
    ("ranges must be a list of pairs", lambda db, t: t.scan(ranges=5)),  # type: ignore[arg-type]
    ("cells must be a rowlock.CellFilter, not str", lambda db, t: t.scan(cells="x")),  # type: ignore[arg-type]
    ("value of a CellFilter must be a pair", lambda db, t: rowlock.CellFilter(value="=5")),  # type: ignore[arg-type]
    ("time_range must be a pair", lambda db, t: t.row("r", time_range=5)),  # type: ignore[call-overload]
    ("time_range must be a pair", lambda db, t: t.scan(time_range=(1,))),  # type: ignore[arg-type]
    ("mapping must be a rowlock.Mapping or its text", lambda db, t: t.put_arrow(pa.table({}), 5)),  # type: ignore[arg-type]
    ("mapping must be a rowlock.Mapping or its text", lambda db, t: t.scan().to_arrow({"f:q": "INT"})),  # type: ignore[arg-type]
    ("batch_bytes must be an int", lambda db, t: t.put_arrow(pa.table({}), batch_bytes="1")),  # type: ignore[arg-type]
    ("size must be an int", lambda db, t: t.batch(size="5")),  # type: ignore[arg-type]
    ("as in {'f': rowlock.Family..}, not .'g'.", lambda db, t: db.alter_table("t", set_families=["g"])),  # type: ignore[arg-type]
    ("the name of a family must be bytes or str", lambda db, t: db.alter_table("t", drop_families=[5])),  # type: ignore[list-item]
    ("drop_families must be a list of names", lambda db, t: db.alter_table("t", drop_families="f")),
    ("families must be", lambda db, t: db.create_table("t", 5)),  # type: ignore[call-overload]
    ("the name of a family must be bytes or str", lambda db, t: db.create_table("t", [["f"]])),  # type: ignore[list-item]
    ("splits must be a list of rows, not one", lambda db, t: db.create_table("t", ["f"], splits="mt")),
    ("versions must be an int", lambda db, t: rowlock.Family(versions="3")),  # type: ignore[arg-type]
    ("server must be an address, a str like 'host:port', not int", lambda db, t: rowlock.connect(5)),  # type: ignore[arg-type]
    ("server must be an address, a str like 'host:port', not bytes", lambda db, t: rowlock.connect(b"h:1")),  # type: ignore[arg-type]
    ("timeout must be a number", lambda db, t: rowlock.connect("h:1", timeout="5")),  # type: ignore[arg-type]
    ("folder must be a path, a str or os.PathLike, not int", lambda db, t: rowlock.open(5)),  # type: ignore[arg-type]
    ("encoding must be 'utf-8' or None, not int", lambda db, t: db.table("t", encoding=5)),  # type: ignore[call-overload]
    ("durability must be one of 'fsync'.*, not int", lambda db, t: db.table("t", durability=5)),  # type: ignore[call-overload]
    ("mapping must be a rowlock.Mapping", lambda db, t: db.table("t", mapping=5)),  # type: ignore[call-overload]
    ("table must be a str, the name of a table", lambda db, t: db.compactions(5)),  # type: ignore[arg-type]
    ("table must be a str, the name of a table", lambda db, t: db.server_info(5)),  # type: ignore[arg-type]
    ("start must be bytes or str", lambda db, t: db.regions("t", start=5)),  # type: ignore[arg-type]
    ("lease_s must be a number of seconds, not str", lambda db, t: db.snapshot("t", lease_s="5")),  # type: ignore[arg-type]
    ("lease_s must be a number of seconds, not bool", lambda db, t: db.snapshot("t", lease_s=True)),
    ("snapshot_id must be the id of a snapshot as bytes", lambda db, t: db.open_snapshot("5")),  # type: ignore[arg-type]
    ("row must be bytes or str, not NoneType", lambda db, t: t.exists(None)),  # type: ignore[arg-type]
    ("start must be bytes or str, not int", lambda db, t: t.scan(5)),  # type: ignore[arg-type]
    ("stop must be bytes or str, not int", lambda db, t: t.count("a", 5)),  # type: ignore[arg-type]
    ("prefix must be bytes or str, not int", lambda db, t: t.delete_range(prefix=5)),  # type: ignore[arg-type]
    ("a bound of ranges must be bytes or str, not int", lambda db, t: t.scan(ranges=[(5, None)])),  # type: ignore[list-item]
    ("timestamp must be an int", lambda db, t: t.put("r", {"f:q": "1"}, timestamp="5")),  # type: ignore[arg-type]
    ("op must be one of =,.*, not int", lambda db, t: t.check_and_put("r", "f:q", "1", {"f:q": "2"}, op=5)),  # type: ignore[arg-type]
    ("expected must be bytes or str, not int", lambda db, t: t.check_and_put("r", "f:q", 5, {"f:q": "2"})),  # type: ignore[arg-type]
    ("suffix must be bytes or str, not int", lambda db, t: t.append("r", "f:q", 5)),  # type: ignore[arg-type]
    ("snapshot must be a result of db.snapshot", lambda db, t: t.scan(snapshot="5")),  # type: ignore[arg-type]
    ("busy_timeout must be a number of seconds", lambda db, t: t.scan(busy_timeout="5")),  # type: ignore[arg-type]
    ("part_bytes must be an int", lambda db, t: t.splits(part_bytes="5")),  # type: ignore[arg-type]
    ("qualifier_prefix must be", lambda db, t: t.scan(cells=rowlock.CellFilter(qualifier_prefix=5))),  # type: ignore[arg-type]
]


@pytest.mark.parametrize(("words", "call"), WRONG_TYPES, ids=range(len(WRONG_TYPES)))
def test_arguments_of_a_wrong_type_are_type_errors(unreachable: rowlock.Client, words: str, call: BadCall) -> None:
    with pytest.raises(TypeError, match=words):
        call(unreachable, unreachable.table("t"))


@pytest.mark.parametrize(
    ("error", "message", "add"),
    [
        (TypeError, "columns must be a list of columns, not one", lambda rows: rows.delete("r", "f:a", None)),
        (InvalidArgumentError, "the list of columns is empty", lambda rows: rows.delete("r", [], None)),
        (TypeError, "data must be a dict", lambda rows: rows.put("r", [("f:a", b"1")], None)),
        (InvalidArgumentError, "no column is given", lambda rows: rows.put("r", {}, None)),
    ],
)
def test_a_bulk_write_refuses_what_a_table_refuses(
    error: type[Exception], message: str, add: Callable[[GatheredRows], None]
) -> None:
    rows = GatheredRows()
    with pytest.raises(error, match=message):
        add(rows)
    assert rows.table() is None
