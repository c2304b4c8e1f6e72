"""Reserves a range of the server's timestamps, to write with."""

from __future__ import annotations

from dataclasses import dataclass

from rowlock_proto.v1 import catalog_pb2

from rowlock._core.features import PROTOCOL, ROWS_PROTOCOL
from rowlock._transport import methods
from rowlock._transport.servers import Servers

_UNKNOWN_BYTES_MAX = 1 << 31


@dataclass(frozen=True, slots=True)
class ReservedTimes:
    """The milliseconds `first` to `first + later_ms`, inclusive. The server's later timestamps come after them.

    takes_rows: whether the server takes rows in bulk batches. request_bytes_max: its limit of a message.
    """

    first: int
    later_ms: int
    takes_rows: bool
    request_bytes_max: int


def reserve_times(servers: Servers, table: str, later_ms: int, timeout_s: float) -> ReservedTimes:
    """Returns timestamps not below any that the server gave in the table.

    later_ms: how many after the first; the server may return fewer shortly after another reservation.
    """
    request = catalog_pb2.ServerInfoRequest(table=table, reserve_ms=later_ms, protocol=PROTOCOL)
    answer = servers.call(methods.SERVER_INFO, request, timeout_s)
    takes_rows = answer.protocol >= ROWS_PROTOCOL
    # A server that names no limit has one anyway; a message beyond it ends the stream.
    request_bytes_max = answer.limits.request_bytes_max or _UNKNOWN_BYTES_MAX
    return ReservedTimes(answer.now_ms, answer.reserved_ms, takes_rows, request_bytes_max)
