"""Bulk writes of a table that keeps a mapping: rows, single rows, bounds and types, from both faces."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any, TypedDict, assert_type

import pyarrow as pa
import pytest
import rowlock
from rowlock.errors import InvalidArgumentError, MappingError
from rowlock.pytest_plugin import RowlockServer

MAPPING = (
    "day STRING :key, number INT :key ordered, delay INT info:delay, note STRING info:note, at TIMESTAMP :timestamp"
)


class Flight(TypedDict, total=False):
    delay: int | None


@pytest.fixture
def flights(rowlock_client: rowlock.Client) -> rowlock.TypedTable[dict[str, Any]]:
    table = rowlock_client.create_table("flights", mapping=MAPPING)
    table.put(("mon", 1), {"delay": 1, "note": "old"})
    table.put(("tue", 1), {"delay": 2, "note": "old"})
    return table


def rows(day: str, *delays: int) -> pa.Table:
    return pa.table({"day": [day] * len(delays), "number": range(1, len(delays) + 1), "delay": delays})


def test_type_checkers_know_what_is_written(rowlock_client: rowlock.Client) -> None:
    """mypy checks this file."""
    rowlock_client.create_table("flights", mapping=MAPPING)
    assert_type(rowlock_client.bulk_write("flights"), rowlock.BulkWrite)
    table = rowlock_client.typed_table("flights", row_type=Flight)
    assert_type(rowlock_client.bulk_write(table), rowlock.TypedBulkWrite[Flight])


def test_rows_and_single_rows_are_written_by_the_kept_mapping(
    rowlock_client: rowlock.Client, flights: rowlock.TypedTable[dict[str, Any]]
) -> None:
    with rowlock_client.bulk_write(flights, purpose="correct") as write:
        assert write.write(rows("mon", 10, 20)) == 2
        write.put(("mon", 3), {"delay": 30})
        write.put(("mon", 1), {"note": None, "delay": 11})
        write.delete(("tue", 1), ["note"])
        assert flights.row(("mon", 1)) == {"delay": 1, "note": "old"}
        assert write.session.is_open
    assert dict(flights.scan()) == {
        ("mon", 1): {"delay": 11, "note": None},
        ("mon", 2): {"delay": 20, "note": None},
        ("mon", 3): {"delay": 30, "note": None},
        ("tue", 1): {"delay": 2, "note": None},
    }
    assert write.result is not None
    assert write.commit() == write.result
    with pytest.raises(InvalidArgumentError, match="is over"):
        write.put(("mon", 1), {"delay": 1})


def test_a_range_of_keys_is_replaced(
    rowlock_client: rowlock.Client, flights: rowlock.TypedTable[dict[str, Any]]
) -> None:
    with rowlock_client.bulk_write(flights, replace=True, prefix="mon") as write:
        write.put(("mon", 2), {"delay": 5})
    assert [key for key, _ in flights.scan()] == [("mon", 2), ("tue", 1)]
    with rowlock_client.bulk_write(flights, replace=True, start=("mon", 2), stop=("mon", 3)) as write:
        write.put(("mon", 2), {"delay": 6})
    assert flights.row(("mon", 2)) == {"delay": 6, "note": None}
    write = rowlock_client.bulk_write(flights, prefix="mon")
    write.put(("tue", 2), {"delay": 5})
    with pytest.raises(InvalidArgumentError, match="not all in the range"):
        write.commit()
    write.abort()


def test_data_without_a_mapping_is_rows_of_the_kept_one_or_cells(
    rowlock_client: rowlock.Client, flights: rowlock.TypedTable[dict[str, Any]]
) -> None:
    cells = pa.table({"row": [b"mon|\x80\0\0\2"], "family": [b"info"], "qualifier": [b"delay"], "value": [b"\0\0\0\7"]})
    with rowlock_client.bulk_write("flights") as write:
        assert write.write(rows("mon", 10)) == 1
        assert write.write(cells) == 1
        assert write.write(rows("wed", 3), "day STRING :key, number INT :key ordered, delay INT info:delay") == 1
    assert dict(flights.scan(columns=["delay"])) == {
        ("mon", 1): {"delay": 10},
        ("mon", 2): {"delay": 7},
        ("tue", 1): {"delay": 2},
        ("wed", 1): {"delay": 3},
    }


def test_what_does_not_fit_the_kept_mapping_is_refused(
    rowlock_client: rowlock.Client, flights: rowlock.TypedTable[dict[str, Any]]
) -> None:
    write = rowlock_client.bulk_write("flights")
    with pytest.raises(MappingError, match=r"'dealy'.*did you mean 'delay'"):
        write.write(rows("mon", 1).rename_columns(["day", "number", "dealy"]))
    with pytest.raises(MappingError, match="does not agree with the one that table 'flights' keeps"):
        write.write(rows("mon", 1), "day STRING :key, number INT :key ordered, delay BIGINT info:delay")
    write.abort()
    typed = rowlock_client.bulk_write(flights)
    for key, data in ((("mon",), {"delay": 1}), (("mon", 1), {"dealy": 1}), (("mon", 1), {"delay": 1 << 40})):
        with pytest.raises(MappingError):
            typed.put(key, data)
    with pytest.raises(TypeError):
        typed.put(("mon", 1), {"delay": "1"})
    with pytest.raises(TypeError):
        typed.delete(("mon", 1), None)  # type: ignore[arg-type]
    assert typed.commit().row_count == 0
    with pytest.raises(TypeError, match="table must be"):
        rowlock_client.bulk_write(7)  # type: ignore[call-overload]
    assert flights.row(("mon", 1)) == {"delay": 1, "note": "old"}


def test_a_mapping_that_has_changed_since_is_followed(
    rowlock_server: RowlockServer, rowlock_client: rowlock.Client, flights: rowlock.TypedTable[dict[str, Any]]
) -> None:
    wider = f"{MAPPING}, gate STRING info:gate".replace("delay INT", "delay BIGINT")
    with rowlock.connect(rowlock_server.address) as other:
        other.alter_table("flights", mapping=wider)
    gates = rows("mon", 1 << 40).append_column("gate", pa.array(["B7"]))
    with rowlock_client.bulk_write("flights") as write:
        write.write(gates)
    with rowlock_client.bulk_write(flights) as typed:
        with rowlock.connect(rowlock_server.address) as other:
            other.alter_table("flights", mapping=f"{wider}, seat STRING info:seat")
        typed.put(("mon", 2), {"seat": "9A"})
    assert flights.row(("mon", 1), ["delay", "gate"]) == {"delay": 1 << 40, "gate": "B7"}
    assert flights.row(("mon", 2), ["seat"]) == {"seat": "9A"}


def test_typed_bulk_writes_of_the_asyncio_client(
    rowlock_server: RowlockServer, flights: rowlock.TypedTable[dict[str, Any]]
) -> None:
    async def test() -> None:
        async with rowlock.aio.connect(rowlock_server.address) as db:
            table = await db.typed_table("flights", row_type=Flight)
            async with db.bulk_write(table, replace=True) as write:
                await write.put(("wed", 1), {"delay": 1})
                await write.write(rows("wed", 5, 6))
            with contextlib.suppress(ZeroDivisionError):
                async with db.bulk_write(table) as failed:
                    await failed.put(("thu", 1), {"delay": 1})
                    raise ZeroDivisionError

    asyncio.run(test())
    assert dict(flights.scan(columns=["delay"])) == {("wed", 1): {"delay": 5}, ("wed", 2): {"delay": 6}}


def test_rows_whose_batch_could_not_be_staged_are_sent_by_the_next_commit(
    rowlock_client: rowlock.Client,
    flights: rowlock.TypedTable[dict[str, Any]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    write = rowlock_client.bulk_write(flights)
    write.put(("wed", 1), {"delay": 3, "note": None})
    with monkeypatch.context() as patched:
        patched.setattr("rowlock.bulk_write.put_pieces", _refused)
        with pytest.raises(rowlock.RegionTooBusyError):
            write.commit()
    write.commit()
    assert flights.row(("wed", 1))["delay"] == 3


def _refused(*_: object) -> None:
    raise rowlock.RegionTooBusyError("busy")


def test_a_typed_table_of_another_client_is_refused(
    rowlock_client: rowlock.Client, rowlock_server: RowlockServer, flights: rowlock.TypedTable[dict[str, Any]]
) -> None:
    with (
        rowlock.connect(rowlock_server.address) as other,
        pytest.raises(InvalidArgumentError, match="of another client"),
    ):
        other.bulk_write(flights)
