"""A change that is sent again over the other way while its first copy runs is made once, by a real server."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest
from rowlock_proto.direct_frames import ANSWERS, HEAD, REQUESTS, frame
from rowlock_proto.v1 import region_pb2
from rowlock_regionserver.server import Server

from tests.end_to_end.raw_client import RawClient, RawConversation, increment, mutate
from tests.end_to_end.test_direct import direct_port, greeted
from tests.waiting import WAIT_S, wait_until

CLIENT_ID = b"one client, 16 b"
ROW = b"counter"
INCREMENTS = 20


class DirectConversation:
    """A direct connection, used as a RawConversation is."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        connection.settimeout(WAIT_S)

    def send(self, request: region_pb2.PointRequest, *, client_id: bytes, floor: int) -> None:
        message = region_pb2.PointRequests(client_id=client_id, sequence_floor=floor, requests=[request])
        self._connection.sendall(frame(REQUESTS, message.SerializeToString()))

    def answer(self, request_id: int) -> region_pb2.PointAnswer:
        length, kind = HEAD.unpack(self._received(HEAD.size))
        assert kind == ANSWERS
        [answer] = region_pb2.PointAnswers.FromString(self._received(length - 1)).answers
        assert answer.id == request_id
        return answer

    def _received(self, count: int) -> bytes:
        data = b""
        while len(data) < count:
            more = self._connection.recv(count - len(data))
            assert more, "the connection has ended"
            data += more
        return data


@pytest.mark.parametrize("first", ["direct", "gRPC"])
def test_increments_that_are_sent_by_both_ways_at_once_count_once_and_are_answered_alike(
    tmp_path: Path, first: str
) -> None:
    with (
        Server(tmp_path / "data") as server,
        RawClient(server.address) as client,
        greeted(direct_port(server.address)) as connection,
    ):
        region_id = client.create_table("t", b"f")
        [region] = server.region_server.regions_of("t")
        locks = region._parts.row_locks
        by_grpc, directly = RawConversation(client), DirectConversation(connection)
        ways: list[DirectConversation | RawConversation] = [directly, by_grpc]
        if first == "gRPC":
            ways.reverse()
        for number in range(1, INCREMENTS + 1):
            request = mutate(number, region_id, increment(ROW, sequence=number))
            # Both copies have begun before either can end.
            assert locks.try_acquire([ROW])
            for count, way in enumerate(ways, 1):
                way.send(request, client_id=CLIENT_ID, floor=number)
                wait_until(lambda count=count: locks.statistics().waiting == count)  # type: ignore[misc]
            locks.release([ROW])
            results = [way.answer(number).mutate.results[0] for way in ways]
            assert [result.repeated_request for result in results] == [False, True]
            numbers = [[int.from_bytes(cell.value, "big") for cell in result.results] for result in results]
            assert numbers == [[number], [number]]
        by_grpc.end()
