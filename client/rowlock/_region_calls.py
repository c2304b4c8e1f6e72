# Made from client/rowlock/aio/_region_calls.py by tools/async_to_sync.py: change that, then `make faces`.
"""The client's calls on the regions of a table (threads)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

from google.protobuf.message import Message
from rowlock_proto.v1 import catalog_pb2

from rowlock._codec.columns import Name
from rowlock._core.features import has_region_calls
from rowlock._core.lock_requests import lock_options
from rowlock._core.region_requests import list_request, merge_request, split_request
from rowlock._core.retry import Kind
from rowlock._session_calls import SessionCalls
from rowlock._transport import methods
from rowlock._transport.methods import Method
from rowlock.errors import ClosedError, RowlockError, UnknownOutcomeError
from rowlock.region_info import RegionInfo, region_info_from
from rowlock.schema import Region, region_from
from rowlock.session import Session

A = TypeVar("A")


class RegionCalls(SessionCalls):
    """The part of Client for regions."""

    def regions(self, name: str, *, start: Name | None = None, stop: Name | None = None) -> list[RegionInfo]:
        """Returns the regions of a table that overlap [start, stop), in row order, with their sizes at this moment.

        Regions that are closed because of damage are listed too. Raises TableNotFoundError.
        """
        request = list_request(name, start, stop)
        if has_region_calls(self._servers.catalog_protocol):
            found = self._servers.call(methods.LIST_REGIONS, request, self._timeout_s).regions
        else:
            of_table = catalog_pb2.DescribeTableRequest(name=name)
            found = self._servers.call(methods.DESCRIBE_TABLE, of_table, self._timeout_s).regions
        regions = [region_info_from(region, self._servers.catalog_address) for region in found]
        regions = [region for region in regions if region.overlaps(request.start, request.stop)]
        located = [
            region_from(region.region, self._servers.catalog_address)
            for region in found
            if region.state != catalog_pb2.RegionStatistics.STATE_DAMAGED
        ]
        self._servers.regions.store(name, located)
        return regions

    def split(
        self,
        name: str,
        row: Name | None = None,
        *,
        region: Region | int | None = None,
        session: Session | None = None,
    ) -> tuple[Region, Region]:
        """Splits a region of a table in two; returns both, in row order.

        row: the first row of the second one; None: one in the middle, which the server finds. region: the region, or
        its id; None: the one that holds the row, and without a row the one with the most bytes. session: whose locks
        don't exclude this call. Reads and changes go on meanwhile, and a snapshot reads what it read before.

        Raises InvalidArgumentError if the row is the first one of a region already, or outside of the region, and if
        the region has too few rows to find a middle; TableNotFoundError, and LockUnavailableError while others hold a
        lock of the table or the region. With a row, a call whose answer is lost is repeated, and finds out what
        happened.
        """
        request = split_request(name, row, region)
        request.lock.CopyFrom(lock_options(session))
        answer = self._change(methods.SPLIT_REGION, request, is_repeatable=row is not None)
        lower, upper = [region_from(each, self._servers.catalog_address) for each in answer.regions]
        self._servers.regions.store(name, [lower, upper])
        return lower, upper

    def merge(
        self,
        name: str,
        row: Name | None = None,
        *,
        regions: Iterable[Region | int] | None = None,
        session: Session | None = None,
    ) -> Region:
        """Merges two neighbouring regions of a table; returns the new one. It undoes `split` with the same row.

        row: the first row of the second of them. regions: instead of it both regions, or their ids. session: whose
        locks don't exclude this call. Reads and changes go on meanwhile, and a snapshot reads what it read before.

        Raises InvalidArgumentError if no region begins with the row, and for regions that are not neighbours;
        TableNotFoundError, and LockUnavailableError while others hold a lock of the table or a region. With a row, a
        call whose answer is lost is repeated, and finds out what happened.
        """
        request = merge_request(name, row, regions)
        request.lock.CopyFrom(lock_options(session))
        answer = self._change(methods.MERGE_REGIONS, request, is_repeatable=row is not None)
        merged = region_from(answer.region, self._servers.catalog_address)
        self._servers.regions.store(name, [merged])
        return merged

    def _change(
        self,
        method: Method[Message, A],
        request: catalog_pb2.SplitRegionRequest | catalog_pb2.MergeRegionsRequest,
        *,
        is_repeatable: bool,
    ) -> A:
        """Makes a call that splits or merges regions. Repeats it if it is unknown whether it was made."""
        try:
            return self._call_locked(method, request)
        except UnknownOutcomeError as unknown:
            if not is_repeatable:
                raise
            request.is_repeated = True
            try:
                return self._call_locked(method, request, Kind.READ)
            except ClosedError:
                raise unknown from None
            except RowlockError as error:
                raise unknown from error
