"""Messages that users get from a real server: they say what is wrong, where, and what to do."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest
import rowlock

from tests.end_to_end.server_command import ServerCommand
from tests.end_to_end.test_refusals_of_folders import WITHOUT_RIGHTS

MIB = 1 << 20
# Beyond grpc's own limit: request_bytes_max plus 1 MiB.
TOO_LARGE = b"x" * (3 * MIB)


@pytest.fixture
def small(tmp_path: Path) -> Iterator[rowlock.Table[bytes]]:
    """A table of a server that accepts requests of 1 MiB."""
    limits = ("--config", "request_bytes_max=1MiB", "--config", "cell_bytes_max=1MiB")
    with ServerCommand("--data", tmp_path / "data", "--listen", "127.0.0.1:0", *limits) as server:
        with rowlock.connect(server.ready()) as db:
            yield db.create_table("t", ["f"])
        server.signal(signal.SIGTERM)
        assert server.ended() == (0, "", "")


def in_batch(table: rowlock.Table[bytes]) -> None:
    with table.batch() as batch:
        batch.put(b"r", {"f:a": TOO_LARGE})


@pytest.mark.parametrize(
    "send",
    [
        lambda table: table.put(b"r", {"f:a": TOO_LARGE}),
        lambda table: table.append(b"r", "f:a", TOO_LARGE),
        lambda table: table.check_and_put(b"r", "f:a", TOO_LARGE, {"f:a": b"1"}),
        lambda table: table.put_arrow(pa.table({"k": [b"r"], "v": [TOO_LARGE]}), "k BINARY :key, v BINARY f:v"),
        in_batch,
    ],
    ids=["put", "append", "check_and_put", "put_arrow", "batch"],
)
def test_the_error_for_a_far_too_large_request_names_the_limit(
    small: rowlock.Table[bytes], send: Callable[[rowlock.Table[bytes]], object]
) -> None:
    with pytest.raises(rowlock.RowlockError) as refused:
        send(small)
    error = refused.value.failed[0][1] if isinstance(refused.value, rowlock.BatchError) else refused.value
    assert isinstance(error, rowlock.LimitExceededError)
    assert (error.limit, error.limit_value) == ("request_bytes_max", MIB)
    assert error.found > len(TOO_LARGE)
    assert f"more than request_bytes_max = {MIB} of the server at 127.0.0.1:" in str(refused.value)
    assert "send less at once" in str(refused.value)
    assert small.row(b"r") == {}


@pytest.mark.parametrize(
    "call",
    [
        lambda table: table.row(b"r", ["nosuch:a"]),
        lambda table: table.row(b"r", ["nosuch"]),
        lambda table: list(table.scan(columns=["nosuch"])),
        lambda table: list(table.scan(where=rowlock.column("nosuch:a") == b"1")),
        lambda table: table.check_and_mutate(b"r", rowlock.column("nosuch:a") == b"1", [rowlock.Put("f:a", b"1")]),
        lambda table: table.put(b"r", {"nosuch:a": b"1"}),
    ],
)
def test_the_error_for_an_unknown_family_names_the_table(
    rowlock_client: rowlock.Client, call: Callable[[rowlock.Table[bytes]], object]
) -> None:
    table = rowlock_client.create_table("named", ["f", "g"])
    with pytest.raises(rowlock.FamilyNotFoundError) as refused:
        call(table)
    assert str(refused.value) == "table 'named' has no column family nosuch; it has: f, g"
    assert (refused.value.table, refused.value.family) == ("named", b"nosuch")


def test_a_missing_server_is_reported_once() -> None:
    for address, why in (("127.0.0.1:1", "Connection refused. Is it running?"), ("host.invalid:7460", "")):
        with pytest.raises(rowlock.ServerUnavailableError) as refused:
            rowlock.connect(address, timeout=0.5)
        message = str(refused.value)
        assert message.startswith(f"no rowlock server answers at {address}: {why}")
        assert message.count("answers at") == 1
        assert "was lost" not in message
        assert ("the host name 'host.invalid' does not resolve" in message) is (not why)


def test_a_folder_that_becomes_read_only_ends_the_server_in_one_line(tmp_path: Path) -> None:
    data = tmp_path / "data"
    words = ("--data", data, "--listen", "127.0.0.1:0")
    with ServerCommand(*words, program=("-c", WITHOUT_RIGHTS)) as server, rowlock.connect(server.ready()) as db:
        table = db.create_table("t", ["f"])
        table.put(b"r", {"f:a": b"1"})
        (data / "catalog").chmod(0o500)
        try:
            with pytest.raises(rowlock.UnknownOutcomeError, match="List the tables"):
                db.create_table("u", ["f"])
        finally:
            (data / "catalog").chmod(0o700)
        code, _, errors = server.ended()
    assert code == 3
    assert errors.count("\n") == 1
    assert errors.startswith("rowlock-server: ending at once, because a file of the data could not be written: ")
    assert f"Permission denied: '{data / 'catalog'}" in errors
    assert "start the server again" in errors
    with ServerCommand(*words) as server, rowlock.connect(server.ready()) as db:
        assert db.table("t").row(b"r") == {b"f:a": b"1"}


def test_the_server_prints_its_version() -> None:
    with ServerCommand("--version") as server:
        code, output, errors = server.ended()
    assert (code, errors) == (0, "")
    assert output.startswith("rowlock-server ")
