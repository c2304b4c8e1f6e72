"""The soak's copy of a table that is made from its change feed sees what a broken feed does."""

from __future__ import annotations

import random
from contextlib import nullcontext
from typing import Any

import pyarrow as pa
import rowlock
from rowlock.pytest_plugin import RowlockServer

from tests.soak.feed_reader import FeedReader
from tests.soak.model import UNKNOWN, SliceModel
from tests.soak.turnstile import Turnstile


def change(row: str, number: int, kind: str = "put", *, column: str = "f:a") -> dict[str, Any]:
    """Returns a change as `to_pylist` of a batch has it."""
    family, qualifier = column.encode().split(b":")
    names = {"row": row.encode(), "family": family, "qualifier": qualifier, "value": b""}
    return {**names, "write_number": number, "kind": kind, "timestamp": 5}


def reader_of(model: SliceModel, client: rowlock.Client | None = None) -> FeedReader:
    def connect() -> nullcontext[rowlock.Client]:
        assert client is not None
        return nullcontext(client)

    return FeedReader(connect, "t", [model], Turnstile(), random.Random(1))


def taken(*batches: list[dict[str, Any]]) -> list[str]:
    """Returns the problems of a reader that takes these, one after the other."""
    reader = reader_of(SliceModel())
    for changes in batches:
        reader.take([pa.RecordBatch.from_pylist(changes)])
    return reader.problems


def test_changes_in_their_order_are_no_problem() -> None:
    several = [change("a", 7, column="f:b"), change("a", 7), change("a", 7, "delete_column"), change("b", 7)]
    assert not taken([change("a", 3), change("a", 5)], several, [change("b", 8)])


def test_a_change_that_comes_twice_is_found() -> None:
    [within] = taken([change("a", 3), change("a", 3)])
    assert within.endswith("2 times")
    [later] = taken([change("a", 3)], [change("a", 3)])
    assert "has number 3 of b'a' after 3" in later


def test_changes_out_of_order_are_found() -> None:
    assert taken([change("a", 5), change("b", 3)])
    assert taken([change("a", 5)], [change("a", 4)])
    reader = reader_of(SliceModel())
    # Parts of one number, which are stored together.
    reader.take([pa.RecordBatch.from_pylist([each]) for each in (change("a", 5), change("a", 4))])
    assert reader.problems


def test_parts_of_two_regions_are_no_problem() -> None:
    reader = reader_of(SliceModel())
    reader.take([pa.RecordBatch.from_pylist([each]) for each in (change("a", 5), change("b", 4))])
    assert not reader.problems


def test_a_copy_is_compared_with_the_models(rowlock_server: RowlockServer, rowlock_client: rowlock.Client) -> None:
    families = {"f": rowlock.Family(), "g": rowlock.Family(versions=3)}
    table = rowlock_client.create_table("t", families, properties={"changes_retained_hours": 1})
    model = SliceModel()
    reader = reader_of(model, rowlock_client)
    for at in (4, 9, 6):
        table.put(b"a", {b"g:a": b"%d" % at}, timestamp=at)
        model.put(b"a", b"g:a", b"%d" % at, at)
    table.delete(b"a", [b"g:a"], timestamp=6)
    model.delete(b"a", b"g:a", 6)
    table.put(b"b", {b"f:a": b"1"})
    model.put(b"b", b"f:a", b"1", UNKNOWN)
    reader.compare()
    assert not reader.problems
    table.put(b"b", {b"f:a": b"2"})
    reader.compare()
    assert len(reader.problems) == 1
