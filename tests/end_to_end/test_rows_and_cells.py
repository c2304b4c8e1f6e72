"""put_arrow with a mapping leaves the same table whether it sends rows, or cells as to an earlier server."""

from __future__ import annotations

import random
from collections.abc import Callable
from decimal import Decimal

import pyarrow as pa
import pytest
import rowlock
from rowlock._codec.arrow_buffers import Array

from tests.seeds import drawn_seed

MAPPING = (
    "k STRING :key, n INT f:n, text STRING g:text, x DOUBLE f:x, price DECIMAL(10,2) g:price, yes BOOLEAN f:yes, "
    "at TIMESTAMP g:at"
)
NARROW = "k STRING :key, at TIMESTAMP g:at"
COUNT = 20_000


def random_rows(draw: random.Random) -> pa.Table:
    """Returns rows in random order, some keys twice; each column has its own share of nulls."""

    def column(kind: pa.DataType, null_share: float, value: Callable[[int], object]) -> Array:
        return pa.array([None if draw.random() < null_share else value(place) for place in range(COUNT)], kind)

    return pa.table(
        {
            "k": [f"{draw.randrange(COUNT * 10):07}" for _ in range(COUNT)],
            "n": column(pa.int32(), 0.1, lambda place: place),
            "text": column(pa.string(), 0.3, lambda place: "ä" * (place % 4)),
            "x": column(pa.float64(), 0.5, lambda place: place / 3),
            "price": column(pa.decimal128(10, 2), 0.3, lambda place: Decimal(place) / 4),
            "yes": column(pa.bool_(), 0.2, lambda place: place % 3 == 0),
            "at": column(pa.timestamp("us", "UTC"), 0.9, lambda place: place * 1_000_001),
        }
    )


@pytest.mark.parametrize("rows_per_batch", [700, COUNT])
def test_rows_leave_the_same_table_as_cells(rowlock_client: rowlock.Client, rows_per_batch: int) -> None:
    data = random_rows(random.Random(drawn_seed()))
    servers = rowlock_client._servers
    [address] = servers.protocols
    for name, protocol in (("rows", 2), ("cells", 1)):
        rowlock_client.create_table(name, ["f", "g"])
        servers.protocols[address] = protocol
        table = rowlock_client.table(name)
        batches = data.to_batches(max_chunksize=rows_per_batch)
        assert table.put_arrow(batches, MAPPING, timestamp=5).row_count == COUNT
        # The client asks again if rows are refused.
        assert servers.protocols[address] == protocol
    for _ in range(2):
        rows, cells = (rowlock_client.table(name) for name in ("rows", "cells"))
        assert rows.scan().to_arrow(MAPPING).equals(cells.scan().to_arrow(MAPPING))
        assert rows.scan().to_arrow(NARROW).equals(cells.scan().to_arrow(NARROW))
        assert rows.scan().to_arrow().equals(cells.scan().to_arrow())
        for name in ("rows", "cells"):
            rowlock_client.flush(name)
