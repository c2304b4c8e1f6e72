"""The table as a procedure sees it: it reads what it has written, and its changes say the same."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rowlock_regionserver.procedures.messages import ChangeKind, Field
from rowlock_regionserver.procedures.procedure_table import AnotherRowError, ProcedureTable

STORED = {b"f:a": b"1", b"f:b": b"2", b"g:": b"3", b"g:a": (7).to_bytes(8, "big")}


def reads_of(
    stored: dict[bytes, bytes], columns: Sequence[tuple[bytes, bytes | None]]
) -> list[tuple[bytes, bytes, bytes]]:
    """What the server answers to a read."""
    cells = [(*name.split(b":", 1), value) for name, value in sorted(stored.items())]
    wanted = set(columns)
    return [
        (family, qualifier, value)
        for family, qualifier, value in cells
        if not columns or (family, qualifier) in wanted or (family, None) in wanted
    ]


def new_table() -> ProcedureTable:
    return ProcedureTable("t", b"r", lambda columns: reads_of(STORED, columns))


def applied(fields: Sequence[Field]) -> dict[bytes, bytes]:
    """The row after the changes that the server would make."""
    row = dict(STORED)
    parts = [field or b"" for field in fields]
    for kind, family, qualifier, value in zip(parts[::4], parts[1::4], parts[2::4], parts[3::4], strict=True):
        if kind == ChangeKind.PUT.value:
            row[family + b":" + qualifier] = value
        elif kind == ChangeKind.DELETE_COLUMN.value:
            row.pop(family + b":" + qualifier, None)
        elif kind == ChangeKind.DELETE_FAMILY.value:
            row = {name: value for name, value in row.items() if not name.startswith(family + b":")}
        else:
            assert kind == ChangeKind.DELETE_ROW.value
            row.clear()
    return row


_COLUMNS = st.sampled_from(["f:a", "f:b", "f:c", "g:", "g:a"])
_CHANGES = st.one_of(
    st.tuples(st.just("put"), _COLUMNS, st.binary(max_size=3)),
    st.tuples(st.just("delete"), st.sampled_from(["f:a", "f:c", "g:", "f", "g"]), st.just(b"")),
    st.tuples(st.just("delete row"), st.just(""), st.just(b"")),
    st.tuples(st.just("increment"), st.just("f:n"), st.just(b"")),
)


@given(st.lists(_CHANGES))
def test_a_procedure_reads_what_the_server_will_have(changes: list[tuple[str, str, bytes]]) -> None:
    table = new_table()
    for kind, column, value in changes:
        if kind == "put":
            table.put("r", {column: value})
        elif kind == "delete":
            table.delete(b"r", [column])
        elif kind == "increment":
            before = table.counter("r", column)
            assert table.increment("r", column, 3) == before + 3 == table.counter("r", column)
        else:
            table.delete("r")
    whole, some, family = table.row("r"), table.row("r", ["f:a", "g:"]), table.row("r", [b"g"])
    after = applied(table._end())
    assert whole == after
    assert some == {name: value for name, value in after.items() if name in (b"f:a", b"g:")}
    assert family == {name: value for name, value in after.items() if name.startswith(b"g:")}


def test_other_rows_are_refused_by_each_method() -> None:
    table = new_table()
    for use in (
        lambda: table.row("s"),
        lambda: table.exists("s"),
        lambda: table.counter("s", "f:n"),
        lambda: table.put("s", {"f:a": "1"}),
        lambda: table.delete("s"),
        lambda: table.increment("s", "f:n"),
    ):
        with pytest.raises(AnotherRowError):
            use()
    assert table._end() == []


def test_counters_that_are_none_and_sums_that_do_not_fit_are_refused() -> None:
    table = new_table()
    with pytest.raises(ValueError, match="is not a counter: it has 1 bytes"):
        table.increment("r", "f:a")
    table.put("r", {"f:n": b"\x7f" + b"\xff" * 7})
    with pytest.raises(OverflowError):
        table.increment("r", "f:n")
    assert table.increment("r", "f:n", -1) == (1 << 63) - 2


def test_wrong_types_and_names_are_refused() -> None:
    table = new_table()
    with pytest.raises(TypeError, match="a list of columns, not str"):
        table.row("r", "f:a")
    with pytest.raises(TypeError, match="a list of columns, not bytes"):
        table.delete("r", b"f:a")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="a value must be bytes or str, not int"):
        table.put("r", {"f:a": 1})  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="a row must be bytes or str, not NoneType"):
        table.row(None)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="'f' is not a column"):
        table.put("r", {"f": "1"})
    with pytest.raises(ValueError, match="no column is given"):
        table.put("r", {})
    assert table.row("r", []) == {}
    assert table._end() == []
