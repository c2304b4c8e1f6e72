# Made from client/rowlock/aio/_transport/servers.py by tools/async_to_sync.py: change that, then `make faces`.
"""The servers a client talks to: which region has a row, and every call with its retries (threads).

Which failures are tried again, and what a call ends with, is decided by retry.Attempts; here it is done.
"""

from __future__ import annotations

import time
from typing import TypeVar

import grpc
from rowlock_proto.v1 import catalog_pb2, region_pb2

from rowlock._codec.wire_errors import answered_error, error_of_call
from rowlock._core.conversation import Request
from rowlock._core.point import failure_of
from rowlock._core.retry import Attempts, Kind
from rowlock._core.uptime import uptime_s
from rowlock._transport import methods
from rowlock._transport.connections import Connections
from rowlock._transport.fork import gate
from rowlock._transport.methods import Method
from rowlock.errors import (
    AnotherFolderError,
    ClosedError,
    NotServingRegionError,
    RowlockError,
    ServerUnavailableError,
)
from rowlock.schema import Region, region_from

Q = TypeVar("Q")
A = TypeVar("A")


class Servers(Connections):
    """Thread-safe."""

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
                request.set_age(attempts.age_ms())
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

    # Regions

    def region_of(self, table: str, row: bytes, deadline: float) -> Region:
        """The region that holds a row, from the cache or the catalog, which is asked once."""
        known = self.regions.find(table, row)
        if known is not None:
            return known
        with self._turn_to_look_up(table, row, deadline):
            return self.regions.find(table, row) or self._locate(table, row, row + b"\0", deadline)[0]

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
        given_up_at = attempts.deadline + work_s
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
            if kind is Kind.READ and timeout_s < now - began and now < given_up_at:
                # The server was there and worked; there is a new time to reach it again.
                attempts = Attempts(now, timeout_s, kind)
            time.sleep(attempts.failed(error, now, was_sent=is_in_doubt))

    def judged(self, failed: grpc.RpcError, address: str) -> RowlockError:
        """What a failed call means; a catalog that can't be reached is asked no more while there are others."""
        error = error_of_call(failed, address)
        if isinstance(error, AnotherFolderError):
            self.regions.forget_all()
        if isinstance(error, ServerUnavailableError):
            self._pass_over(address)
        return error
