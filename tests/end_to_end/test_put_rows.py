"""Batches to a real server, in columns and as mutations, by gRPC and over a direct connection: the same outcomes."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence

import pytest
import rowlock
from rowlock._core.put_rows import ROWS_MIN
from rowlock.pytest_plugin import RowlockServer

from tests.consistency.both_ways import client_both_ways
from tests.seeds import drawn_seed
from tests.waiting import WAIT_S

# The last protocol without puts in columns.
EARLIER_PROTOCOL = 5

Row = tuple[bytes, Mapping[bytes, bytes], int | None]


def random_rows(generator: random.Random) -> Sequence[Row]:
    """Rows of which some occur twice; in half of the cases some are refused."""
    columns = [b"f:a", b"f:b", b"f:", b"g:a"]
    refused = [b"nowhere:a"] if generator.random() < 0.5 else []
    rows: list[Row] = []
    for _ in range(generator.choice([1, 10, 100, 300])):
        names = generator.sample(columns, generator.randint(3, 4))
        if refused and generator.random() < 0.05:
            names += refused
        data = {name: generator.randbytes(generator.choice([0, 5, 50])) for name in names}
        rows.append((b"%03d" % generator.randrange(1000), data, generator.choice([None, None, 7])))
    return rows


def outcome(table: rowlock.Table[bytes], rows: Sequence[Row], deleted: Sequence[bytes]) -> object:
    """Puts the rows and deletes others in one batch. Returns what its caller sees."""
    batch = table.batch(size=10_000)
    for row, data, timestamp in rows:
        batch.put(row, data, timestamp=timestamp)
    for row in deleted:
        batch.delete(row)
    try:
        batch.send()
    except rowlock.BatchError as error:
        failed = [(row, type(failure), failure.args) for row, failure in error.failed]
        return error.applied, failed, error.unknown
    return batch.applied_count


def cells_of(table: rowlock.Table[bytes]) -> list[tuple[bytes, dict[bytes, bytes]]]:
    return list(table.scan())


@pytest.mark.usefixtures("rowlock_client")  # It drops the tables.
def test_both_ways_have_the_same_outcome_by_grpc_and_directly(rowlock_server: RowlockServer) -> None:
    seed = drawn_seed()
    generator = random.Random(seed)
    with (
        client_both_ways(rowlock_server.address, WAIT_S, seed) as in_columns,
        rowlock.connect(rowlock_server.address, timeout=WAIT_S) as as_mutations,
    ):
        tables = [db.create_table(name, ["f", "g"]) for db, name in ((in_columns, "one"), (as_mutations, "two"))]
        protocols = as_mutations._servers.protocols
        protocols.update(dict.fromkeys(protocols, EARLIER_PROTOCOL))
        for number in range(25):
            rows = random_rows(generator)
            deleted = [b"%03d" % generator.randrange(1000) for _ in range(generator.choice([0, 3]))]
            found, expected = (outcome(table, rows, deleted) for table in tables)
            where = f"seed {seed}, batch {number}"
            assert str(found) == str(expected).replace("'two'", "'one'"), where
            assert cells_of(tables[0]) == cells_of(tables[1]), where


def test_typed_rows_are_stored_as_they_were(rowlock_client: rowlock.Client) -> None:
    rowlock_client.create_table("typed", ["f"])
    typed = rowlock_client.table("typed", mapping=rowlock.Mapping("id BIGINT :key, n INT f:n, s STRING f:s"))
    with typed.batch() as batch:
        for number in range(2 * ROWS_MIN):
            batch.put(number, {"n": number, "s": f"text {number}"})
    found = sorted((key, row["n"], row["s"]) for key, row in typed.scan())
    assert found == [(number, number, f"text {number}") for number in range(2 * ROWS_MIN)]
