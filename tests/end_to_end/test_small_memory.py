"""Requests to a server with little memory."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import rowlock
from rowlock.errors import LimitExceededError
from rowlock_regionserver.server import Server
from rowlock_regionserver.settings import config_of


@pytest.fixture
def db(tmp_path: Path) -> Iterator[rowlock.Client]:
    with (
        Server(tmp_path / "data", config=config_of(["memory=64MiB"])) as server,
        rowlock.connect(server.address, timeout=5) as db,
    ):
        yield db


def test_a_request_that_never_fits_beside_its_message_is_refused_at_once(db: rowlock.Client) -> None:
    """It was "busy" until the deadline, although the server was idle."""
    table = db.create_table("t", ["f"])
    largest = db.server_info().limits.request_bytes_max
    half = bytes(largest // 2 - 100)
    with pytest.raises(LimitExceededError, match="request_bytes_in_flight_max"):
        table.put("r", {"f:a": half, "f:b": half})
    assert table.row("r") == {}
    smaller = bytes(largest // 2 - 1000)
    table.put("r", {"f:a": smaller, "f:b": smaller})


@pytest.mark.parametrize("value_bytes", [450, 1000])
def test_a_batch_of_many_rows_is_divided_so_that_the_server_takes_it(db: rowlock.Client, value_bytes: int) -> None:
    table = db.create_table("t", ["f"])
    with table.batch(size=10_000, max_bytes=1 << 30) as batch:
        for number in range(8000):
            batch.put(b"%05d" % number, {"f:a": bytes(value_bytes)})
    assert table.count() == 8000
