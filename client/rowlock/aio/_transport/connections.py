"""The channels and streams of a client (asyncio). They are closed with the client.

Servers, which makes calls, is built on it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import TypeVar

import grpc

from rowlock._core.regions import RegionCache
from rowlock._core.retry import REPEATED_FOR_S
from rowlock._core.sequences import Sequences
from rowlock._transport import methods
from rowlock._transport.channels import Target, channel_options
from rowlock._transport.fork import check_usable, keep_alive, note_disconnect, register
from rowlock._transport.methods import Metadata, Method, folder_metadata
from rowlock.aio._transport.stream import OpenStream, PointStream
from rowlock.errors import ClosedError, DeadlineError
from rowlock.schema import Region

Q = TypeVar("Q")
A = TypeVar("A")


class Connections:
    """For tasks of one event loop. Close it before a fork, see rowlock._transport.fork."""

    def __init__(self, addresses: tuple[str, ...], *, is_held_open: bool = False, folder_id: str = "") -> None:
        """is_held_open: keep a point stream open to each server that has a channel, even if it is not used.

        folder_id: the data folder that the servers must have; empty: any.
        """
        self.addresses = addresses
        self._folder_id = folder_id
        self._is_held_open = is_held_open
        # Set when connecting; until then larger than any server's limit.
        self.request_bytes_max = 1 << 31
        self._is_closed = False
        # How long a change in doubt may be repeated; set when connecting, by what the server says.
        self.repeated_for_s = REPEATED_FOR_S
        # Which features each server has, by address: ServerInfoResponse.protocol.
        self.protocols: dict[str, int] = {}
        self._start()

    def _start(self) -> None:
        self.regions = RegionCache()
        self.sequences = Sequences()
        # The lookup in progress of each table.
        self._lookups: dict[str, asyncio.Future[None]] = {}
        self._channels: dict[str, grpc.aio.Channel] = {}
        self._targets: dict[str, Target] = {}
        self._streams: dict[tuple[str, str], PointStream] = {}  # by server and data folder
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
        keep_alive((self._channels, self._streams))
        self._start()

    async def close(self) -> None:
        """Closes all streams and channels. Idempotent."""
        self._is_closed = True
        streams, self._streams = list(self._streams.values()), {}
        channels, self._channels = list(self._channels.values()), {}
        targets, self._targets = list(self._targets.values()), {}
        for stream in streams:
            await stream.close()
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
        channel = self._channel(address)
        if self._is_held_open:
            self._stream(address, self._folder_id).hold_open()
        return channel

    def _channel(self, address: str) -> grpc.aio.Channel:
        if self._is_closed:
            raise ClosedError("the client was closed")
        channel = self._channels.get(address)
        if channel is None:
            check_usable()
            target = self._targets[address] = Target(address)
            channel = self._channels[address] = grpc.aio.insecure_channel(target.name, options=channel_options())
            register(self)
        return channel

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

    def _stream(self, address: str, folder_id: str) -> PointStream:
        stream = self._streams.get((address, folder_id))
        if stream is None:
            open_stream = self._channel(address).stream_stream(
                methods.CONVERSE.path,
                request_serializer=methods.CONVERSE.serialize,
                response_deserializer=methods.CONVERSE.parse,
            )

            def converse() -> OpenStream:
                call: OpenStream = open_stream(metadata=folder_metadata(folder_id))
                return call

            stream = self._streams[address, folder_id] = PointStream(converse, address, self.sequences)
        return stream

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
