"""Times of the server's clock, to write with."""

from __future__ import annotations

from dataclasses import dataclass

from rowlock_proto.v1 import catalog_pb2

from rowlock._transport import methods
from rowlock._transport.servers import Servers


@dataclass(frozen=True, slots=True)
class ReservedTimes:
    """The milliseconds from `first` to `first + later_ms`, both inside. What the server stamps afterwards is later."""

    first: int
    later_ms: int


def reserve_times(servers: Servers, table: str, later_ms: int, timeout_s: float) -> ReservedTimes:
    """Times that are not below a stamp that was given in the table; fewer than asked for just after others were."""
    request = catalog_pb2.ServerInfoRequest(table=table, reserve_ms=later_ms)
    answer = servers.call(methods.SERVER_INFO, request, timeout_s)
    return ReservedTimes(answer.now_ms, answer.reserved_ms)
