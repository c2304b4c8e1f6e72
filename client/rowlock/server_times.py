"""Times of the server's clock, to write with."""

from __future__ import annotations

from dataclasses import dataclass

from rowlock_proto.v1 import catalog_pb2

from rowlock import methods
from rowlock.servers import Servers


@dataclass(frozen=True, slots=True)
class ReservedTimes:
    """The milliseconds from `first` to `first + later_ms`, both inside. What the server stamps afterwards is later."""

    first: int
    later_ms: int


def reserve_times(servers: Servers, later_ms: int, timeout_s: float) -> ReservedTimes:
    """Times that are not below a stamp that was given; fewer than asked for where many were asked for just before."""
    answer = servers.call(methods.SERVER_INFO, catalog_pb2.ServerInfoRequest(reserve_ms=later_ms), timeout_s)
    return ReservedTimes(answer.now_ms, answer.reserved_ms)
