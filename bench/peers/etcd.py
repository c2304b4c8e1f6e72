"""etcd, by its gRPC interface. It syncs each change before it answers, as rowlock's `fsync`.

The few messages that are needed are written and read by hand, because etcd's .proto files are not part of this project.
https://github.com/etcd-io/etcd/blob/main/api/etcdserverpb/rpc.proto
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import grpc

from bench.peers.peer import Durability, Peer, PeerStore
from bench.programs import free_ports, listens, running_program

_SERVICE = "/etcdserverpb.KV/"
_VARINT, _BYTES = 0, 2
# Of Compare: the result EQUAL is 0, which is not sent; the target VALUE.
_TARGET_VALUE = 3
_READY_S_MAX = 30.0


def field(number: int, value: bytes | int) -> bytes:
    """Returns one field of a Protocol Buffers message."""
    if isinstance(value, int):
        return _varint(number << 3 | _VARINT) + _varint(value)
    return _varint(number << 3 | _BYTES) + _varint(len(value)) + value


def fields_of(message: bytes) -> dict[int, bytes | int]:
    """Returns the fields of a message by number, the last one of each. Raises ValueError for one of another kind."""
    found: dict[int, bytes | int] = {}
    at = 0
    while at < len(message):
        tag, at = _read_varint(message, at)
        value, at = _read_varint(message, at)
        if tag & 7 == _VARINT:
            found[tag >> 3] = value
        elif tag & 7 == _BYTES:
            found[tag >> 3] = message[at : at + value]
            at += value
        else:
            raise ValueError(f"a field of kind {tag & 7}, which none of these messages has")
    return found


def _varint(value: int) -> bytes:
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def _read_varint(message: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        value |= (message[at] & 0x7F) << shift
        at += 1
        if message[at - 1] < 0x80:
            return value, at
        shift += 7


class EtcdStore:
    """A PeerStore of etcd: one channel. etcd has no counters; an increment would be a read and a swap."""

    def __init__(self, channel: grpc.Channel) -> None:
        self._range: grpc.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(f"{_SERVICE}Range")
        self._put: grpc.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(f"{_SERVICE}Put")
        self._transaction: grpc.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(f"{_SERVICE}Txn")

    def get(self, row: bytes) -> bytes | None:
        pair = fields_of(self._range(field(1, row))).get(2)
        if not isinstance(pair, bytes):
            return None
        value = fields_of(pair).get(5, b"")
        assert isinstance(value, bytes), f"not a value: {value!r}"
        return value

    def put(self, row: bytes, value: bytes) -> None:
        self._put(field(1, row) + field(2, value))

    def increment(self, row: bytes) -> int:
        raise NotImplementedError("etcd has no counters")

    def compare_and_swap(self, row: bytes, expected: bytes, value: bytes) -> bool:
        compare = field(2, _TARGET_VALUE) + field(3, row) + field(7, expected)
        put = field(2, field(1, row) + field(2, value))
        return fields_of(self._transaction(field(1, compare) + field(2, put))).get(2) == 1


@contextmanager
def running(folder: Path, durability: Durability) -> Iterator[PeerStore]:
    """Runs a single etcd with its data in the folder, and connects to it. Its durability is always `fsync`."""
    client_port, peer_port = free_ports(2)
    program = PEER.find()
    assert program is not None, "etcd is started where it is installed"
    client, peer = f"http://127.0.0.1:{client_port}", f"http://127.0.0.1:{peer_port}"
    command = [program, "--data-dir", str(folder / "etcd"), "--name", "bench"]
    command += ["--listen-client-urls", client, "--advertise-client-urls", client]
    command += ["--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer]
    command += ["--initial-cluster", f"bench={peer}"]
    with (
        running_program(command, folder / "etcd.log", lambda: listens(client_port)),
        grpc.insecure_channel(f"127.0.0.1:{client_port}") as channel,
    ):
        grpc.channel_ready_future(channel).result(_READY_S_MAX)
        yield EtcdStore(channel)


PEER = Peer("etcd", "etcd", {"fsync": ("get", "put", "compare_and_swap")}, running)
