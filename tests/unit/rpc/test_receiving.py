"""When memory is full, the connections with the most undelivered bytes are closed."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from rowlock_regionserver.config import MIB, Config
from rowlock_regionserver.ledger import Ledger
from rowlock_regionserver.resident import anonymous_bytes
from rowlock_regionserver.rpc.grpc import receiving
from rowlock_regionserver.rpc.grpc.connections import Connections
from rowlock_regionserver.rpc.grpc.receiving import ReceiveWatch, Sender, senders, unix_senders

MEMORY = 160 * MIB  # of which 150 may be held


@dataclass(frozen=True)
class FakeSender(Sender):
    ended: list[str] = field(default_factory=list)

    def end(self) -> None:
        self.ended.append(self.peer)


class Process:
    """A process and clients with configurable bytes held and sent."""

    def __init__(self) -> None:
        self.bytes_held = own_bytes = 100 * MIB  # before anybody sends
        self.freed_bytes = 0  # what allocators can give back
        self.ended: list[str] = []
        self.senders: list[Sender] = []
        self.watch = ReceiveWatch(
            Ledger(Config(memory=MEMORY), own_bytes), lambda: self.senders, lambda: self.bytes_held, self._give_back
        )

    def send(self, peer: str, byte_count: int) -> None:
        self.senders.append(FakeSender(peer, byte_count, descriptor=0, ended=self.ended))
        self.bytes_held += byte_count

    def _give_back(self) -> None:
        self.bytes_held -= self.freed_bytes
        self.freed_bytes = 0


@pytest.fixture
def process() -> Process:
    return Process()


def test_no_connection_is_closed_while_memory_is_not_full(process: Process) -> None:
    process.send("a", 150 * MIB)
    process.watch.look()
    assert process.ended == []


def test_what_came_before_the_watch_began_is_not_the_servers_own() -> None:
    ended: list[str] = []
    ledger = Ledger(Config(memory=MEMORY), 100 * MIB)
    sender = FakeSender("a", 155 * MIB, descriptor=0, ended=ended)  # while the server recovered
    ReceiveWatch(ledger, lambda: [sender], lambda: 255 * MIB, lambda: None).look()
    assert ended == ["a"]


def test_the_connections_that_sent_the_most_are_closed_and_no_more_than_needed(process: Process) -> None:
    for peer, byte_count in (("a", 20), ("b", 60), ("c", 50), ("d", 30)):
        process.send(peer, byte_count * MIB)
    process.send("e", 60 * MIB)  # 220 MiB, 70 too much
    process.watch.look()
    assert process.ended == ["b", "e"]


def test_a_closed_connection_whose_memory_is_not_freed_yet_counts_as_freed(process: Process) -> None:
    process.send("a", 80 * MIB)
    process.send("b", 80 * MIB)
    process.watch.look()
    process.watch.look()
    assert process.ended == ["a"]


def test_what_allocators_can_give_back_is_no_reason_to_close_anything(process: Process) -> None:
    process.send("a", 155 * MIB)
    process.freed_bytes = 10 * MIB
    process.watch.look()
    assert process.ended == []


def test_without_senders_the_allocators_are_not_trimmed(process: Process) -> None:
    process.bytes_held += 200 * MIB
    process.freed_bytes = 10 * MIB
    process.watch.look()
    assert process.freed_bytes == 10 * MIB


def test_nothing_is_watched_where_the_system_reports_no_memory() -> None:
    watch = ReceiveWatch(Ledger(Config()), list, lambda: 0, lambda: None)
    watch.start()
    watch.stop()


@pytest.fixture
def connected() -> Iterator[tuple[socket.socket, socket.socket, int]]:
    """Yields the client's end, the server's end and its port."""
    with ExitStack() as opened:
        listening = opened.enter_context(socket.create_server(("127.0.0.1", 0)))
        port = listening.getsockname()[1]
        client = opened.enter_context(socket.create_connection(("127.0.0.1", port)))
        accepted, _ = listening.accept()
        yield client, opened.enter_context(accepted), port


needs_linux = pytest.mark.skipif(not anonymous_bytes(), reason="only Linux tells what connections have brought")


@needs_linux
def test_each_connection_has_its_count_of_unread_bytes(
    connected: tuple[socket.socket, socket.socket, int],
) -> None:
    client, server, port = connected
    peer = _name_of(client)
    for _ in range(3):
        client.sendall(bytes(MIB))
        _receive(server, MIB)  # read from the socket, as gRPC does; nobody has met a message
    connections = Connections(10, 100)
    connection = connections.enter(peer)
    (sender,) = senders(port, connections)
    assert (sender.peer, sender.unread_bytes) == (peer, 3 * MIB)
    connection.count_message(bytes(2 * MIB + MIB // 2))
    assert senders(port, connections) == []
    assert senders(port + 1, Connections(10, 100)) == []  # another's port


@needs_linux
def test_a_connection_is_ended_and_never_another_one_that_has_its_descriptor_now(
    connected: tuple[socket.socket, socket.socket, int],
) -> None:
    client, server, _ = connected
    peer = _name_of(client)
    Sender("ipv4:127.0.0.1:1", 0, server.fileno()).end()
    client.sendall(b"still there")
    _receive(server, len(b"still there"))
    Sender(peer, 0, server.fileno()).end()
    assert client.recv(1) == b""
    assert server.recv(1) == b""  # and its descriptor is still its own


@needs_linux
def test_connections_of_a_unix_socket_share_the_uncounted_bytes_and_are_closed_one_by_one(tmp_path: Path) -> None:
    path = str(tmp_path / "socket")
    ledger = Ledger(Config(memory=MEMORY), 100 * MIB)
    with ExitStack() as opened:
        listening = opened.enter_context(socket.socket(socket.AF_UNIX))
        listening.bind(path)
        listening.listen()
        ends: list[tuple[socket.socket, socket.socket]] = []
        for _ in range(2):
            client = opened.enter_context(socket.socket(socket.AF_UNIX))
            client.connect(path)
            ends.append((client, opened.enter_context(listening.accept()[0])))
        ledger.memstores.add(30 * MIB)
        assert unix_senders(path, ledger, lambda: (100 + 30 + 39) * MIB) == [], "a quarter of memory is 40 MiB"
        assert unix_senders(f"{path}s", ledger, lambda: 200 * MIB) == [], "another socket's"
        newest, oldest = unix_senders(path, ledger, lambda: (100 + 30 + 50) * MIB)
        assert (newest.unread_bytes, newest.descriptor) == (25 * MIB, max(server.fileno() for _, server in ends))
        assert newest.peer != oldest.peer
        Sender(oldest.peer, 0, newest.descriptor).end()  # The descriptor is another connection's now.
        oldest.end()
        for client, server in ends:
            if server.fileno() == oldest.descriptor:
                assert client.recv(1) == b""
            else:
                client.sendall(b"still there")
                _receive(server, len(b"still there"))


@pytest.mark.parametrize(
    ("host", "name"),
    [
        ("10.0.0.7", "ipv4:10.0.0.7:90"),
        ("::ffff:10.0.0.7", "ipv4:10.0.0.7:90"),
        ("::1", "ipv6:%5B::1%5D:90"),
    ],
)
def test_a_peer_is_named_as_grpc_names_it(host: str, name: str) -> None:
    assert receiving.peer_name(host, 90) == name


def _name_of(client: socket.socket) -> str:
    host, port = client.getsockname()
    return f"ipv4:{host}:{port}"


def _receive(server: socket.socket, byte_count: int) -> None:
    while byte_count:
        byte_count -= len(server.recv(byte_count))
