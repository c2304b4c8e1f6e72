"""A process with one direct connection that sends gets without waiting for answers, as long as it is asked to.

    python -m bench.targets.flood ADDRESS TABLE ROW_COUNT SECONDS

At each command `flood` it sends for SECONDS, while a thread reads the answers and drops them, and says how many bytes
came; side_process.py has the protocol. docs/direct_protocol.md has the bytes.
"""

from __future__ import annotations

import contextlib
import itertools
import random
import socket
import sys
import time
from concurrent.futures import ThreadPoolExecutor

from rowlock_proto.direct_frames import HELLO, PREAMBLE, REQUESTS, frame
from rowlock_proto.v1 import catalog_pb2, catalog_pb2_grpc, direct_pb2, region_pb2

from bench.side_process import Answer, serve
from bench.targets.messages import row_key
from bench.targets.raw import raw_connection

_GETS_A_FRAME = 64
_FRAMES = 512
_TIMEOUT_MS = 60_000


def frames(region_id: int, row_count: int) -> list[bytes]:
    """Returns frames of gets of random rows; every request of them has another id."""
    chance, ids = random.Random(1), itertools.count(1)
    return [
        frame(
            REQUESTS,
            region_pb2.PointRequests(
                requests=[
                    region_pb2.PointRequest(
                        id=next(ids),
                        region_id=region_id,
                        timeout_ms=_TIMEOUT_MS,
                        get=region_pb2.Get(rows=[row_key(chance.randrange(row_count))]),
                    )
                    for _ in range(_GETS_A_FRAME)
                ]
            ).SerializeToString(),
        )
        for _ in range(_FRAMES)
    ]


def flood(address: tuple[str, int], requests: list[bytes], seconds: float) -> int:
    """Sends the frames again and again for so long, and returns how many bytes of answers came.

    The ids repeat after long. What the sockets hold in the end is not answered.
    """
    with socket.create_connection(address) as connection, ThreadPoolExecutor(1) as reader:
        connection.sendall(PREAMBLE + frame(HELLO, direct_pb2.DirectHello(client="flood").SerializeToString()))
        answer_bytes = reader.submit(_answer_bytes, connection)
        stop = time.perf_counter() + seconds
        for request in itertools.cycle(requests):
            if time.perf_counter() >= stop:
                break
            connection.sendall(request)
        connection.shutdown(socket.SHUT_RDWR)
        return answer_bytes.result()


def _answer_bytes(connection: socket.socket) -> int:
    """Reads and drops what comes until the connection ends, and returns how many bytes that were."""
    scratch = bytearray(1 << 20)
    received = 0
    # The other thread ends the connection, with answers unread.
    with contextlib.suppress(OSError):
        while count := connection.recv_into(scratch):
            received += count
    return received


def direct_address(address: str) -> tuple[str, int]:
    """Returns the TCP address of the direct connections of a server."""
    with raw_connection(address) as connection:
        stub = catalog_pb2_grpc.CatalogStub(connection.channel)  # type: ignore[no-untyped-call]
        info: catalog_pb2.ServerInfoResponse = stub.ServerInfo(catalog_pb2.ServerInfoRequest())
    host, _, port = info.direct.address.rpartition(":")
    return host, int(port)


def main(address: str, table: str, row_count: int, seconds: float) -> None:
    """Answers commands until the input ends."""
    direct = direct_address(address)
    with raw_connection(address) as connection:
        requests = frames(connection.region_id(table), row_count)

    def send() -> Answer:
        return {"answer_bytes": flood(direct, requests, seconds)}

    serve({"flood": send})


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), float(sys.argv[4]))
