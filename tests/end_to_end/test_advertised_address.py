"""A server that gives its clients an address at which they don't reach it: errors say where the address is from."""

from __future__ import annotations

import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import rowlock
from rowlock_regionserver.server import Server

MAPPING = "k STRING :key, n BIGINT f:n"


@pytest.mark.parametrize(
    "call",
    [
        lambda db: db.table("t").put("a", {"f:x": "1"}),
        lambda db: db.table("t").row("a"),
        lambda db: list(db.table("t").scan()),
        lambda db: db.flush("t"),
        lambda db: db.table("t").put_arrow(pa.table({"k": ["a"], "n": [1]}), MAPPING),
    ],
)
def test_an_address_that_nobody_answers_is_named_as_the_server_s(
    tmp_path: Path, call: Callable[[rowlock.Client], Any]
) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        nobody = f"127.0.0.1:{free.getsockname()[1]}"
        with (
            Server(tmp_path / "folder", advertise=nobody) as server,
            rowlock.connect(server.address, timeout=2) as db,
        ):
            db.create_table("t", ["f"])
            with pytest.raises(rowlock.RowlockError) as raised:
                call(db)
    assert f"no server answers at {nobody}" in str(raised.value)
    assert f"; {nobody} is the address that the server at {server.address} gives to its clients" in str(raised.value)
