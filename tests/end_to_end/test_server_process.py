"""The server process: it starts, stops cleanly, and refuses with one line and without any change."""

from __future__ import annotations

import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from rowlock_proto.v1 import catalog_pb2, region_pb2
from rowlock_proto.v1.types_pb2 import DURABILITY_FSYNC, Error
from rowlock_regionserver.server import Server

from tests.end_to_end.raw_client import RawClient, RawConversation, evidence, get, increment, mutate, put
from tests.end_to_end.server_command import ServerCommand

ANY_PORT = ("--listen", "127.0.0.1:0")


def contents(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_it_says_one_line_when_it_is_ready_and_nothing_more(tmp_path: Path) -> None:
    with ServerCommand("--data", tmp_path / "data", *ANY_PORT, is_warm=False) as server:
        address = server.ready()
        assert not address.endswith(":0")
        with RawClient(address) as client:
            assert client.catalog.ServerInfo(catalog_pb2.ServerInfoRequest()).protocol == 1
        server.signal(signal.SIGTERM)
        assert server.ended() == (0, "", "")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_stop_answers_started_requests_and_keeps_acknowledged_changes(tmp_path: Path, number: signal.Signals) -> None:
    acknowledged: list[bytes] = []
    ended: list[grpc.RpcError] = []
    with ServerCommand("--data", tmp_path, *ANY_PORT) as server, RawClient(server.ready()) as client:
        region_id = client.create_table("t", b"f", durability=DURABILITY_FSYNC)
        conversation = RawConversation(client)
        enough = threading.Event()

        def write() -> None:
            for i in range(1_000_000):
                try:
                    result = conversation.ask(mutate(i, region_id, put(b"%d" % i, b"v"))).mutate.results[0]
                except grpc.RpcError as error:
                    ended.append(error)
                    return
                assert result.timestamp
                acknowledged.append(b"%d" % i)
                if i == 100:
                    enough.set()

        writer = threading.Thread(target=write)
        writer.start()
        assert enough.wait(180)
        server.signal(number)
        writer.join()
        assert server.ended() == (0, "", "")
    assert isinstance(ended[0], grpc.Call)
    assert ended[0].code() is grpc.StatusCode.UNAVAILABLE
    assert evidence(ended[0]).code == Error.SERVER_STOPPING
    with ServerCommand("--data", tmp_path, *ANY_PORT) as server, RawClient(server.ready()) as client:
        region_id = client.region_id("t")
        assert set(client.rows(region_id)) >= set(acknowledged)
        described = client.catalog.DescribeTable(catalog_pb2.DescribeTableRequest(name="t"))
        assert described.regions[0].store_file_cells >= len(acknowledged), "the stop did not flush"


def test_a_stop_ends_scans_and_watchers_without_a_grace_period(tmp_path: Path) -> None:
    patient = (
        "from rowlock_regionserver import server\n"
        "from rowlock_regionserver.__main__ import main\n"
        "server.STOP_GRACE_SECONDS = 600.0\n"
        "main()\n"
    )
    with (
        ServerCommand("--data", tmp_path, *ANY_PORT, program=("-c", patient)) as server,
        RawClient(server.ready()) as client,
    ):
        region_id = client.create_table("t", b"f")
        rows = [put(b"%04d" % i, b"v" * 10_000) for i in range(1000)]
        client.regions.Mutate(region_pb2.MutateCall(region_id=region_id, mutate=region_pb2.Mutate(mutations=rows)))
        stalled = client.regions.Scan(region_pb2.ScanRequest(region_id=region_id))
        next(iter(stalled))
        watch = health_pb2_grpc.HealthStub(client.channel).Watch(health_pb2.HealthCheckRequest())
        next(iter(watch))
        idle = RawConversation(client)
        idle.ask(get(1, region_id, b"0000"))
        server.signal(signal.SIGTERM)
        assert server.process.wait(timeout=200) == 0
        idle.end()


def test_a_server_can_be_stopped_before_it_is_ready(tmp_path: Path) -> None:
    with ServerCommand("--data", tmp_path, *ANY_PORT, is_warm=False) as server:
        # The lock file appears in the middle of the start.
        while not (tmp_path / "lock").exists():
            assert server.process.poll() is None
        server.signal(signal.SIGTERM)
        code, _, errors = server.ended()
        assert (code, errors) == (0, "")
    with ServerCommand("--data", tmp_path, *ANY_PORT, is_warm=False) as server:
        server.signal(signal.SIGTERM)
        code, output, errors = server.ended()
        assert code in (0, -signal.SIGTERM)
        assert (output, errors) == ("", "")
    with ServerCommand("--data", tmp_path, *ANY_PORT) as server:
        server.ready()


def test_a_second_signal_ends_a_stop_that_takes_too_long(tmp_path: Path) -> None:
    never_stops = (
        "import time\n"
        "from rowlock_regionserver.host.region_server import RegionServer\n"
        "from rowlock_regionserver.__main__ import main\n"
        "RegionServer.stop = lambda self: time.sleep(600)\n"
        "main()\n"
    )
    with ServerCommand("--data", tmp_path, *ANY_PORT, program=("-c", never_stops)) as server:
        server.ready()
        while server.process.poll() is None:
            server.signal(signal.SIGTERM)
            try:
                server.process.wait(timeout=0.1)
            except subprocess.TimeoutExpired:
                continue
        code, _, errors = server.ended()
        assert code == 1
        assert "SIGTERM again" in errors
        assert errors.count("\n") == 1


@pytest.mark.parametrize("in_one_message", [100, 1], ids=["many at once", "a lone caller"])
def test_acknowledged_changes_survive_a_kill(tmp_path: Path, in_one_message: int) -> None:
    quick = ("--config", "log_quick_sync_us=3600000000")
    with ServerCommand("--data", tmp_path, *ANY_PORT, *quick) as server, RawClient(server.ready()) as client:
        region_id = client.create_table("t", b"f", durability=DURABILITY_FSYNC)
        conversation = RawConversation(client)
        for first in range(0, 100, in_one_message):
            sent = range(first, first + in_one_message)
            conversation.send(*(mutate(i, region_id, increment(b"r")) for i in sent))
            for i in sent:
                conversation.answer(i)
        server.signal(signal.SIGKILL)
        server.process.wait()
        conversation.end()
    with ServerCommand("--data", tmp_path, *ANY_PORT) as server, RawClient(server.ready()) as client:
        answer = client.regions.Get(
            region_pb2.GetCall(region_id=client.region_id("t"), get=region_pb2.Get(rows=[b"r"]))
        )
        assert int.from_bytes(answer.rows[0].cells[0].value, "big") == 100


def test_a_sync_that_fails_ends_the_process_with_nothing_acknowledged_after_it(tmp_path: Path) -> None:
    sync_fails = (
        "import errno, os, sys\n"
        "from rowlock_regionserver.files import Files\n"
        "from rowlock_regionserver.__main__ import main\n"
        "sync = Files.fdatasync\n"
        "def fdatasync(self, descriptor):\n"
        "    if os.path.exists(sys.argv[2] + '.fail'):\n"
        "        raise OSError(errno.EIO, 'Input/output error')\n"
        "    sync(self, descriptor)\n"
        "Files.fdatasync = fdatasync\n"
        "main()\n"
    )
    data = tmp_path / "data"
    with (
        ServerCommand("--data", data, *ANY_PORT, program=("-c", sync_fails)) as server,
        RawClient(server.ready()) as client,
    ):
        region_id = client.create_table("t", b"f", durability=DURABILITY_FSYNC)
        conversation = RawConversation(client)
        assert conversation.ask(mutate(1, region_id, put(b"before", b"v"))).mutate.results[0].timestamp
        (tmp_path / "data.fail").touch()
        assert outcome_after(conversation, mutate(2, region_id, put(b"after", b"v"))) in (
            grpc.StatusCode.UNAVAILABLE,
            Error.UNKNOWN_OUTCOME,
        )
        code, _, errors = server.ended()
        assert code == 3
        assert "Input/output error" in errors
        conversation.end()


def outcome_after(conversation: RawConversation, request: region_pb2.PointRequest) -> object:
    """Returns the error of a change on a server that is stopping: the stream's status, or the error in its answer."""
    try:
        answer = conversation.ask(request)
    except grpc.RpcError as error:
        return error.code() if isinstance(error, grpc.Call) else error
    return answer.error.code or answer.mutate.results[0].error.code


def refused(*arguments: str | Path) -> str:
    """Returns the one line with which the server refuses to start."""
    with ServerCommand(*arguments) as server:
        code, output, errors = server.ended()
    assert (code, output, errors.count("\n")) == (2, "", 1), errors
    return errors


def test_a_taken_port_is_refused_and_the_folder_is_not_made(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        error = refused("--data", tmp_path / "data", "--listen", address)
    assert address in error
    assert "in use" in error
    assert "--listen" in error
    assert not (tmp_path / "data").exists()


def test_a_port_that_another_server_has_is_taken_too(tmp_path: Path) -> None:
    with ServerCommand("--data", tmp_path / "a", *ANY_PORT) as server:
        address = server.ready()
        assert address in refused("--data", tmp_path / "b", "--listen", address)


def test_a_folder_in_use_is_refused_and_its_server_is_unharmed(tmp_path: Path) -> None:
    with ServerCommand("--data", tmp_path, *ANY_PORT) as server, RawClient(server.ready()) as client:
        error = refused("--data", tmp_path, *ANY_PORT)
        assert f"in use by another rowlock-server (process {server.process.pid})" in error
        client.create_table("t", b"f")


def test_a_folder_that_is_not_ours_or_of_another_version_is_left_as_it_is(tmp_path: Path) -> None:
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    (theirs / "thesis.txt").write_text("years of work")
    assert "not a rowlock data folder" in refused("--data", theirs, *ANY_PORT)
    assert contents(theirs) == {theirs / "thesis.txt": b"years of work"}
    newer = tmp_path / "newer"
    with ServerCommand("--data", newer, *ANY_PORT) as server:
        server.ready()
        server.signal(signal.SIGTERM)
        server.ended()
    line = (newer / "format").read_bytes()
    (newer / "format").write_bytes(line.replace(b"format 1", b"format 2"))
    before = contents(newer)
    assert "has format 2" in refused("--data", newer, *ANY_PORT)
    assert contents(newer) == before
    assert "is missing" in refused("--data", tmp_path / "no" / "data", *ANY_PORT)


def test_a_lost_catalog_is_refused_rather_than_taken_for_an_empty_one(tmp_path: Path) -> None:
    with ServerCommand("--data", tmp_path, *ANY_PORT) as server, RawClient(server.ready()) as client:
        client.create_table("t", b"f")
        server.signal(signal.SIGTERM)
        server.ended()
    shutil.rmtree(tmp_path / "catalog")
    before = contents(tmp_path)
    assert "verify" in refused("--data", tmp_path, *ANY_PORT)
    assert contents(tmp_path).keys() >= before.keys()


@pytest.mark.parametrize(
    ("arguments", "output"),
    [
        (("--listen", "192.0.2.1:7460"), "--insecure"),
        (("--listen", "0.0.0.0:0"), "--insecure"),
        (("--listen", "0.0.0.0:0", "--insecure"), "--advertise"),
        (("--listen", "nonsense"), "HOST:PORT"),
        (("--listen", "192.0.2.1:0", "--insecure"), "can't listen on 192.0.2.1:0"),
        (("--config", "memstore_bytes_max=lots"), "NAME=VALUE"),
        (("--config", "no_such_thing=1"), "memstore_bytes_max"),
        (("--config", "memory=32MiB"), "memory must be at least 64 MiB, it is 32 MiB"),
        (("--config", "memory=100TiB"), "NAME=VALUE"),
        (("--config", "memory=abc"), "32KiB or 2GiB, or for memory also a share like 50%"),
        (("--config", "memory=1000000GiB"), "is more than the"),
        (("--config", "log_segment_bytes=50%"), "only memory may be a share"),
        (("--config", "memory=1GiB", "--config", "memstore_bytes_max=1GiB"), "more than memory = 1024 MiB"),
    ],
)
def test_an_invalid_address_or_setting_is_refused(tmp_path: Path, arguments: tuple[str, ...], output: str) -> None:
    assert output in refused("--data", tmp_path / "data", *arguments)
    assert not (tmp_path / "data").exists()


def test_every_requested_address_is_served_and_advertised_to_clients(tmp_path: Path) -> None:
    arguments = ("--listen", "0.0.0.0:0", "--insecure", "--advertise", "db.example:7460")
    with ServerCommand("--data", tmp_path, *arguments, "--config", "request_bytes_max=1MiB") as server:
        port = server.ready().rpartition(":")[2]
        with RawClient(f"127.0.0.1:{port}") as client:
            client.create_table("t", b"f")
            located = client.catalog.LocateRegions(catalog_pb2.LocateRegionsRequest(table="t"))
            assert located.regions[0].server == "db.example:7460"
            info = client.catalog.ServerInfo(catalog_pb2.ServerInfoRequest())
            assert info.limits.request_bytes_max == 1 << 20


def test_a_stop_that_fails_prints_one_line_and_loses_nothing(tmp_path: Path) -> None:
    stop_fails = (
        "import errno\n"
        "from rowlock_regionserver.host.region_server import RegionServer\n"
        "from rowlock_regionserver.__main__ import main\n"
        "def stop(self):\n"
        "    raise OSError(errno.EIO, 'Input/output error')\n"
        "RegionServer.stop = stop\n"
        "main()\n"
    )
    with (
        ServerCommand("--data", tmp_path, *ANY_PORT, program=("-c", stop_fails)) as server,
        RawClient(server.ready()) as client,
    ):
        region_id = client.create_table("t", b"f", durability=DURABILITY_FSYNC)
        call = region_pb2.MutateCall(region_id=region_id, mutate=region_pb2.Mutate(mutations=[put(b"r", b"v")]))
        client.regions.Mutate(call)
        server.signal(signal.SIGTERM)
        code, _, errors = server.ended()
        assert code == 1
        assert "Input/output error" in errors
        assert errors.count("\n") == 1
    with ServerCommand("--data", tmp_path, *ANY_PORT) as server, RawClient(server.ready()) as client:
        assert client.rows(client.region_id("t")) == [b"r"]


def test_a_stop_on_a_full_disk_ends_soon_says_what_it_left_and_loses_nothing(tmp_path: Path) -> None:
    full = tmp_path / "full"
    data = tmp_path / "data"
    may_be_full = (
        "import errno, os\n"
        "from rowlock_regionserver.files import Files\n"
        "from rowlock_regionserver.__main__ import main\n"
        "def refusing(call):\n"
        "    def refuse(self, *arguments):\n"
        f"        if os.path.exists({str(full)!r}):\n"
        "            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))\n"
        "        return call(self, *arguments)\n"
        "    return refuse\n"
        "Files.allocate, Files.fsync = refusing(Files.allocate), refusing(Files.fsync)\n"
        "main()\n"
    )
    words = ("--data", data, *ANY_PORT, "--config", "log_segment_bytes=64KiB")
    with ServerCommand(*words, program=("-c", may_be_full)) as server, RawClient(server.ready()) as client:
        region_id = client.create_table("t", b"f", durability=DURABILITY_FSYNC)

        def put_row(row: bytes, value: bytes, timeout: float = 600.0) -> None:
            call = region_pb2.MutateCall(region_id=region_id, mutate=region_pb2.Mutate(mutations=[put(row, value)]))
            client.regions.Mutate(call, timeout=timeout)

        put_row(b"r", b"v")
        full.touch()
        errors: dict[bytes, grpc.RpcError] = {}

        def put_until_refused(row: bytes, value: bytes, timeout: float = 600.0) -> None:
            try:
                while True:
                    put_row(row, value, timeout)
            except grpc.RpcError as error:
                errors[row] = error

        late = threading.Thread(target=put_until_refused, args=(b"late", b"v" * 100_000))  # needs a segment of its own
        late.start()
        put_until_refused(b"more", b"v", 1.0)  # Refused, or behind the other one.
        assert b"late" not in errors
        server.signal(signal.SIGTERM)
        code = server.process.wait(timeout=200)  # Less than the late change would wait.
        _, _, output = server.ended()
        late.join()
    assert sorted(errors) == [b"late", b"more"]
    assert (code, output.count("\n")) == (0, 2)
    assert "lacks disk space or descriptors for the next log segment\n" in output
    assert "'t'" in output
    assert "no disk space for the log" in output
    full.unlink()
    with ServerCommand("--data", data, *ANY_PORT) as server, RawClient(server.ready()) as client:
        assert b"r" in client.rows(client.region_id("t"))


def test_a_server_object_may_be_stopped_before_it_is_started(tmp_path: Path) -> None:
    server = Server(tmp_path / "data")
    server.stop()
    assert not (tmp_path / "data").exists()
    server.start()
    server.wait()
    server.stop()


def test_nothing_slow_is_imported_before_it_is_ready() -> None:
    slow = ("pandas", "pyarrow.dataset", "pyarrow.parquet", "typer", "rich", "prompt_toolkit", "rowlock")
    program = f"import sys, rowlock_regionserver.server; print([name for name in {slow} if name in sys.modules])"
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_a_server_that_verifies_itself_ends_at_the_first_broken_invariant(tmp_path: Path) -> None:
    breaks = (
        "from rowlock_regionserver.storefile.cache import BlockCache\n"
        "from rowlock_regionserver.__main__ import main\n"
        "def check(self): assert False, 'a broken cache'\n"
        "BlockCache._check = check\n"
        "main()\n"
    )
    program, verify = ("-c", breaks), {"ROWLOCK_VERIFY": "1"}
    with ServerCommand("--data", tmp_path / "broken", *ANY_PORT, program=program, environment=verify) as server:
        code, _, errors = server.ended()
        assert code == 1
        assert "AssertionError: a broken cache" in errors
        assert errors.endswith("rowlock-server: ending at once, because ROWLOCK_VERIFY=1 found an invariant broken\n")


def test_a_sound_server_that_verifies_itself_serves_and_stops_in_order(tmp_path: Path) -> None:
    with ServerCommand("--data", tmp_path, *ANY_PORT, environment={"ROWLOCK_VERIFY": "1"}) as server:
        with RawClient(server.ready()) as client:
            client.create_table("t", b"f", durability=DURABILITY_FSYNC)
        server.signal(signal.SIGTERM)
        assert server.ended() == (0, "", "")


def test_its_background_work_knows_how_long_its_event_loop_was_idle(tmp_path: Path) -> None:
    began = time.monotonic()
    with Server(tmp_path) as server:
        idle = server.region_server.pacing.idle_seconds()
        assert 0 < idle < time.monotonic() - began
