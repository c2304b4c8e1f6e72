"""Direct connections to a real server: its options, its socket, restarts, embedded servers, forks, and floods."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import psutil
import pytest
import rowlock
import rowlock.aio
from rowlock_proto.direct_frames import HEAD, HELLO, PREAMBLE, REQUESTS, frame
from rowlock_proto.v1 import region_pb2
from rowlock_regionserver.config import MIB
from rowlock_regionserver.memory_plan import ALLOWANCE_BYTES
from rowlock_regionserver.resident import anonymous_bytes
from rowlock_regionserver.rpc.services.large_message import INLINE_MESSAGE_BYTES_MAX

from tests.end_to_end.raw_client import get
from tests.end_to_end.server_command import ServerCommand
from tests.end_to_end.test_bounds import resident_bytes
from tests.waiting import wait_until


def served(folder: Path, *words: str, listen: str = "127.0.0.1:0", is_warm: bool = True) -> ServerCommand:
    return ServerCommand("--data", folder, "--listen", listen, *words, is_warm=is_warm)


def connection_of(db: rowlock.Client) -> rowlock.ConnectionStatistics:
    """Makes a point operation, and returns how it travelled."""
    db.table("t").row(b"row")
    [connection] = db.statistics().connections
    return connection


def direct_port(address: str) -> tuple[str, int]:
    """Returns where a server takes direct connections by TCP."""
    with rowlock.connect(address, timeout=60) as db:
        announced = db._servers.infos[address].direct.address
    host, port = announced.rsplit(":", 1)
    return host, int(port)


def greeted(where: tuple[str, int]) -> socket.socket:
    """Returns a connection that was welcomed."""
    connection = socket.create_connection(where, timeout=60)
    connection.sendall(PREAMBLE + frame(HELLO, b""))
    assert connection.recv(len(PREAMBLE), socket.MSG_WAITALL) == PREAMBLE
    length, kind = HEAD.unpack(connection.recv(HEAD.size, socket.MSG_WAITALL))
    assert kind == HELLO
    connection.recv(length - 1, socket.MSG_WAITALL)
    return connection


# Options


def test_on_the_same_machine_the_socket_in_the_folder_is_used_and_else_the_port(tmp_path: Path) -> None:
    path = tmp_path / "data" / "direct"
    with served(tmp_path / "data") as server, rowlock.connect(server.ready(), timeout=60) as db:
        db.create_table("t", ["f"])
        assert connection_of(db).direct == f"unix:{path}"
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        path.unlink()
        with rowlock.connect(db._servers.addresses[0], timeout=60) as other:
            host, port = direct_port(db._servers.addresses[0])
            assert connection_of(other).direct == f"{host}:{port}"
        assert connection_of(db).grpc_requests == 0


def test_direct_connections_may_be_off_or_at_another_address(tmp_path: Path) -> None:
    with served(tmp_path / "data", "--direct", "off") as server, rowlock.connect(server.ready(), timeout=60) as db:
        db.create_table("t", ["f"])
        connection = connection_of(db)
        assert (connection.direct, connection.grpc_requests) == (None, 1)
        assert not (tmp_path / "data" / "direct").exists()
        assert len(psutil.Process(server.process.pid).net_connections("inet")) == 2, "gRPC's port and connection"
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        free = f"127.0.0.1:{probe.getsockname()[1]}"
    with (
        served(tmp_path / "data", "--direct", free, "--advertise-direct", free) as server,
        rowlock.connect(server.ready(), timeout=60) as db,
    ):
        assert connection_of(db).direct == free


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("--direct", "nonsense"), "'nonsense' is not an address"),
        (("--direct", "0.0.0.0:0"), "use --direct 127.0.0.1:PORT, or --insecure"),
        (("--direct", "0.0.0.0:0", "--insecure"), "--advertise-direct HOST:PORT"),
        (("--direct", "off", "--advertise-direct", "h:1"), "they are off"),
    ],
)
def test_a_server_does_not_start_with_options_that_make_no_sense(
    tmp_path: Path, words: tuple[str, ...], text: str
) -> None:
    with served(tmp_path / "data", *words) as server:
        code, _, errors = server.ended()
    assert code == 2
    assert text in errors
    assert not (tmp_path / "data").exists()


def test_a_requested_address_that_is_taken_is_reported_before_the_folder_is_touched(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with served(tmp_path / "data", "--direct", f"127.0.0.1:{port}") as server:
            code, _, errors = server.ended()
    assert code == 2
    assert "choose another address with --direct" in errors
    assert not (tmp_path / "data").exists()


def test_a_server_behind_an_advertised_address_has_direct_connections_only_if_told_where(tmp_path: Path) -> None:
    with served(tmp_path / "data", "--advertise", "127.0.0.1:1") as server:
        with rowlock.connect(server.ready(), timeout=60) as db:
            assert not db._servers.infos[db._servers.addresses[0]].HasField("direct")
        assert not (tmp_path / "data" / "direct").exists()


def test_an_insecure_server_s_socket_is_open_to_the_users_of_its_folder(tmp_path: Path) -> None:
    with served(tmp_path / "data", "--insecure") as server:
        server.ready()
        assert stat.S_IMODE((tmp_path / "data" / "direct").stat().st_mode) == 0o777


# Restarts


def test_a_killed_server_s_socket_is_replaced_and_its_client_goes_on(tmp_path: Path) -> None:
    with served(tmp_path / "data") as server:
        address = server.ready()
        db = rowlock.connect(address, timeout=60)
        table = db.create_table("t", ["f"])
        assert table.increment("row", "f:n") == 1
        server.signal(signal.SIGKILL)
        server.process.wait()
    assert (tmp_path / "data" / "direct").is_socket()
    with db, served(tmp_path / "data", listen=address) as server:
        assert server.ready() == address
        assert table.increment("row", "f:n") == 2
        [connection] = db.statistics().connections
        assert connection.direct == f"unix:{tmp_path / 'data' / 'direct'}"
        assert (connection.opened, connection.grpc_requests) == (2, 0)
        server.signal(signal.SIGTERM)
        assert server.ended() == (0, "", "")
        assert not (tmp_path / "data" / "direct").exists()


def test_an_orderly_stop_waits_for_no_idle_client_and_its_next_call_is_not_in_doubt(tmp_path: Path) -> None:
    with served(tmp_path / "data") as server:
        db = rowlock.connect(server.ready(), timeout=60)
        table = db.create_table("t", ["f"])
        table.increment("row", "f:n")
        began = time.monotonic()
        server.signal(signal.SIGTERM)
        assert server.ended() == (0, "", "")
        assert time.monotonic() - began < 30
    time_of_idle = 0.1
    threading.Event().wait(time_of_idle)  # The client takes a connection for idle after half of that.
    # This error says that nothing was changed, whether the last attempt was refused or came to its deadline.
    with db, pytest.raises(rowlock.DeadlineError):
        table.with_options(timeout=0.5).increment("row", "f:n")


def test_a_port_that_another_server_has_taken_gets_no_request(tmp_path: Path) -> None:
    """The first server's direct port becomes another folder's; its own gRPC port is gone."""
    with served(tmp_path / "first") as server:
        address = server.ready()
        host, port = direct_port(address)
        db = rowlock.connect(address, timeout=60)
        table = db.create_table("t", ["f"])
        (tmp_path / "first" / "direct").unlink()
        assert connection_of(db).direct == f"{host}:{port}"
        server.signal(signal.SIGKILL)
        server.process.wait()
    with db, served(tmp_path / "second", "--direct", f"{host}:{port}") as second:
        with rowlock.connect(second.ready(), timeout=60) as other:
            other.create_table("t", ["f"])
            with pytest.raises(rowlock.RowlockError):
                table.with_options(timeout=1).put("row", {"f:q": "v"})
            assert other.table("t").row("row") == {}
        [connection] = db.statistics().connections
        assert connection.direct is None


# Embedded servers


def test_a_private_server_is_used_directly_and_stops_after_its_last_client(tmp_path: Path) -> None:
    with rowlock.open(tmp_path / "data") as db, rowlock.open(tmp_path / "data") as other:
        table = db.create_table("t", ["f"])
        table.put("row", {"f:q": "v"})
        assert connection_of(db).direct == f"unix:{tmp_path / 'data' / 'direct'}"
        assert connection_of(other).direct == f"unix:{tmp_path / 'data' / 'direct'}"
    wait_until(lambda: not (tmp_path / "data" / "direct").exists())
    assert not (tmp_path / "data" / "address").exists()


def test_an_idle_direct_client_keeps_a_private_server_and_a_killed_one_does_not(tmp_path: Path) -> None:
    hold = (
        "import sys, time, rowlock\n"
        "db = rowlock.open(sys.argv[1])\n"
        "db.create_table('t', ['f'], if_not_exists=True)\n"
        "print(db.statistics().connections[0].direct, flush=True)\n"
        "time.sleep(600)\n"
    )
    with ServerCommand("--data", tmp_path / "data", "--embedded", "--linger", "0.3") as server:
        server.ready()
        client = subprocess.Popen([sys.executable, "-c", hold, tmp_path / "data"], stdout=subprocess.PIPE)
        assert client.stdout is not None
        assert client.stdout.readline() == f"unix:{tmp_path / 'data' / 'direct'}\n".encode()
        with pytest.raises(subprocess.TimeoutExpired):
            server.process.wait(timeout=1.5)
        client.kill()
        client.communicate()
        assert server.ended() == (0, "", "")


def test_a_moved_folder_is_used_directly(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "data")
    with rowlock.open(tmp_path / "data") as db:
        db.create_table("t", ["f"])
        with rowlock.open(tmp_path / "link") as other:
            assert connection_of(other).grpc_requests == 0


# asyncio


def test_an_asyncio_client_goes_directly_too_and_finds_a_restarted_server(tmp_path: Path) -> None:
    async def run() -> None:
        with served(tmp_path / "data") as server:
            address = server.ready()
            async with rowlock.aio.connect(address, timeout=60) as db:
                table = await db.create_table("t", ["f"])
                numbers = await asyncio.gather(*(table.increment("row", "f:n") for _ in range(100)))
                assert sorted(numbers) == list(range(1, 101))
                server.signal(signal.SIGKILL)
                server.process.wait()
                with served(tmp_path / "data", listen=address) as again:
                    again.ready()
                    assert await table.increment("row", "f:n") == 101
                    [connection] = db.statistics().connections
                    assert (connection.opened, connection.grpc_requests) == (2, 0)

    asyncio.run(run())


# Forks


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_the_parent_s_calls_go_on_while_it_forks_and_a_child_has_a_connection_of_its_own(tmp_path: Path) -> None:
    with served(tmp_path / "data") as server, rowlock.connect(server.ready(), timeout=60) as db:
        table = db.create_table("t", ["f"], durability="os")
        table.increment("row", "f:n")
        over = threading.Event()
        counted = [1]

        def keep_calling() -> None:
            while not over.is_set():
                table.increment("row", "f:n")
                counted[0] += 1

        caller = threading.Thread(target=keep_calling)
        caller.start()
        for _ in range(5):
            before = counted[0]
            wait_until(lambda before=before: counted[0] > before)  # type: ignore[misc]
            pid = os.fork()
            if not pid:
                try:
                    assert table.increment("children", "f:n")
                    [connection] = db.statistics().connections
                    os._exit(0 if (connection.opened, connection.grpc_requests) == (1, 0) else 1)
                finally:
                    os._exit(2)
            assert os.waitpid(pid, 0)[1] == 0
        over.set()
        caller.join()
        [connection] = db.statistics().connections
        assert (connection.opened, connection.grpc_requests) == (1, 0), "the parent's connection went on"
        assert table.counter("row", "f:n") == counted[0]
        assert table.counter("children", "f:n") == 5


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_child_that_lives_on_does_not_keep_its_parent_s_connection(tmp_path: Path) -> None:
    with ServerCommand("--data", tmp_path / "data", "--embedded", "--linger", "0.3") as server:
        server.ready()
        with rowlock.open(tmp_path / "data") as db:
            db.create_table("t", ["f"])
            connection_of(db)
            pid = os.fork()
            if not pid:
                time.sleep(600)
                os._exit(1)
        assert server.ended() == (0, "", "")
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def test_another_program_inherits_no_connection(tmp_path: Path) -> None:
    """Even if it is started with all files that may be inherited."""
    with served(tmp_path / "data") as server, rowlock.connect(server.ready(), timeout=60) as db:
        db.create_table("t", ["f"])
        assert connection_of(db).direct is not None
        [link] = db._servers._links.values()
        assert link._direct is not None
        inode = os.fstat(link._direct._channel._socket.fileno()).st_ino
        shows = "import os; print([os.fstat(n).st_ino for n in map(int, os.listdir('/dev/fd')) if n > 2 and n < 256])"
        shown = subprocess.run(
            [sys.executable, "-c", f"import contextlib\nwith contextlib.suppress(OSError): {shows}"],
            capture_output=True,
            text=True,
            check=True,
            close_fds=False,
        )
        assert str(inode) not in shown.stdout


# Floods


@contextlib.contextmanager
def small_server(folder: Path) -> Iterator[tuple[ServerCommand, str]]:
    """A server of 64 MiB with few connections, which must end well."""
    settings = ("--config", "memory=64MiB", "--config", "connections_max=100")
    with served(folder, *settings, is_warm=False) as server:
        address = server.ready()
        yield server, address
        if anonymous_bytes():
            assert resident_bytes(server.process.pid) < 64 * MIB + ALLOWANCE_BYTES
        server.signal(signal.SIGTERM)
        code, _, errors = server.ended()
        assert code == 0
        assert all("closed the direct connection" in line for line in errors.splitlines()), errors


@pytest.fixture
def small(tmp_path: Path) -> Iterator[tuple[ServerCommand, str]]:
    with small_server(tmp_path / "data") as running:
        yield running


@pytest.fixture(scope="module")
def small_for_several(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[ServerCommand, str]]:
    with small_server(tmp_path_factory.mktemp("small") / "data") as running:
        yield running


def use(address: str) -> None:
    """A new client puts and gets."""
    with rowlock.connect(address, timeout=60) as db:
        table = db.create_table("t", ["f"], if_not_exists=True)
        table.put("row", {"f:q": b"v"})
        assert table.row("row") == {b"f:q": b"v"}


def test_thousands_of_idle_connections_delay_nobody(small: tuple[ServerCommand, str]) -> None:
    _, address = small
    where = direct_port(address)
    with ExitStack() as flood:
        for _ in range(2000):
            flood.enter_context(socket.create_connection(where, timeout=60))
        use(address)


def test_clients_beyond_the_bound_use_grpc(small: tuple[ServerCommand, str]) -> None:
    _, address = small
    use(address)
    where = direct_port(address)
    with ExitStack() as flood:
        for _ in range(99):
            flood.enter_context(greeted(where))
        with rowlock.connect(address, timeout=60) as first, rowlock.connect(address, timeout=60) as second:
            wait_until(lambda: connection_of(first).direct is not None or connection_of(first).reason != "")
            ways = [connection_of(db).direct is not None for db in (first, second)]
            assert ways == [True, False]
            assert "connections_max" in connection_of(second).reason


def test_halves_of_large_frames_on_many_connections_are_bounded(small: tuple[ServerCommand, str]) -> None:
    _, address = small
    use(address)
    with rowlock.connect(address, timeout=60) as db:
        limit = db.server_info().limits.request_bytes_max
    where = direct_port(address)
    with ExitStack() as flood:
        for _ in range(60):
            connection = flood.enter_context(greeted(where))
            send_some(connection, HEAD.pack(limit + 1, REQUESTS) + bytes(limit - 10_000))
        use(address)


def send_some(connection: socket.socket, data: bytes, seconds: float = 0.3) -> None:
    """Sends as much as the server takes in this time."""
    connection.setblocking(False)
    left = memoryview(data)
    ends_at = time.monotonic() + seconds
    while left and time.monotonic() < ends_at:
        try:
            left = left[connection.send(left) :]
        except BlockingIOError:
            threading.Event().wait(0.005)


def test_clients_that_send_and_never_read_are_bounded(small: tuple[ServerCommand, str]) -> None:
    _, address = small
    with rowlock.connect(address, timeout=60) as db:
        table = db.create_table("t", ["f"])
        table.put("large", {"f:q": bytes(500_000)})
        region_id = db.regions("t")[0].region_id
    where = direct_port(address)
    asked = [get(number, region_id, b"large") for number in range(1000)]
    data = frame(REQUESTS, region_pb2.PointRequests(requests=asked).SerializeToString())
    with ExitStack() as flood:
        for _ in range(40):
            connection = flood.enter_context(greeted(where))
            connection.setblocking(False)
            for _ in range(20):
                try:
                    connection.send(data)
                except BlockingIOError:
                    break
        use(address)


@pytest.mark.parametrize("kind", ["empty", "small"])
def test_messages_of_very_many_requests_whose_answers_nobody_reads_are_bounded(
    small: tuple[ServerCommand, str], kind: str
) -> None:
    """Parsed, such a message takes up to 28 times its bytes."""
    _, address = small
    with rowlock.connect(address, timeout=60) as db:
        table = db.create_table("t", ["f"])
        table.put("row", {"f:q": bytes(1000)})
        region_id = db.regions("t")[0].region_id
    where = direct_port(address)
    asked = [get(number, region_id, b"row") for number in range(17_000)]
    gets = region_pb2.PointRequests(requests=asked).SerializeToString()
    body = b"\x1a\x00" * 128_000 if kind == "empty" else gets
    assert 200_000 < len(body) < INLINE_MESSAGE_BYTES_MAX
    with ExitStack() as flood:
        for _ in range(60):
            send_some(flood.enter_context(greeted(where)), frame(REQUESTS, body), 2)
        use(address)


def test_clients_that_disappear_in_the_middle_of_a_frame_leave_nothing(small: tuple[ServerCommand, str]) -> None:
    _, address = small
    use(address)
    where = direct_port(address)
    for length in (10, 1000, 100_000, 1_000_000):
        for _ in range(30):
            with greeted(where) as connection:
                connection.sendall(HEAD.pack(length + 1, REQUESTS) + bytes(length // 2))
    use(address)


@pytest.mark.parametrize(
    "sent",
    [
        os.urandom(10_000),
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(100),
        b"\x16\x03\x01\x02\x00" + bytes(500),
        PREAMBLE[:4],
        PREAMBLE + HEAD.pack(0, 0),
        PREAMBLE + HEAD.pack(0xFFFFFFFF, 1),
        PREAMBLE + frame(HELLO, b"") + HEAD.pack(0xFFFFFFFF, REQUESTS),
        PREAMBLE + frame(HELLO, b"") + HEAD.pack(0, 0),
        PREAMBLE + frame(HELLO, b"") + frame(REQUESTS, b"\xff" * 100),
    ],
    ids=["random", "HTTP/1", "HTTP/2", "TLS", "half", "zero", "huge", "huge later", "zero later", "no message"],
)
def test_connections_with_nonsense_delay_no_other_client(
    small_for_several: tuple[ServerCommand, str], sent: bytes
) -> None:
    _, address = small_for_several
    where = direct_port(address)
    with ExitStack() as flood:
        for _ in range(50):
            connection = flood.enter_context(socket.create_connection(where, timeout=60))
            with contextlib.suppress(ConnectionError):
                connection.sendall(sent)
        use(address)
