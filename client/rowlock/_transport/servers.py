"""The servers a client talks to: their channels, the regions they have, and every call with its retries (threads).

Which failures are tried again, and what a call ends with, is decided by retry.Attempts; here it is done.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import TypeVar

import grpc
from rowlock_proto.v1 import catalog_pb2, region_pb2

from rowlock._codec.wire_errors import answered_error, error_of_call
from rowlock._core.conversation import Request
from rowlock._core.point import failure_of
from rowlock._core.regions import RegionCache
from rowlock._core.retry import REPEATED_FOR_S, Attempts, Kind
from rowlock._core.sequences import Sequences
from rowlock._core.uptime import uptime_s
from rowlock._transport import methods
from rowlock._transport.channels import Target, channel_options
from rowlock._transport.fork import check_usable, disconnected, gate, keep, register
from rowlock._transport.methods import Metadata, Method, folder_metadata
from rowlock._transport.stream import Answers, PointStream
from rowlock._transport.watch import Watch
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
    """Thread-safe. In the child of a fork it starts anew: own channels, own streams, own client id."""

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
        self.watch = Watch()
        # Held while a region is looked up, and before self._lock.
        self._locating = threading.Lock()
        self._lock = threading.Lock()
        # Guarded by self._lock (single look-ups are not):
        self._channels: dict[str, grpc.Channel] = {}
        self._targets: dict[str, Target] = {}
        self._streams: dict[tuple[str, str], PointStream] = {}  # by server and data folder
        # Which of the addresses is asked for the catalog.
        self._chosen = 0

    @property
    def is_connected(self) -> bool:
        return bool(self._channels)

    @property
    def is_asyncio(self) -> bool:
        return False

    def before_fork(self) -> None:
        """Ends every connection; parent and child open new ones at their next call."""
        self._disconnect(ServerUnavailableError("the process forked, and connections don't survive that"))

    def after_fork_in_parent(self) -> None:
        if self._is_held_open and not self._is_closed:
            self.channel(self.catalog_address)

    def after_fork_in_child(self) -> None:
        keep((self._channels, self._streams, self.watch))
        self._start()

    def close(self) -> None:
        """Ends every stream and connection. Idempotent."""
        self._is_closed = True
        self._disconnect(ClosedError("the client was closed while the call was under way"))

    def _disconnect(self, reason: RowlockError) -> None:
        with self._lock:
            streams, channels = list(self._streams.values()), list(self._channels.values())
            targets = list(self._targets.values())
            self._streams, self._channels, self._targets = {}, {}, {}
        for stream in streams:
            stream.close(reason)
        for channel in channels:
            channel.close()
        for target in targets:
            target.close()
        if channels:
            disconnected()

    # Point operations

    def point(self, request: Request, timeout_s: float) -> region_pb2.PointAnswer:
        """Makes a point operation on one row and blocks for its answer; raises what it failed with."""
        if not request.is_change:
            return self._point(request, timeout_s, Kind.READ)
        first = self.sequences.take()
        try:
            request.point.mutate.mutations[0].sequence = first
            return self._point(request, timeout_s, Kind.NUMBERED_CHANGE)
        finally:
            self.sequences.release(first)

    def _point(self, request: Request, timeout_s: float, kind: Kind) -> region_pb2.PointAnswer:
        started, began_s = time.monotonic(), uptime_s()
        failure = self._attempt(request, started + timeout_s)
        if failure is None and request.answer is not None:  # What is usual: nothing to count and nothing to judge.
            return request.answer
        attempts = Attempts(started, timeout_s, kind, began_s=began_s, repeated_for_s=self.repeated_for_s)
        while True:
            if failure is not None:
                time.sleep(attempts.failed(failure, time.monotonic(), was_sent=request.is_in_doubt))
                request.tell_age(attempts.age_ms())
            elif request.answer is not None:
                return request.answer
            else:
                raise attempts.timed_out(was_sent=request.sent)
            failure = self._attempt(request, attempts.deadline)

    def _attempt(self, request: Request, deadline: float) -> RowlockError | None:
        region = self.regions.find(request.table, request.row)
        if region is None:
            try:
                region = self.region_of(request.table, request.row, deadline)
            except RowlockError as error:
                request.fail(error)
                return error
        return self.attempt_in(region, request, deadline)

    def attempt_in(self, region: Region, request: Request, deadline: float) -> RowlockError | None:
        """Sends a request once, to a region that holds all its rows, and blocks until it is done or out of time.

        Returns what it failed with; None when it has its answer, or when the deadline passed and it has none.
        """
        with gate:
            try:
                self._stream(region.server, self._folder_of(region)).call(request, region.region_id, deadline)
            except ClosedError as error:
                # Not raised: an earlier attempt may have left the change in doubt.
                request.fail(error)
        failure = failure_of(request)
        if failure is not None and isinstance(failure, NotServingRegionError):
            self.regions.forget(region)
            if isinstance(failure, AnotherFolderError):
                self.regions.forget_all()
        return failure

    def _stream(self, address: str, folder_id: str) -> PointStream:
        stream = self._streams.get((address, folder_id))
        if stream is not None:
            return stream
        channel = self.channel(address)

        def converse(messages: Iterator[bytes], received: Callable[[bytes], object]) -> Answers:
            call: Callable[..., Answers] = channel.stream_stream(
                methods.CONVERSE.path, request_serializer=methods.CONVERSE.serialize, response_deserializer=received
            )
            try:
                return call(messages, metadata=folder_metadata(folder_id))
            except ValueError as failed:
                # grpc's word for a channel that was closed meanwhile.
                raise ClosedError("the client was closed") from failed

        with self._lock:
            return self._streams.setdefault((address, folder_id), PointStream(converse, address, self.sequences))

    # Regions

    def region_of(self, table: str, row: bytes, deadline: float) -> Region:
        """The region that holds a row, from the cache or the catalog, which is asked once."""
        known = self.regions.find(table, row)
        if known is not None:
            return known
        # One asks, the others then find the answer in the cache.
        if not self._locating.acquire(timeout=max(0.0, deadline - time.monotonic())):
            raise DeadlineError(f"the region of a row of {table!r} was not looked up in time", table=table, row=row)
        try:
            return self.regions.find(table, row) or self._locate(table, row, row + b"\0", deadline)[0]
        finally:
            self._locating.release()

    def regions_of(self, table: str, start: bytes, stop: bytes, deadline: float) -> tuple[Region, ...]:
        """The regions that touch [start, stop), in row order, from the cache or the catalog, which is asked once."""
        return self.regions.cover(table, start, stop) or self._locate(table, start, stop, deadline)

    def _locate(self, table: str, start: bytes, stop: bytes, deadline: float) -> tuple[Region, ...]:
        address = self.catalog_address
        request = catalog_pb2.LocateRegionsRequest(table=table, start=start, stop=stop)
        try:
            answer = self.call_once(address, methods.LOCATE_REGIONS, request, deadline - time.monotonic())
        except grpc.RpcError as failed:
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
        with self._lock:
            self._chosen = self.addresses.index(address)

    def metadata(self, region: Region | None = None) -> Metadata:
        """What a call says beside its message: for which data folder it is, if it names a region or all calls do."""
        return folder_metadata(self._folder_of(region))

    def _folder_of(self, region: Region | None) -> str:
        return self._folder_id or (region.data_folder_id if region is not None else "")

    def channel(self, address: str) -> grpc.Channel:
        """The channel to a server, opened at first use; raises ClosedError if the client was closed."""
        channel = self._channels.get(address)
        if channel is not None:
            return channel
        with self._lock:
            if self._is_closed:
                raise ClosedError("the client was closed")
            channel = self._channels.get(address)
            if channel is None:
                check_usable()
                target = self._targets[address] = Target(address)
                channel = self._channels[address] = grpc.insecure_channel(target.name, options=channel_options())
                register(self)
        if self._is_held_open:
            self._stream(address, self._folder_id).hold_open()
        return channel

    def call_once(
        self,
        address: str,
        method: Method[Q, A],
        request: Q,
        timeout_s: float,
        region: Region | None = None,
        *,
        kind: Kind = Kind.READ,
    ) -> A:
        """One unary call, about a region or not, without retries.

        Raises grpc.RpcError, or ClosedError if the client was closed meanwhile.
        """
        with gate.unrepeatable() if kind is Kind.PLAIN_CHANGE else gate:
            call: Callable[..., A] = self.channel(address).unary_unary(
                method.path, request_serializer=method.serialize, response_deserializer=method.parse
            )
            try:
                return call(request, timeout=max(0.001, timeout_s), metadata=self.metadata(region))
            except ValueError as failed:
                # grpc's word for a channel that was closed meanwhile.
                raise ClosedError("the client was closed") from failed

    def call(
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
                    self.call_once(asked, methods.SERVER_INFO, info, attempts.deadline - began)
                    has_arrived = True
                remaining = max(attempts.deadline - time.monotonic(), work_s)
                return self.call_once(asked, method, request, remaining, kind=kind)
            except grpc.RpcError as failed:
                error: RowlockError = self.judged(failed, asked)
                is_in_doubt = has_arrived and answered_error(failed) is None
            now = time.monotonic()
            if kind is Kind.READ and now - began > timeout_s:
                # The server was there and worked; there is a new time to reach it again.
                attempts = Attempts(now, timeout_s, kind)
            time.sleep(attempts.failed(error, now, was_sent=is_in_doubt))

    def judged(self, failed: grpc.RpcError, address: str) -> RowlockError:
        error = error_of_call(failed, address)
        if isinstance(error, AnotherFolderError):
            self.regions.forget_all()
        if isinstance(error, ServerUnavailableError):
            with self._lock:
                if self.addresses[self._chosen] == address:
                    self._chosen = (self._chosen + 1) % len(self.addresses)
        return error
