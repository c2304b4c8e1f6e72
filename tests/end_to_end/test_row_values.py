"""Gets and puts of rows as RowValues at a real server, and as cells and puts for an earlier one: the same rows."""

from __future__ import annotations

import time
from random import Random

import pytest
import rowlock
from rowlock.pytest_plugin import RowlockServer

from tests.consistency.both_ways import client_both_ways
from tests.seeds import drawn_seed
from tests.waiting import WAIT_S

# The last protocol without RowMutation.puts.
EARLIER_PROTOCOL = 9


def random_row(random: Random) -> dict[bytes, bytes]:
    """A row of some columns, of very many, or of a long value."""
    count, length = random.choice([(1, 5), (3, 0), (10, 100), (70, 9), (200, 1), (2, 100_000)])
    columns = [b"%c:q%d" % (b"fg"[number % 2], number) for number in random.sample(range(300), count)]
    return {column: random.randbytes(random.randrange(length + 1)) for column in columns}


@pytest.mark.usefixtures("rowlock_client")  # It drops the tables.
def test_a_row_is_what_was_put_by_grpc_and_directly_and_for_an_earlier_server(rowlock_server: RowlockServer) -> None:
    seed = drawn_seed()
    random = Random(seed)
    with (
        client_both_ways(rowlock_server.address, WAIT_S, seed) as db,
        rowlock.connect(rowlock_server.address, timeout=WAIT_S) as earlier,
    ):
        protocols = earlier._servers.protocols
        assert all(each > EARLIER_PROTOCOL for each in protocols.values()), "this client would not put RowValues"
        protocols.update(dict.fromkeys(protocols, EARLIER_PROTOCOL))
        table, of_earlier = db.create_table("t", ["f", "g"]), earlier.table("t")
        expected: dict[bytes, dict[bytes, bytes]] = {}
        for number in range(60):
            row = b"%d" % random.randrange(20)
            data = random_row(random)
            (table if number % 2 else of_earlier).put(row, data)
            expected[row] = dict(sorted({**expected.get(row, {}), **data}.items()))
            assert list(table.row(row).items()) == list(expected[row].items()), f"seed {seed}, put {number}"
        assert table.row(b"absent") == {}
        assert dict(table.scan()) == expected


def test_the_newest_of_several_versions_is_read(rowlock_client: rowlock.Client) -> None:
    table = rowlock_client.create_table("t", {"f": rowlock.Family(versions=3)})
    for number in range(3):
        table.put(b"r", {b"f:a": b"%d" % number, b"f:b": b"b"})
        time.sleep(0.002)  # Two puts in one millisecond have one timestamp, and so are one version.
    assert table.row(b"r") == {b"f:a": b"2", b"f:b": b"b"}
    assert [value for value, _ in table.cells(b"r", b"f:a")] == [b"2", b"1", b"0"]
    table.delete(b"r", [b"f:a"])
    assert table.row(b"r") == {b"f:b": b"b"}
    assert {column: value for column, (value, _) in table.row(b"r", include_timestamp=True).items()} == {b"f:b": b"b"}


def test_a_column_of_an_unknown_family_is_refused_and_nothing_is_changed(rowlock_client: rowlock.Client) -> None:
    table = rowlock_client.create_table("t", ["f"])
    with pytest.raises(rowlock.FamilyNotFoundError, match="nowhere"):
        table.put(b"r", {b"f:a": b"1", b"nowhere:b": b"2"})
    assert table.row(b"r") == {}


def test_texts_are_encoded_and_decoded(rowlock_client: rowlock.Client) -> None:
    rowlock_client.create_table("t", ["f"])
    table = rowlock_client.table("t", encoding="utf-8")
    table.put("größe", {"f:größe": "ä", "f:": b"\xff"})
    assert table.row("größe") == {"f:": "\udcff", "f:größe": "ä"}
