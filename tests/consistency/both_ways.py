"""Point operations, scans and bulk batches that go by gRPC or directly at random, through proxies that lose answers."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import rowlock
from rowlock._core.conversation import Request
from rowlock._transport.links import ServerLink
from rowlock._transport.servers import Servers
from rowlock._transport.stream_sockets import Streams, StreamSocket
from rowlock.pytest_plugin import RowlockServer

from tests.consistency.live_server import free_address, live_server
from tests.consistency.lossy_proxy import Direct, LossyProxy


def switch_at_random(servers: Servers, seed: object, *, scans_only: bool = False) -> None:
    """Makes each attempt of each call of a client draw its way: also that of a repetition, while its first copy runs.

    So do scans of a region, and streams of bulk batches; half of the scans that could be opened by a request are not.
    scans_only: requests go directly.
    Thread-safe, as drawing a number is. One client id and one sequence of numbers serve both ways.
    """
    draw = random.Random(f"{seed}")
    made, opens = servers.link, servers.opens_scans_at

    class SwitchingLink(ServerLink):
        def call(self, request: Request, region_id: int, deadline: float) -> None:
            if scans_only or draw.random() < 0.5:
                super().call(request, region_id, deadline)
            else:
                self._call_by_grpc(request, region_id, deadline)

        def open_for(self, streams: Streams, deadline: float) -> StreamSocket | None:
            return super().open_for(streams, deadline) if draw.random() < 0.5 else None

    def link(address: str, folder_id: str) -> ServerLink:
        found = made(address, folder_id)
        found.__class__ = SwitchingLink
        return found

    servers.link = link  # type: ignore[method-assign]
    servers.opens_scans_at = lambda region: opens(region) and draw.random() < 0.5  # type: ignore[method-assign]


def client_both_ways(address: str, timeout_s: float, seed: object) -> rowlock.Client:
    """Returns a client whose point operations and scans switch at random."""
    client = rowlock.connect(address, timeout=timeout_s)
    switch_at_random(client._servers, seed)
    return client


@dataclass(frozen=True, slots=True)
class LossyServer:
    """A server whose clients reach it only through proxies. Its own address is server.address."""

    server: RowlockServer
    grpc: LossyProxy
    direct: LossyProxy

    @property
    def address(self) -> str:
        """The address for clients."""
        return self.grpc.address

    @property
    def lost_answers(self) -> int:
        return self.grpc.lost_answers + self.direct.lost_answers


@contextlib.contextmanager
def lossy_server(
    answers_before_cut: float, seed: int, limits: Mapping[str, int] | None = None, options: Sequence[str] = ()
) -> Iterator[LossyServer]:
    """A server as `live_server` has it, behind two proxies that lose answers."""
    address, direct_address = free_address(), free_address()
    with (
        LossyProxy(address, answers_before_cut, seed) as grpc,
        LossyProxy(direct_address, answers_before_cut, seed + 1, Direct()) as direct,
        # The server advertises the proxies' addresses; otherwise clients would bypass them.
        live_server(
            limits,
            address=address,
            options=(
                *options,
                f"--advertise={grpc.address}",
                f"--direct={direct_address}",
                f"--advertise-direct={direct.address}",
            ),
        ) as server,
    ):
        yield LossyServer(server, grpc, direct)
