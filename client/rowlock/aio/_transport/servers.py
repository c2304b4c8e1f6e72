"""The servers of a client: looks up regions and makes calls, with retries (asyncio).

retry.Attempts decides which failures are retried and which error a call ends with.
"""

from __future__ import annotations

import asyncio
import time
from typing import TypeVar

import grpc
from rowlock_proto.v1 import catalog_pb2, region_pb2

from rowlock._codec.wire_errors import answered_error, error_of_call
from rowlock._core.advertised import origin, with_origin
from rowlock._core.conversation import Request
from rowlock._core.features import (
    FILTERED_PROTOCOL,
    OPEN_SCAN_PROTOCOL,
    PROTOCOL,
    PUT_ROWS_PROTOCOL,
    ROWS_PROTOCOL,
    VALUES_PROTOCOL,
)
from rowlock._core.point import failure_of
from rowlock._core.retry import Attempts, Kind
from rowlock._core.uptime import uptime_s
from rowlock._transport import methods
from rowlock._transport.methods import Method
from rowlock.aio._transport.connections import Connections
from rowlock.aio._transport.links import ServerLink
from rowlock.errors import (
    AnotherFolderError,
    ClosedError,
    FamilyNotFoundError,
    NotServingRegionError,
    RowlockError,
    ServerUnavailableError,
)
from rowlock.schema import Region, region_from

Q = TypeVar("Q")
A = TypeVar("A")

# Python 3.11 finds a global ten times as fast as a member in its enum.
_READ, _NUMBERED = Kind.READ, Kind.NUMBERED_CHANGE


class Servers(Connections):
    """For tasks of one event loop. Close it before a fork, see rowlock._transport.fork."""

    # Point operations

    async def point(self, request: Request, timeout_s: float) -> region_pb2.PointAnswer:
        """Makes a point operation on one row and waits for its answer. Raises its error."""
        if not request.is_change:
            return await self._point(request, timeout_s, _READ)
        first = self.sequences.take()
        try:
            request.set_sequence(first)
            return await self._point(request, timeout_s, _NUMBERED)
        finally:
            self.sequences.release(first)

    async def _point(self, request: Request, timeout_s: float, kind: Kind) -> region_pb2.PointAnswer:
        started = time.monotonic()
        began_s = uptime_s() if request.is_change else None
        failure = await self._attempt(request, started + timeout_s)
        if failure is None and request.answer is not None:  # The fast path, without an Attempts.
            return request.answer
        attempts = Attempts(started, timeout_s, kind, began_s=began_s, repeated_for_s=self.repeated_for_s)
        while True:
            if failure is not None:
                await asyncio.sleep(attempts.failed(failure, time.monotonic(), was_sent=request.is_in_doubt))
                request.set_age(attempts.age_ms())
            elif request.answer is not None:
                return request.answer
            else:
                region = self.regions.find(request.table, request.row)
                where = "" if region is None else origin(region.server, self.addresses)
                raise attempts.timed_out(was_sent=request.sent, origin=where)
            failure = await self._attempt(request, attempts.deadline)

    async def _attempt(self, request: Request, deadline: float) -> RowlockError | None:
        region = self.regions.find(request.table, request.row)
        if region is None:
            try:
                region = await self.region_of(request.table, request.row, deadline)
            except RowlockError as error:
                request.fail(error)
                return error
        return await self.attempt_in(region, request, deadline)

    async def attempt_in(self, region: Region, request: Request, deadline: float) -> RowlockError | None:
        """Sends a request once, to a region with all its rows, and waits until it is done or the deadline passes.

        Returns its error; None if it has an answer, or if the deadline passed.
        """
        await self.link_to(region).call(request, region.region_id, deadline)
        failure = failure_of(request)
        if failure is not None and isinstance(failure, NotServingRegionError):
            self.regions.forget(region)
            if isinstance(failure, AnotherFolderError):
                self.regions.forget_all()
        elif isinstance(failure, FamilyNotFoundError):
            self.regions.forget_table(request.table)  # The kept mapping may have changed with the families.
        return None if failure is None else with_origin(failure, region.server, self.addresses)

    def link_to(self, region: Region) -> ServerLink:
        """Returns the link to the region's server."""
        return self.link(region.server, self._folder_of(region))

    # Regions

    async def region_of(self, table: str, row: bytes, deadline: float) -> Region:
        """Returns the region that holds a row, from the cache or by one request to the catalog, without retries."""
        known = self.regions.find(table, row)
        if known is not None:
            return known
        async with self._single_lookup(table, row, deadline):
            return self.regions.find(table, row) or (await self._locate(table, row, row + b"\0", deadline))[0]

    async def regions_of(self, table: str, start: bytes, stop: bytes, deadline: float) -> tuple[Region, ...]:
        """Returns the regions that overlap [start, stop), in row order; like region_of."""
        return self.regions.cover(table, start, stop) or await self._locate(table, start, stop, deadline)

    async def _locate(self, table: str, start: bytes, stop: bytes, deadline: float) -> tuple[Region, ...]:
        request = catalog_pb2.LocateRegionsRequest(table=table, start=start, stop=stop)
        regions = await self._located(request, deadline)
        self.regions.store(table, regions)
        return regions

    async def _located(self, request: catalog_pb2.LocateRegionsRequest, deadline: float) -> tuple[Region, ...]:
        address = self.catalog_address
        try:
            answer = await self.call_once(address, methods.LOCATE_REGIONS, request, deadline - time.monotonic())
        except grpc.aio.AioRpcError as failed:
            raise self.error_for(failed, address) from None
        if not answer.regions:
            raise NotServingRegionError(
                f"no server has the rows of table {request.table!r} at this moment; retry", table=request.table
            )
        return tuple(region_from(region, address) for region in answer.regions)

    # Servers

    @property
    def takes_rows(self) -> bool:
        """Whether the catalog's server is known to take rows in bulk batches."""
        return (self.catalog_protocol or 0) >= ROWS_PROTOCOL

    @property
    def returns_filtered(self) -> bool:
        """Whether the catalog's server is known to return the cells that the filter of a condition reads."""
        return (self.catalog_protocol or 0) >= FILTERED_PROTOCOL

    @property
    def takes_values(self) -> bool:
        """Whether the catalog's server is known to take the puts of a row as RowValues."""
        return (self.catalog_protocol or 0) >= VALUES_PROTOCOL

    def opens_scans_at(self, region: Region) -> bool:
        """Whether the region's server is known to open scans by point requests."""
        return self.protocols.get(region.server, 0) >= OPEN_SCAN_PROTOCOL

    async def takes_rows_at(self, region: Region, deadline: float) -> bool:
        """Returns whether the region's server takes rows in bulk batches; by one request, the first time."""
        return await self._protocol_at(region, deadline) >= ROWS_PROTOCOL

    async def takes_puts_in_columns_at(self, region: Region, deadline: float) -> bool:
        """Returns whether the region's server takes puts in columns; by one request, the first time."""
        return await self._protocol_at(region, deadline) >= PUT_ROWS_PROTOCOL

    async def _protocol_at(self, region: Region, deadline: float) -> int:
        address = region.server
        if address not in self.protocols:
            request = catalog_pb2.ServerInfoRequest(protocol=PROTOCOL)
            try:
                info = await self.call_once(address, methods.SERVER_INFO, request, deadline - time.monotonic())
            except grpc.aio.AioRpcError as failed:
                raise self.error_for(failed, address) from None
            self.protocols[address] = info.protocol
        return self.protocols[address]

    # Calls

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
        """Makes a unary call with retries and returns its answer. Raises its error.

        timeout_s: how long it may take to reach the server. address: the server; None: the catalog's. work_s: how long
        the server may work on the call, if that is longer.
        """
        attempts = Attempts(time.monotonic(), timeout_s, kind)
        ends_at = attempts.deadline + work_s
        while True:
            server = address or self.catalog_address
            has_arrived = False
            began = time.monotonic()
            try:
                if kind is Kind.PLAIN_CHANGE:
                    # Proves the connection: if this call fails, the change was certainly not sent.
                    info = catalog_pb2.ServerInfoRequest()
                    await self.call_once(server, methods.SERVER_INFO, info, attempts.deadline - began)
                    has_arrived = True
                remaining = max(attempts.deadline - time.monotonic(), work_s)
                return await self.call_once(server, method, request, remaining)
            except grpc.aio.AioRpcError as failed:
                error: RowlockError = self.error_for(failed, server)
                is_in_doubt = has_arrived and answered_error(failed) is None
            except ClosedError as closed:
                error, is_in_doubt = closed, has_arrived
            now = time.monotonic()
            if kind is Kind.READ and timeout_s < now - began and now < ends_at:
                # The server was reached and worked on the call: the time to reach it starts again.
                attempts = Attempts(now, timeout_s, kind)
            await asyncio.sleep(attempts.failed(error, now, was_sent=is_in_doubt))

    def error_for(self, failed: grpc.aio.AioRpcError, address: str) -> RowlockError:
        """Returns the exception for a failed call. If the catalog's server is unavailable, switches to another one."""
        return self.error_at(error_of_call(failed, address), address)

    def error_at(self, error: RowlockError, address: str) -> RowlockError:
        """Returns the exception for an error of the server at this address; see error_for."""
        error = with_origin(error, address, self.addresses)
        if isinstance(error, AnotherFolderError):
            self.regions.forget_all()
        if isinstance(error, FamilyNotFoundError) and error.table:
            self.regions.forget_table(error.table)  # The kept mapping may have changed with the families.
        if isinstance(error, ServerUnavailableError):
            self._stop_using(address)
        return error
