"""Procedures of a real server process, called by clients over direct connections and gRPC."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import grpc
import psutil
import pytest
import rowlock
import rowlock.aio
from rowlock.pytest_plugin import RowlockServer
from rowlock_proto.v1 import region_pb2, region_pb2_grpc

from tests.procedure_packages import python_path, write_functions
from tests.waiting import WAIT_S, wait_until

from .procedure_server import server_with
from .server_command import ServerCommand

NAMES = ["count", "fail", "hold", "stray", "wrong"]
SOURCE = """
    import time
    from pathlib import Path

    def count(table, row, argument):
        with Path(argument.decode() or "/dev/null").open("a") as runs:
            runs.write("x")
        number = table.increment(row, "f:n")
        table.put(row, {"f:same": str(number)})
        return b"%d" % number

    def fail(table, row, argument):
        table.put(row, {"f:half": "1"})
        raise ValueError("no " + argument.decode())

    def stray(table, row, argument):
        table.put("another", {"f:n": "1"})
        return b""

    def wrong(table, row, argument):
        table.put(row, {"f:half": "1"})
        return "text"

    def hold(table, row, argument):
        # Reads the row, and changes it when the file is there.
        before = table.counter(row, "f:n")
        Path(argument.decode() + ".begun").touch()
        while not Path(argument.decode()).exists():
            time.sleep(0.001)
        table.put(row, {"f:n": (before + 1).to_bytes(8, "big")})
        return b"%d" % (before + 1)
    """


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_functions(tmp_path_factory.mktemp("packages"), "some_procedures", SOURCE)


@pytest.fixture(scope="module")
def server(packages: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RowlockServer]:
    with server_with(packages, NAMES, tmp_path_factory.mktemp("server")) as running:
        yield running


@pytest.fixture
def db(server: RowlockServer) -> Iterator[rowlock.Client]:
    with rowlock.connect(server.address) as client:
        yield client


@pytest.fixture
def table(db: rowlock.Client, request: pytest.FixtureRequest) -> rowlock.Table[bytes]:
    return db.create_table(f"t{abs(hash(request.node.name))}", ["f"])


def test_a_call_changes_its_row_and_answers(db: rowlock.Client, table: rowlock.Table[bytes]) -> None:
    assert db.procedures() == NAMES
    assert [table.call("r", "count") for _ in range(3)] == [b"1", b"2", b"3"]
    assert table.row(b"r") == {b"f:n": (3).to_bytes(8, "big"), b"f:same": b"3"}
    text = db.table(table.name, encoding="utf-8")
    assert text.call("r", "count") == b"4", "an answer is bytes, also of a table with an encoding"


def test_typed_tables_and_asyncio_call_the_same(
    server: RowlockServer, db: rowlock.Client, table: rowlock.Table[bytes]
) -> None:
    typed = db.table(table.name, mapping="carrier STRING :key, number BIGINT :key, n BIGINT f:n")
    assert typed.call(("UA", 7), "count") == b"1"
    assert typed.row(("UA", 7), ["n"]) == {"n": 1}

    async def calls() -> None:
        async with await rowlock.aio.connect(server.address) as client:
            assert await client.procedures() == NAMES
            answers = await asyncio.gather(*(client.table(table.name).call("a", "count") for _ in range(20)))
            assert sorted(map(int, answers)) == list(range(1, 21))
            assert await client.table(table.name, mapping=typed.mapping).call(("UA", 7), "count") == b"2"

    asyncio.run(calls())


def test_failures_reach_the_caller_and_change_nothing(db: rowlock.Client, table: rowlock.Table[bytes]) -> None:
    for name, why in (
        ("fail", r"ValueError: no beer \(some_procedures.py, line 1[0-9]\)"),
        ("stray", "may not read or change row 'another'"),
        ("wrong", "returned str, not bytes"),
    ):
        with pytest.raises(rowlock.ProcedureFailedError, match=why) as caught:
            table.call("r", name, "beer")
        assert not caught.value.can_retry
        assert caught.value.row == b"r"
    with pytest.raises(rowlock.ProcedureNotFoundError, match="no procedure 'nothing'; it has: count, fail, hold"):
        table.call("r", "nothing")
    with pytest.raises(rowlock.InvalidArgumentError, match="the name of the procedure is empty"):
        table.call("r", "")
    with pytest.raises(TypeError, match="must be a str, not bytes"):
        table.call("r", b"count")  # type: ignore[arg-type]
    with pytest.raises(rowlock.LimitExceededError, match="procedure_read_bytes_max"):
        table.call("r", "count", b"x" * 2_000_000)
    with pytest.raises(rowlock.TableNotFoundError):
        db.table("absent").call("r", "count")
    assert dict(table.scan()) == {}


def test_a_server_without_procedures_refuses_each(
    rowlock_client: rowlock.Client,
) -> None:
    table = rowlock_client.create_table("without_procedures", ["f"])
    assert rowlock_client.procedures() == []
    with pytest.raises(rowlock.ProcedureNotFoundError, match="this server runs no procedures"):
        table.call("r", "count")


def test_other_callers_go_on_while_a_procedure_runs_and_those_of_its_row_wait(
    table: rowlock.Table[bytes], tmp_path: Path
) -> None:
    go = tmp_path / "go"
    with ThreadPoolExecutor(2) as threads:
        try:
            held = threads.submit(table.call, "r", "hold", str(go))
            wait_until(Path(f"{go}.begun").exists)
            waiting = threads.submit(table.increment, "r", "f:n", 10)
            table.put("other", {"f:a": "1"})
            assert table.row("r") == {}
            assert table.call("other", "count") == b"1"
            assert not waiting.done()
        finally:
            go.touch()
        assert held.result() == b"1"
        assert waiting.result() == 11, "the procedure had read 0 before, and nothing came between"


def test_a_call_that_is_too_late_changes_nothing_and_frees_the_row(packages: Path, tmp_path: Path) -> None:
    go = tmp_path / "go"
    with (
        server_with(packages, ["hold", "count"], tmp_path, "--config=procedure_ms_max=50") as server,
        rowlock.connect(server.address) as db,
    ):
        table = db.create_table("t", ["f"])
        with pytest.raises(rowlock.ProcedureFailedError, match="took longer than procedure_ms_max = 50 ms"):
            table.call("r", "hold", str(go))
        table.put("r", {"f:a": "1"})
        go.touch()
        assert table.row("r") == {b"f:a": b"1"}
        status = db.status().procedures
        assert [(each.name, each.call_count, each.failed_count) for each in status] == [("count", 0, 0), ("hold", 1, 1)]


def test_a_repeated_call_runs_once_also_if_the_server_was_killed(packages: Path, tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    with server_with(packages, ["count"], tmp_path) as server:
        with rowlock.connect(server.address) as db:
            db.create_table("t", ["f"])
            region = db.describe("t").regions[0].region

        def send(sequence: int, age_ms: int) -> region_pb2.PointAnswer:
            message = region_pb2.PointRequests(client_id=b"c" * 16, sequence_floor=1)
            request = message.requests.add(id=1, region_id=region.region_id)
            called = region_pb2.CallProcedure(
                row=b"r", name="count", argument=str(runs).encode(), sequence=sequence, age_ms=age_ms
            )
            request.call.CopyFrom(called)
            return _converse(server.address, message)

        first = send(1, 0).call
        assert (first.answer, first.repeated_request) == (b"1", False)
        again = send(1, 1).call
        assert (again.answer, again.timestamp, again.repeated_request) == (b"1", first.timestamp, True)
        server.kill()
        server.start()
        again = send(1, 2).call
        assert (again.answer, again.timestamp, again.repeated_request) == (b"1", first.timestamp, True)
        assert runs.read_text() == "x"
        assert send(2, 0).call.answer == b"2"
        server.restart()
        assert send(2, 1).call.answer == b"2", "the flush of an orderly stop keeps the answer"
        assert runs.read_text() == "xx"


def _converse(address: str, message: region_pb2.PointRequests) -> region_pb2.PointAnswer:
    """Sends one message on a point stream of its own, by gRPC."""
    with grpc.insecure_channel(address) as channel:
        stub = region_pb2_grpc.RegionServiceStub(channel)  # type: ignore[no-untyped-call]  # generated code
        (answers,) = stub.Converse(iter([message]), timeout=WAIT_S)
        return answers.answers[0]  # type: ignore[no-any-return]


def test_the_processes_end_with_a_server_that_is_killed(packages: Path, tmp_path: Path) -> None:
    with server_with(packages, ["hold"], tmp_path) as server:
        assert server._process is not None
        children = psutil.Process(server._process.pid).children()
        assert len(children) == 2
        server.kill()
        wait_until(lambda: not any(map(_runs, children)))


def _runs(process: psutil.Process) -> bool:
    try:
        return process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def test_a_name_that_is_not_installed_stops_the_start(packages: Path, tmp_path: Path) -> None:
    arguments = ("--data", tmp_path / "data", "--listen", "127.0.0.1:0", "--config", "procedures=absent")
    with ServerCommand(*arguments, environment={"PYTHONPATH": python_path(packages)}) as command:
        code, _, errors = command.ended()
    assert code == 2
    assert "can't start: procedures: no installed package has an entry point 'absent'" in errors
    assert "count, fail, hold, stray, wrong" in errors
    assert not (tmp_path / "data").exists()


def test_the_command_calls_and_status_shows(server: RowlockServer, table: rowlock.Table[bytes]) -> None:
    def command(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "rowlock", "--server", server.address, *words], capture_output=True, text=True
        )

    assert command("call", table.name, "r", "count").stdout == "1\n"
    shown = command("--json", "call", table.name, r"\xff", "count", "").stdout
    assert shown == '{"row": "\\\\xff", "procedure": "count", "answer": "1"}\n'
    failed = command("call", table.name, "r", "fail", "wine")
    assert (failed.returncode, failed.stdout) == (2, "")
    assert "ValueError: no wine" in failed.stderr
    assert "procedures hold\t" in command("status").stdout
