"""Reserves a range of the server's timestamps, to write with."""

from __future__ import annotations

from dataclasses import dataclass

from rowlock_proto.v1 import catalog_pb2

from rowlock._core.search import PROTOCOL, ROWS_PROTOCOL
from rowlock._transport import methods
from rowlock._transport.servers import Servers


@dataclass(frozen=True, slots=True)
class ReservedTimes:
    """The milliseconds `first` to `first + later_ms`, inclusive. The server's later timestamps come after them.

    takes_rows: whether the server takes rows in bulk batches.
    """

    first: int
    later_ms: int
    takes_rows: bool


def reserve_times(servers: Servers, table: str, later_ms: int, timeout_s: float) -> ReservedTimes:
    """Returns timestamps not below any that the server gave in the table.

    later_ms: how many after the first; the server may return fewer shortly after another reservation.
    """
    request = catalog_pb2.ServerInfoRequest(table=table, reserve_ms=later_ms, protocol=PROTOCOL)
    answer = servers.call(methods.SERVER_INFO, request, timeout_s)
    return ReservedTimes(answer.now_ms, answer.reserved_ms, answer.protocol >= ROWS_PROTOCOL)
