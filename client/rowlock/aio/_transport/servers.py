"""The servers a client talks to: their channels, the regions they have, and every call with its retries (asyncio).

The same as rowlock._transport.servers, awaited. Which failures are tried again, and what a call ends with, is
decided by retry.Attempts; here it is done.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeVar

import grpc
from rowlock_proto.v1 import catalog_pb2, region_pb2

from rowlock._codec.wire_errors import answered_error, error_of_call
from rowlock._core.conversation import Request
from rowlock._core.point import failure_of
from rowlock._core.regions import RegionCache
from rowlock._core.retry import REPEATED_FOR_S, Attempts, Kind
from rowlock._core.sequences import Sequences
from rowlock._transport import methods
from rowlock._transport.channels import Target, channel_options
from rowlock._transport.fork import check_usable, disconnected, keep, register
from rowlock._transport.methods import Metadata, Method, folder_metadata
from rowlock.aio._transport.stream import OpenStream, PointStream
from rowlock.errors import (
    AnotherFolderError,
    ClosedError,
    DeadlineError,
    NotServingRegionError,
    RowlockError,
    ServerUnavailableError,
)
from rowlock.schema import Region, region_from

Q = TypeVar("Q")
A = TypeVar("A")


class Servers:
    """For tasks of one event loop. Close it before a fork, see rowlock._transport.fork."""

    def __init__(self, addresses: tuple[str, ...], *, is_held_open: bool = False, folder_id: str = "") -> None:
        """is_held_open: a point stream is kept open to each server as long as there is a channel, used or not.

        folder_id: the data folder that the servers must have; empty: any.
        """
        self.addresses = addresses
        self._folder_id = folder_id
        self._is_held_open = is_held_open
        # What connecting learns; until then more than any server takes.
        self.request_bytes_max = 1 << 31
        self._is_closed = False
        # How long a change in doubt may be repeated, as the server says that was connected to.
        self.repeated_for_s = REPEATED_FOR_S
        self._start()

    def _start(self) -> None:
        self.regions = RegionCache()
        self.sequences = Sequences()
        # Tables of which a region is being looked up.
        self._lookups: dict[str, asyncio.Future[None]] = {}
        self._channels: dict[str, grpc.aio.Channel] = {}
        self._targets: dict[str, Target] = {}
        self._streams: dict[tuple[str, str], PointStream] = {}  # by server and data folder
        # Which of the addresses is asked for the catalog.
        self._chosen = 0

    @property
    def is_connected(self) -> bool:
        return bool(self._channels)

    @property
    def is_asyncio(self) -> bool:
        return True

    def before_fork(self) -> None:
        """Nothing can be done: see rowlock._transport.fork."""

    def after_fork_in_parent(self) -> None:
        """Nothing was ended."""

    def after_fork_in_child(self) -> None:
        keep((self._channels, self._streams))
        self._start()

    async def close(self) -> None:
        """Ends every stream and connection. Idempotent."""
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
            disconnected()

    # Point operations

    async def point(self, request: Request, timeout_s: float) -> region_pb2.PointAnswer:
        """Makes a point operation on one row and waits for its answer; raises what it failed with."""
        if not request.is_change:
            return await self._point(request, Attempts(time.monotonic(), timeout_s, Kind.READ))
        first = self.sequences.take()
        try:
            request.point.mutate.mutations[0].sequence = first
            attempts = Attempts(time.monotonic(), timeout_s, Kind.NUMBERED_CHANGE, repeated_for_s=self.repeated_for_s)
            return await self._point(request, attempts)
        finally:
            self.sequences.release(first)

    async def _point(self, request: Request, attempts: Attempts) -> region_pb2.PointAnswer:
        while True:
            failure = await self._attempt(request, attempts.deadline)
            if failure is not None:
                await asyncio.sleep(attempts.failed(failure, time.monotonic(), was_sent=request.is_in_doubt))
                request.tell_age(attempts.age_ms())
            elif request.answer is not None:
                return request.answer
            else:
                raise attempts.timed_out(was_sent=request.sent)

    async def _attempt(self, request: Request, deadline: float) -> RowlockError | None:
        try:
            region = await self.region_of(request.table, request.row, deadline)
        except RowlockError as error:
            request.fail(error)
            return error
        return await self.attempt_in(region, request, deadline)

    async def attempt_in(self, region: Region, request: Request, deadline: float) -> RowlockError | None:
        """Sends a request once, to a region that holds all its rows, and waits until it is done or out of time.

        Returns what it failed with; None when it has its answer, or when the deadline passed and it has none.
        """
        try:
            await self._stream(region.server, self._folder_of(region)).call(
                request, region.region_id, deadline - time.monotonic()
            )
        except ClosedError as error:
            # Not raised: an earlier attempt may have left the change in doubt.
            request.fail(error)
        failure = failure_of(request)
        if isinstance(failure, NotServingRegionError):
            self.regions.forget(region)
            if isinstance(failure, AnotherFolderError):
                self.regions.forget_all()
        return failure

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

    # Regions

    async def region_of(self, table: str, row: bytes, deadline: float) -> Region:
        """The region that holds a row, from the cache or the catalog, which is asked once."""
        while (known := self.regions.find(table, row)) is None:
            ongoing = self._lookups.get(table)
            if ongoing is None:
                return await self._look_up(table, row, deadline)
            # One asks, the others then find the answer in the cache.
            _, pending = await asyncio.wait([ongoing], timeout=max(0.0, deadline - time.monotonic()))
            if pending:
                message = f"the region of a row of {table!r} was not looked up in time"
                raise DeadlineError(message, table=table, row=row)
        return known

    async def _look_up(self, table: str, row: bytes, deadline: float) -> Region:
        done = self._lookups[table] = asyncio.get_running_loop().create_future()
        try:
            return (await self._locate(table, row, row + b"\0", deadline))[0]
        finally:
            del self._lookups[table]
            done.set_result(None)

    async def regions_of(self, table: str, start: bytes, stop: bytes, deadline: float) -> tuple[Region, ...]:
        """The regions that touch [start, stop), in row order, from the cache or the catalog, which is asked once."""
        return self.regions.cover(table, start, stop) or await self._locate(table, start, stop, deadline)

    async def _locate(self, table: str, start: bytes, stop: bytes, deadline: float) -> tuple[Region, ...]:
        address = self.catalog_address
        request = catalog_pb2.LocateRegionsRequest(table=table, start=start, stop=stop)
        try:
            answer = await self.call_once(address, methods.LOCATE_REGIONS, request, deadline - time.monotonic())
        except grpc.aio.AioRpcError as failed:
            raise self.judged(failed, address) from None
        regions = tuple(region_from(region, address) for region in answer.regions)
        self.regions.store(table, regions)
        if not regions:
            raise NotServingRegionError(f"no server has the rows of table {table!r} at this moment", table=table)
        return regions

    # Calls

    @property
    def catalog_address(self) -> str:
        """The server that is asked for the catalog."""
        return self.addresses[self._chosen]

    def choose(self, address: str) -> None:
        """Asks this one of the addresses for the catalog from now on."""
        self._chosen = self.addresses.index(address)

    def metadata(self, region: Region | None = None) -> Metadata:
        """What a call says beside its message: for which data folder it is, if it names a region or all calls do."""
        return folder_metadata(self._folder_of(region))

    def _folder_of(self, region: Region | None) -> str:
        return self._folder_id or (region.data_folder_id if region is not None else "")

    def channel(self, address: str) -> grpc.aio.Channel:
        """The channel to a server, opened at first use; raises ClosedError if the client was closed."""
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
    def closing_is_told(self) -> Iterator[None]:
        """Around a wait for a call: raises ClosedError if the client was closed meanwhile.

        grpc cancels the calls of a channel that is closed, and whoever waits for one meets CancelledError, as if their
        task had been cancelled; if it was, that goes on.
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
        """One unary call, about a region or not, without retries.

        Raises grpc.aio.AioRpcError, or ClosedError if the client was closed.
        """
        call = self.channel(address).unary_unary(
            method.path, request_serializer=method.serialize, response_deserializer=method.parse
        )
        with self.closing_is_told():
            answer: A = await call(request, timeout=max(0.001, timeout_s), metadata=self.metadata(region))
        return answer

    async def call(
        self,
        method: Method[Q, A],
        request: Q,
        timeout_s: float,
        kind: Kind = Kind.READ,
        address: str | None = None,
        *,
        work_s: float = 0.0,
    ) -> A:
        """A unary call to one server (None: the catalog's), with its retries; raises what it failed with.

        work_s: how long the server may work on it, if that is longer than it may take to reach the server.
        """
        attempts = Attempts(time.monotonic(), timeout_s, kind)
        while True:
            asked = address or self.catalog_address
            has_arrived = False
            began = time.monotonic()
            try:
                if kind is Kind.PLAIN_CHANGE:
                    # Proves the connection: what fails to get there at all leaves no doubt.
                    info = catalog_pb2.ServerInfoRequest()
                    await self.call_once(asked, methods.SERVER_INFO, info, attempts.deadline - began)
                    has_arrived = True
                remaining = max(attempts.deadline - time.monotonic(), work_s)
                return await self.call_once(asked, method, request, remaining)
            except grpc.aio.AioRpcError as failed:
                error: RowlockError = self.judged(failed, asked)
                is_in_doubt = has_arrived and answered_error(failed) is None
            except ClosedError as closed:
                error, is_in_doubt = closed, has_arrived
            now = time.monotonic()
            if kind is Kind.READ and now - began > timeout_s:
                # The server was there and worked; there is a new time to reach it again.
                attempts = Attempts(now, timeout_s, kind)
            await asyncio.sleep(attempts.failed(error, now, was_sent=is_in_doubt))

    def judged(self, failed: grpc.aio.AioRpcError, address: str) -> RowlockError:
        """What a failed call means; a catalog that can't be reached is asked no more while there are others."""
        error = error_of_call(failed, address)
        if isinstance(error, AnotherFolderError):
            self.regions.forget_all()
        if isinstance(error, ServerUnavailableError) and self.catalog_address == address:
            self._chosen = (self._chosen + 1) % len(self.addresses)
        return error
