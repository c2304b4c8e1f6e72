"""The channels and links of a client (asyncio). They are closed with the client.

Servers, which makes calls, is built on it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from typing import TYPE_CHECKING, TypeVar

import grpc
from rowlock_proto.v1 import catalog_pb2

from rowlock._codec.wire_errors import error_of_call
from rowlock._core.features import PROTOCOL
from rowlock._core.regions import RegionCache
from rowlock._core.retry import REPEATED_FOR_S
from rowlock._core.sequences import Sequences
from rowlock._core.session_requests import OwnSessions
from rowlock._transport import methods
from rowlock._transport.channels import Target, channel_options
from rowlock._transport.fork import check_usable, keep_alive, note_disconnect, register
from rowlock._transport.methods import Metadata, Method, folder_metadata
from rowlock.aio._transport.links import ServerLink
from rowlock.aio._transport.stream import OpenStream, PointStream
from rowlock.errors import ClosedError, DeadlineError, ServerUnavailableError
from rowlock.schema import Region

if TYPE_CHECKING:
    from rowlock.statistics import ClientStatistics

Q = TypeVar("Q")
A = TypeVar("A")

# How long opening a connection that is held open may take; the server waits for its first client a little longer.
_HOLD_OPEN_S = 5.0


class Connections:
    """For tasks of one event loop. Close it before a fork, see rowlock._transport.fork."""

    def __init__(
        self, addresses: tuple[str, ...], *, is_held_open: bool = False, folder_id: str = "", is_direct: bool = True
    ) -> None:
        """is_held_open: keep a connection to the catalog's server open, even if it is not used.

        folder_id: the data folder that the servers must have; empty: any. is_direct: False: only ever use gRPC.
        """
        self.addresses = addresses
        self._folder_id = folder_id
        self.is_held_open = is_held_open
        self._is_direct = is_direct
        # Set when connecting; until then larger than any server's limit.
        self.request_bytes_max = 1 << 31
        self._is_closed = False
        # How long a change in doubt may be repeated; set when connecting, by what the server says.
        self.repeated_for_s = REPEATED_FOR_S
        # Which features each server has, by address: ServerInfoResponse.protocol.
        self.protocols: dict[str, int] = {}
        # What servers said of themselves when connecting, by address.
        self.infos: dict[str, catalog_pb2.ServerInfoResponse] = {}
        self._start()

    def _start(self) -> None:
        self.regions = RegionCache()
        self.sequences = Sequences()
        self.sessions = OwnSessions()
        # The lookup in progress of each table.
        self._lookups: dict[str, asyncio.Future[None]] = {}
        self._channels: dict[str, grpc.aio.Channel] = {}
        self._targets: dict[str, Target] = {}
        self._links: dict[tuple[str, str], ServerLink] = {}  # by server and data folder
        # The index of the address whose server answers for the catalog.
        self._chosen = 0

    @property
    def is_connected(self) -> bool:
        return bool(self._channels)

    @property
    def is_asyncio(self) -> bool:
        return True

    def before_fork(self) -> None:
        """Does nothing: asyncio channels don't survive a fork, see rowlock._transport.fork."""

    def after_fork_in_parent(self) -> None:
        """Does nothing, because nothing was closed."""

    def after_fork_in_child(self) -> None:
        for link in self._links.values():
            link.forget()
        keep_alive((self._channels, self._links))
        self._start()

    async def close(self) -> None:
        """Closes all links and channels. Idempotent."""
        self._is_closed = True
        links = list(self._links.values())
        channels, self._channels = list(self._channels.values()), {}
        targets, self._targets = list(self._targets.values()), {}
        reason = ClosedError("the client was closed while the call was under way")
        for link in links:
            await link.close(reason)
        for channel in channels:
            await channel.close()
        for target in targets:
            target.close()
        if channels:
            note_disconnect()

    @property
    def catalog_address(self) -> str:
        """The server that is used for the catalog."""
        return self.addresses[self._chosen]

    @property
    def catalog_protocol(self) -> int | None:
        """The count of features of that server; None: not known yet."""
        return self.protocols.get(self.catalog_address)

    def choose(self, address: str) -> None:
        """Uses this one of the addresses for the catalog from now on."""
        self._chosen = self.addresses.index(address)

    def _stop_using(self, address: str) -> None:
        """Uses the next address for the catalog, if this one is in use."""
        if self.catalog_address == address:
            self._chosen = (self._chosen + 1) % len(self.addresses)

    def metadata(self, region: Region | None = None) -> Metadata:
        """Returns the metadata of a call: the data folder that its server must have, if one is required."""
        return folder_metadata(self._folder_of(region))

    def _folder_of(self, region: Region | None) -> str:
        return self._folder_id or (region.data_folder_id if region is not None else "")

    def channel(self, address: str) -> grpc.aio.Channel:
        """Returns the channel to a server, opened at first use. Raises ClosedError if the client was closed."""
        if self._is_closed:
            raise ClosedError("the client was closed")
        channel = self._channels.get(address)
        if channel is None:
            check_usable()
            target = self._targets[address] = Target(address)
            channel = self._channels[address] = grpc.aio.insecure_channel(target.name, options=channel_options())
            register(self)
        return channel

    async def hold_open(self) -> None:
        """Keeps a connection to the catalog's server open from now on. Raises RowlockError if it does not answer."""
        await self.link(self.catalog_address, self._folder_id).hold_open(time.monotonic() + _HOLD_OPEN_S)

    def statistics(self) -> ClientStatistics:
        """Returns how the point operations to each server travel."""
        from rowlock.statistics import ClientStatistics

        return ClientStatistics(tuple(link.statistics() for link in self._links.values()))

    @contextmanager
    def reports_closing(self) -> Iterator[None]:
        """Wraps a wait for a call: raises ClosedError if the client was closed meanwhile.

        When a channel is closed, grpc cancels its calls, and a task that waits for one gets CancelledError, as if the
        task had been cancelled. If the task was cancelled, the error passes through.
        """
        try:
            yield
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if self._is_closed and task is not None and not task.cancelling():
                raise ClosedError("the client was closed while the call was under way") from None
            raise

    async def call_once(
        self, address: str, method: Method[Q, A], request: Q, timeout_s: float, region: Region | None = None
    ) -> A:
        """Makes one unary call, without retries. region: the region that it is about, if any.

        Raises grpc.aio.AioRpcError, or ClosedError if the client was closed.
        """
        call = self.channel(address).unary_unary(
            method.path, request_serializer=method.serialize, response_deserializer=method.parse
        )
        with self.reports_closing():
            answer: A = await call(request, timeout=max(0.001, timeout_s), metadata=self.metadata(region))
        return answer

    def link(self, address: str, folder_id: str) -> ServerLink:
        """Returns the link to a server."""
        link = self._links.get((address, folder_id))
        if link is None:
            link = self._links[address, folder_id] = ServerLink(
                address,
                folder_id,
                self.sequences,
                partial(self._ask, address),
                partial(self._new_stream, address, folder_id),
                is_direct=self._is_direct,
                is_closed=self._is_closed,
            )
            info = self.infos.get(address)
            if info is not None:
                link.learn(info)
        return link

    async def _ask(self, address: str, deadline: float) -> catalog_pb2.ServerInfoResponse:
        """Returns what the server says of itself. Raises RowlockError."""
        request = catalog_pb2.ServerInfoRequest(protocol=PROTOCOL)
        try:
            return await self.call_once(address, methods.SERVER_INFO, request, deadline - time.monotonic())
        except grpc.aio.AioRpcError as failed:
            error = error_of_call(failed, address)
        if isinstance(error, ServerUnavailableError):
            self._stop_using(address)
        if isinstance(error, DeadlineError):  # The call that needs the answer says what became of its change.
            raise ServerUnavailableError(error.message)
        raise error

    def _new_stream(self, address: str, folder_id: str) -> PointStream:
        open_stream = self.channel(address).stream_stream(
            methods.CONVERSE.path,
            request_serializer=methods.CONVERSE.serialize,
            response_deserializer=methods.CONVERSE.parse,
        )

        def converse() -> OpenStream:
            call: OpenStream = open_stream(metadata=folder_metadata(folder_id))
            return call

        return PointStream(converse, address, self.sequences)

    @asynccontextmanager
    async def _single_lookup(self, table: str, row: bytes, deadline: float) -> AsyncIterator[None]:
        """Lets one caller at a time look up regions; the others then find the answer in the cache.

        Raises DeadlineError if the turn does not come before the deadline.
        """
        while (ongoing := self._lookups.get(table)) is not None:
            _, pending = await asyncio.wait([ongoing], timeout=max(0.0, deadline - time.monotonic()))
            if pending:
                message = f"timed out waiting for another call's lookup of a region of table {table!r}; retry"
                raise DeadlineError(message, table=table, row=row)
        done = self._lookups[table] = asyncio.get_running_loop().create_future()
        try:
            yield
        finally:
            del self._lookups[table]
            done.set_result(None)
