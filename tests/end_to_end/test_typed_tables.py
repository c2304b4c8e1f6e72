"""Typed tables against a real server: conditions, scans, the mapping that a table keeps, and changes of it."""

from __future__ import annotations

import contextlib
import datetime
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any, TypedDict, assert_type

import pyarrow as pa
import pytest
import rowlock
from rowlock.errors import (
    BulkError,
    FamilyNotFoundError,
    InvalidArgumentError,
    MappingError,
    NotACounterError,
    TableExistsError,
)
from rowlock.pytest_plugin import RowlockServer
from rowlock_regionserver.server import Server

MAPPING = "user STRING :key, orders BIGINT count:orders, score DOUBLE model:score, at TIMESTAMP :timestamp"
FLIGHTS = (
    "day DATE :key ordered, carrier STRING :key, number INT :key ordered, delay INT info:delay, "
    "fare DECIMAL(9,2) info:fare"
)
DAYS = [datetime.date(2013, 1, day) for day in (1, 2)]


class Features(TypedDict, total=False):
    orders: int | None


@pytest.fixture
def features(rowlock_client: rowlock.Client) -> rowlock.TypedTable[dict[str, Any]]:
    table = rowlock_client.create_table("fs", mapping=MAPPING)
    with table.batch() as batch:
        batch.put("alice", {"orders": 7, "score": 0.5})
        batch.put("bob", {"orders": 1, "score": None})
        batch.put("carl", {"score": 0.1})
    return table


@pytest.fixture
def flights(rowlock_client: rowlock.Client) -> rowlock.TypedTable[dict[str, Any]]:
    table = rowlock_client.create_table("flights", mapping=FLIGHTS)
    for day in DAYS:
        for carrier in ("DL", "UA"):
            for number in (-1, 9, 10):
                table.put((day, carrier, number), {"delay": number, "fare": number * 0.1})
    return table


def test_type_checkers_know_what_is_returned(rowlock_client: rowlock.Client) -> None:
    """mypy checks this file; a table is of bytes, of str or typed by what table() is given."""
    rowlock_client.create_table("fs", mapping=MAPPING)
    assert_type(rowlock_client.table("fs"), rowlock.Table[bytes])
    assert_type(rowlock_client.table("fs", encoding="utf-8"), rowlock.Table[str])
    assert_type(rowlock_client.table("fs", mapping=MAPPING), rowlock.TypedTable[dict[str, Any]])
    table = rowlock_client.typed_table("fs", row_type=Features)
    assert_type(table, rowlock.TypedTable[Features])
    table.put("alice", {"orders": 7})
    row = table.row("alice")
    assert_type(row, Features)
    assert_type(row.get("orders"), int | None)
    assert_type(table.increment("alice", "orders"), int)
    [(key, scanned)] = table.scan()
    assert_type(scanned, Features)
    assert (key, row, scanned) == ("alice", {"orders": 7}, {"orders": 8})
    assert_type(rowlock_client.create_table("t", ["f"]), rowlock.Table[bytes])
    assert_type(rowlock_client.create_table("u", mapping=MAPPING), rowlock.TypedTable[dict[str, Any]])


def test_rows_are_found_by_typed_conditions(features: rowlock.TypedTable[dict[str, Any]]) -> None:
    column = features.column
    alice, bob, carl = (
        ("alice", {"orders": 7, "score": 0.5}),
        ("bob", {"orders": 1, "score": None}),
        ("carl", {"orders": None, "score": 0.1}),
    )
    assert list(features.scan()) == [alice, bob, carl]
    assert list(features.scan(where=column("score") > 0.2)) == [alice]
    assert list(features.scan(where=(column("orders") >= 1) & column("score").is_absent())) == [bob]
    assert list(features.scan(where=column("orders").is_in([1, 2]) | ~column("orders").is_present())) == [bob, carl]
    assert list(features.scan(columns=["orders"])) == [("alice", {"orders": 7}), ("bob", {"orders": 1})]
    assert list(features.scan("b", "c", reverse=True)) == [bob]
    assert list(features.scan(prefix="al", keys_only=True)) == [("alice", {})]
    assert list(features.scan(ranges=[("a", "b"), ("c", None)])) == [alice, carl]
    assert features.scan(limit=1).to_arrow().to_pylist() == [{"user": "alice", **alice[1]}]
    assert features.scan(columns=["score"]).to_pandas().score.tolist() == [0.5, 0.1]
    with features.scan() as scan:
        assert next(scan) == alice
    assert list(scan) == []
    with features.scan() as scan, pytest.raises(InvalidArgumentError, match="only once"):
        [*scan, *scan.to_batches()]


def test_conditional_changes_compare_types_and_list_what_they_found(
    features: rowlock.TypedTable[dict[str, Any]],
) -> None:
    assert features.check_and_put("alice", "score", 0.6, {"score": 0.25}, op="<")
    failed = features.check_and_put("alice", "score", 10, {"score": 1}, op=">")
    assert (failed.applied, failed.current, failed.seen) == (False, 0.25, {"score": 0.25})
    met = features.check_and_mutate(
        "alice",
        [features.column("orders") > 5, rowlock.Check("score", 0.25)],
        [rowlock.Increment("orders"), rowlock.Put("score", None)],
    )
    assert (met.applied, met.current, met.results) == (True, 7, [8, None])
    assert met.seen == {"orders": 7, "score": 0.25}
    assert features.row("alice") == {"orders": 8, "score": None}
    unmet = features.check_and_mutate("alice", [rowlock.Check("score", None, "!=")], [], [rowlock.Put("orders", 0)])
    assert (unmet.applied, unmet.seen) == (False, {"score": None})
    assert features.check_and_delete("alice", "orders", 0)
    assert features.row("alice") == {}
    assert features.update("bob", {"orders": 2, "score": 0.5})
    assert not features.update("nobody", {"orders": 2})
    assert not features.create("bob", {"orders": 3})
    assert features.create("dora", {"orders": 3, "score": None})
    features.delete("bob", ["orders"])
    assert features.row("bob") == {"orders": None, "score": 0.5}


def test_a_late_batch_does_not_overwrite_newer_features(features: rowlock.TypedTable[dict[str, Any]]) -> None:
    early, late = datetime.datetime(2024, 1, 1), datetime.datetime(2024, 1, 2)
    table = features
    table.delete("alice")
    table.put("alice", {"orders": 2, "at": late})
    table.put("alice", {"orders": 1, "at": early})
    table.put_arrow(pa.table({"user": ["alice", "eve"], "orders": [0, 5], "score": [0.75, None], "at": [early, early]}))
    assert table.row("alice") == {"orders": 2, "score": 0.75}
    assert table.row("eve", include_timestamp=True) == {"orders": (5, 1704067200000)}
    table.put_arrow(pa.table({"user": ["alice"], "orders": [9], "score": pa.nulls(1), "at": pa.nulls(1)}))
    assert table.row("alice") == {"orders": 9, "score": 0.75}


def test_a_late_batch_deletes_nothing_newer_and_fills_what_a_newer_row_left_out(
    features: rowlock.TypedTable[dict[str, Any]],
) -> None:
    """As docs/mapping.md says: values are protected from late rows; nulls and deletes are not."""
    early, late = datetime.datetime(2024, 1, 1), datetime.datetime(2024, 1, 2)
    features.put("zoe", {"orders": 2, "score": None, "at": late})
    features.put("zoe", {"orders": None, "score": 0.25, "at": early})
    assert features.row("zoe", include_timestamp=True) == {"orders": (2, 1704153600000), "score": (0.25, 1704067200000)}
    features.put("yan", {"orders": 2, "at": late})
    features.delete("yan")
    features.put("yan", {"orders": 1, "at": early})
    assert features.row("yan") == {"orders": 1, "score": None}


def test_composite_keys_are_tuples_in_order(flights: rowlock.TypedTable[dict[str, Any]]) -> None:
    keys = [key for key, _ in flights.scan()]
    assert keys == sorted(keys) == [(day, c, n) for day in DAYS for c in ("DL", "UA") for n in (-1, 9, 10)]
    assert flights.row((DAYS[0], "UA", 9)) == {"delay": 9, "fare": Decimal("0.90")}
    assert [key for key, _ in flights.scan(prefix=(DAYS[1], "UA"))] == [(DAYS[1], "UA", n) for n in (-1, 9, 10)]
    assert [key for key, _ in flights.scan((DAYS[0], "UA", 9), (DAYS[1], "DL", 9))] == keys[4:7]
    assert [key for key, _ in flights.scan(DAYS[1], None)] == keys[6:]
    assert flights.rows([(DAYS[0], "UA", 9), (DAYS[0], "XX", 9)])[1] == ((DAYS[0], "XX", 9), {})
    with pytest.raises(MappingError, match="the last one, 'number', is INT; leave it out"):
        flights.scan(prefix=(DAYS[0], "UA", 9))
    for wrong in (DAYS[0], (DAYS[0], "UA")):
        with pytest.raises(MappingError, match=r"the key has 3 parts, \(day, carrier, number\)"):
            flights.put(wrong, {"delay": 1})


def test_a_table_keeps_its_mapping_over_a_restart(
    rowlock_server: RowlockServer, rowlock_client: rowlock.Client
) -> None:
    rowlock_client.create_table("fs", mapping=MAPPING, durability="os", properties={"compaction.automatic": False})
    rowlock_server.kill()
    rowlock_server.restart()
    found = rowlock_client.describe("fs")
    assert found.mapping == rowlock.Mapping(MAPPING)
    assert found.mapping_text == MAPPING
    assert found.properties == {"compaction.automatic": "false"}
    assert sorted(found.families) == ["count", "model"]
    assert rowlock_client.typed_table("fs").mapping.text == MAPPING
    rowlock_client.truncate_table("fs")
    assert rowlock_client.typed_table("fs").mapping.text == MAPPING


def test_creating_a_table_that_exists_compares_the_mappings(rowlock_client: rowlock.Client) -> None:
    rowlock_client.create_table("fs", {"count": rowlock.Family(versions=3), "model": rowlock.Family()}, mapping=MAPPING)
    assert rowlock_client.describe("fs").families["count"].versions == 3
    again = rowlock_client.create_table("fs", mapping="u STRING :key, score DOUBLE model:score", if_not_exists=True)
    assert again.mapping.text == MAPPING
    with pytest.raises(MappingError, match="count:orders is BIGINT binary, and not INT binary"):
        rowlock_client.create_table("fs", mapping="u STRING :key, n INT count:orders", if_not_exists=True)
    with pytest.raises(TableExistsError):
        rowlock_client.create_table("fs", mapping=MAPPING)
    rowlock_client.create_table("t", ["f"])
    with pytest.raises(MappingError, match="table 't' keeps no mapping"):
        rowlock_client.create_table("t", mapping="k STRING :key, v INT f:v", if_not_exists=True)
    with pytest.raises(
        FamilyNotFoundError, match="the mapping names the family 'f', which is not among those of table"
    ):
        rowlock_client.create_table("u", ["g"], mapping="k STRING :key, v INT f:v")
    with pytest.raises(MappingError, match="has only a key; name the table's families"):
        rowlock_client.create_table("u", mapping="k STRING :key")
    with pytest.raises(InvalidArgumentError, match="mapping of a table is set by the argument mapping"):
        rowlock_client.create_table("u", ["f"], properties={"mapping": "k STRING :key"})
    with pytest.raises(rowlock.LimitExceededError, match="mapping_bytes_max"):
        rowlock_client.create_table("u", mapping="k STRING :key, " + ", ".join(f"c{n} INT f:c{n}" for n in range(5000)))
    assert rowlock_client.tables() == ["fs", "t"]


def test_a_mapping_is_changed_widened_and_dropped(rowlock_client: rowlock.Client) -> None:
    table = rowlock_client.create_table("t", mapping="k STRING :key, n INT f:n, d DATE f:d, o STRING old:o")
    table.put("a", {"n": -5, "d": DAYS[0], "o": "x"})
    with pytest.raises(MappingError, match="f:n is INT binary, and its cells can't be read as SMALLINT"):
        rowlock_client.alter_table("t", mapping="k STRING :key, n SMALLINT f:n, d DATE f:d, o STRING old:o")
    with pytest.raises(FamilyNotFoundError, match="names the family 'g'"):
        rowlock_client.alter_table("t", mapping="k STRING :key, n INT f:n, d DATE f:d, o STRING old:o, g INT g:g")
    found = rowlock_client.alter_table(
        "t",
        set_families={"g": rowlock.Family()},
        drop_families=["old"],
        mapping="key STRING :key, n BIGINT f:n, d TIMESTAMP f:d, g INT g:g",
    )
    assert found.mapping_text == "key STRING :key, n BIGINT f:n was INT, d TIMESTAMP f:d was DATE, g INT g:g"
    midnight = datetime.datetime(2013, 1, 1, tzinfo=datetime.UTC)
    table = rowlock_client.typed_table("t")
    assert table.row("a") == {"n": -5, "d": midnight, "g": None}
    table.put("b", {"n": 1 << 40, "d": midnight + datetime.timedelta(hours=1)})
    # Both types in one answer, filtered by value, in bulk and one by one, and after a flush.
    for _ in range(2):
        assert table.scan().to_arrow().column("n").to_pylist() == [-5, 1 << 40]
        assert [key for key, _ in table.scan(where=table.column("n") < 0)] == ["a"]
        assert [key for key, _ in table.scan(where=table.column("d") > midnight)] == ["b"]
        assert [key for key, _ in table.scan(where=table.column("d") == midnight)] == ["a"]
        rowlock_client.flush("t")
    with pytest.raises(NotACounterError):
        table.increment("a", "n")
    assert table.check_and_put("a", "n", -5, {"n": -5})
    assert table.increment("a", "n") == -4
    # Columns leave with their families, without a mapping in the call.
    assert rowlock_client.alter_table("t", drop_families=["g"]).mapping_text.endswith("d TIMESTAMP f:d was DATE")
    replaced = rowlock_client.alter_table("t", mapping="k STRING :key, n STRING f:n", replace_mapping=True)
    assert replaced.mapping_text == "k STRING :key, n STRING f:n"
    assert rowlock_client.alter_table("t", mapping="none").mapping is None
    assert rowlock_client.alter_table("t", mapping="none").mapping is None
    with pytest.raises(InvalidArgumentError, match="replace_mapping needs a mapping"):
        rowlock_client.alter_table("t", durability="os", replace_mapping=True)
    with pytest.raises(rowlock.TableNotFoundError):
        rowlock_client.alter_table("no", mapping="k STRING :key, n STRING f:n")


def test_typed_tables_of_all_clients_go_on_without_the_columns_of_a_dropped_family(tmp_path: Path) -> None:
    with contextlib.ExitStack() as closing:
        address = closing.enter_context(Server(tmp_path / "data")).address
        client, *others = [closing.enter_context(rowlock.connect(address)) for _ in range(5)]
        own = client.create_table("t", mapping="k STRING :key, a BIGINT f:a, b BIGINT g:b")
        own.put("x", {"a": 1, "b": 2})
        tables = [other.typed_table("t") for other in others]
        for table in tables:
            assert table.row("x") == {"a": 1, "b": 2}
        client.alter_table("t", drop_families=["g"])
        assert own.scan().to_arrow().to_pylist() == [{"k": "x", "a": 1}]
        assert own.row("x") == {"a": 1}
        one, several, all_rows, unknown = tables
        assert one.row("x") == {"a": 1}
        assert several.rows(["x"]) == [("x", {"a": 1})]
        # A scan does not begin again by itself; the next one goes by what the table keeps now.
        with pytest.raises(FamilyNotFoundError):
            list(all_rows.scan())
        assert list(all_rows.scan()) == [("x", {"a": 1})]
        with pytest.raises(MappingError, match="no column 'b'"):
            unknown.cells("x", "b")


def test_conditions_go_by_a_mapping_that_another_client_has_widened(tmp_path: Path) -> None:
    """They compared by the earlier type: an equal value was another one, and filters failed until a row was read."""
    with contextlib.ExitStack() as closing:
        address = closing.enter_context(Server(tmp_path / "data")).address
        client, *others = [closing.enter_context(rowlock.connect(address)) for _ in range(5)]
        client.create_table("t", mapping="k STRING :key, n INT f:n")
        equal, less, counting, mutating = [other.typed_table("t") for other in others]
        client.alter_table("t", mapping="k STRING :key, n BIGINT f:n")
        client.typed_table("t").put("x", {"n": 7})
        assert equal.check_and_put("x", "n", 7, {"n": 8})
        result = equal.check_and_put("x", "n", 7, {"n": 9})
        assert (bool(result), result.current) == (False, 8)
        assert less.check_and_put("x", "n", 9, {"n": 5}, op="<")
        with pytest.raises(rowlock.FilterTypeError):
            counting.count(where=counting.column("n") > 1)
        assert counting.count(where=counting.column("n") > 1) == 1
        assert mutating.check_and_mutate("x", [rowlock.Check("n", 5)], [rowlock.Increment("n", 2)])
        assert mutating.row("x") == {"n": 7}


def test_a_value_that_fits_no_mapping_meets_no_condition(tmp_path: Path) -> None:
    with rowlock.open(tmp_path) as db:
        table = db.create_table("t", mapping="k STRING :key, n INT f:n")
        db.table("t").put("x", {"f:n": b"odd"})
        result = table.check_and_put("x", "n", 7, {"n": 8})
        assert not result
        with pytest.raises(MappingError):
            _ = result.current


def test_a_call_that_fails_with_an_old_mapping_does_so_once(tmp_path: Path) -> None:
    old, new = "k STRING :key, a BIGINT f:a, m STRING g:m", "k STRING :key, a BIGINT f:a, m STRING h:m"
    row = {"a": 1, "m": "x"}
    calls: list[Callable[[rowlock.TypedTable[dict[str, Any]]], object]] = [
        lambda table: table.put("x", row),
        lambda table: table.count(columns=["m"]),
        lambda table: table.count(where=table.column("m") == "x"),
        lambda table: list(table.scan(columns=["m"])),
        lambda table: table.put_arrow(pa.table({"k": ["x"], "m": ["x"]})),
    ]
    with contextlib.ExitStack() as closing:
        address = closing.enter_context(Server(tmp_path / "data")).address
        client, *others = [closing.enter_context(rowlock.connect(address)) for _ in range(2 + len(calls))]
        client.create_table("t", mapping=old)
        *tables, checking = [other.typed_table("t") for other in others]
        client.alter_table(
            "t", set_families={"h": rowlock.Family()}, drop_families=["g"], mapping=new, replace_mapping=True
        )
        for call, table in zip(calls, tables, strict=True):
            with pytest.raises((FamilyNotFoundError, BulkError)):
                call(table)
            call(table)
        assert checking.check_and_put("x", "m", "x", row)  # Refused with the old mapping, it is made with the new one.
        assert client.typed_table("t").row("x") == row


def test_put_arrow_goes_by_a_mapping_that_the_table_keeps_since(tmp_path: Path) -> None:
    cells = pa.table({"row": [b"c"], "family": [b"f"], "qualifier": [b"q"], "value": [b"v"]})
    rows = pa.table({"id": ["a"], "n": [1]})
    with contextlib.ExitStack() as closing:
        address = closing.enter_context(Server(tmp_path / "data")).address
        client, other = [closing.enter_context(rowlock.connect(address)) for _ in range(2)]
        client.create_table("t", ["f"])
        table = other.table("t")
        table.put_arrow(cells)
        client.alter_table("t", mapping="id STRING :key, n BIGINT f:n")
        with pytest.raises(InvalidArgumentError, match="Without a mapping the data is cells"):
            table.put_arrow(rows)
        table.put_arrow(rows)
        assert client.typed_table("t").row("a") == {"n": 1}
        table.put_arrow(cells)
        # Cells are cells, even if the mapping names their columns.
        named = "row STRING :key, family STRING f:fa, qualifier STRING f:qu, value STRING f:va"
        client.alter_table("t", mapping=named, replace_mapping=True)
        client.table("t").put_arrow(cells)
        assert table.row(b"c") == {b"f:q": b"v"}


def test_bulk_reads_and_writes_of_any_program_go_by_the_kept_mapping(
    features: rowlock.TypedTable[dict[str, Any]], rowlock_client: rowlock.Client
) -> None:
    raw = rowlock_client.table("fs")
    with pytest.raises(MappingError, match="does not agree"):
        raw.put_arrow(pa.table({"user": ["z"], "orders": [1]}), "user STRING :key, orders INT count:orders")
    with pytest.raises(MappingError, match="it has no column model:note; alter_table"):
        raw.scan().to_arrow("user STRING :key, note STRING model:note")
    raw.put_arrow(pa.table({"u": ["z"], "o": [1]}), "u STRING :key, o BIGINT count:orders")
    assert features.row("z") == {"orders": 1, "score": None}
    # Without a mapping data is cells, or rows of the kept one, which may lack some of its columns.
    cells = {"row": [b"c"], "family": [b"count"], "qualifier": [b"orders"], "value": [(3).to_bytes(8, "big")]}
    raw.put_arrow(pa.table(cells))
    raw.put_arrow(pa.table({"user": ["r"], "orders": [4]}))
    assert features.rows(["c", "r"]) == [(key, {"orders": n, "score": None}) for key, n in (("c", 3), ("r", 4))]
    with pytest.raises(
        MappingError, match=r"the column 'order', which the mapping does not name \(did you mean 'orders'"
    ):
        raw.put_arrow(pa.table({"user": ["r"], "order": [4]}))
    assert raw.scan(prefix="z").to_arrow("u STRING :key, s DOUBLE model:score").to_pylist() == [{"u": "z", "s": None}]
