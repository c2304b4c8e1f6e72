"""The regions of the fake server's table: located, listed, split and merged."""

from __future__ import annotations

import threading
from collections import deque

import grpc
from rowlock_proto.v1 import catalog_pb2, catalog_pb2_grpc, types_pb2

from tests.unit.client.fake_errors import Mishap, Scripted, end_call

_STATISTICS = catalog_pb2.RegionStatistics


class FakeRegions(catalog_pb2_grpc.CatalogServicer):
    """The part of FakeServer for regions. One table has them, whatever its name."""

    address: str
    mapping: str
    _changed: threading.Condition

    def __init__(self) -> None:
        # Guarded by the lock of FakeServer:
        self.regions: dict[int, tuple[bytes, bytes]] = {1: (b"", b"")}
        self.next_region_id = 2
        self.damaged: set[int] = set()
        self.locate_count = 0
        # Scripts of splits and merges: without a mishap they are made.
        self.change_script: deque[Scripted] = deque()
        self.changes: list[catalog_pb2.SplitRegionRequest | catalog_pb2.MergeRegionsRequest] = []

    @property
    def region_id(self) -> int:
        """The first region. Set: there is one region, of this id."""
        return next(iter(self.regions))

    @region_id.setter
    def region_id(self, region_id: int) -> None:
        self.regions = {region_id: (b"", b"")}

    def split(self, row: bytes) -> None:
        """Splits the region that has the row, which becomes the first one of the second daughter."""
        region_id = next(each for each in self.regions if self.has(each, row))
        start, stop = self.regions.pop(region_id)
        self.regions |= {self.next_region_id: (start, row), self.next_region_id + 1: (row, stop)}
        self.next_region_id += 2

    def merge(self, row: bytes) -> None:
        """Merges the region that begins with the row into the one before it."""
        right = next(each for each, (start, _) in self.regions.items() if start == row)
        left = next(each for each, (_, stop) in self.regions.items() if stop == row)
        self.regions[self.next_region_id] = (self.regions.pop(left)[0], self.regions.pop(right)[1])
        self.next_region_id += 1

    def has(self, region_id: int, row: bytes) -> bool:
        """Whether the region is there, and has the row."""
        start, stop = self.regions.get(region_id, (b"\xff", b""))
        return start <= row and (not stop or row < stop)

    def LocateRegions(  # noqa: N802  (the protocol's name)
        self, request: catalog_pb2.LocateRegionsRequest, context: grpc.ServicerContext
    ) -> catalog_pb2.LocateRegionsResponse:
        with self._changed:
            self.locate_count += 1
            self._changed.notify_all()
            regions = self.regions
        found = self._messages(request.table, regions)
        inside = [
            each
            for each in found
            if (not request.stop or each.start < request.stop) and (not each.stop or request.start < each.stop)
        ]
        return catalog_pb2.LocateRegionsResponse(regions=inside)

    def ListRegions(  # noqa: N802
        self, request: catalog_pb2.ListRegionsRequest, context: grpc.ServicerContext
    ) -> catalog_pb2.ListRegionsResponse:
        return catalog_pb2.ListRegionsResponse(regions=self._statistics(request.table))

    def DescribeTable(  # noqa: N802
        self, request: catalog_pb2.DescribeTableRequest, context: grpc.ServicerContext
    ) -> catalog_pb2.DescribeTableResponse:
        return catalog_pb2.DescribeTableResponse(
            table=types_pb2.TableDescriptor(name=request.name), regions=self._statistics(request.name)
        )

    def SplitRegion(  # noqa: N802
        self, request: catalog_pb2.SplitRegionRequest, context: grpc.ServicerContext
    ) -> catalog_pb2.SplitRegionResponse:
        with self._changed:
            row = request.split_row or b"middle"
            is_made = any(start == row for start, _ in self.regions.values())
            mishap = self._next_mishap(request)
            if mishap is not Mishap.REQUEST_IS_LOST and not isinstance(mishap, types_pb2.Error) and not is_made:
                self.split(row)
        _end_if(mishap, context)
        beside = [each for each in self._messages(request.table, self.regions) if row in (each.start, each.stop)]
        return catalog_pb2.SplitRegionResponse(regions=beside)

    def MergeRegions(  # noqa: N802
        self, request: catalog_pb2.MergeRegionsRequest, context: grpc.ServicerContext
    ) -> catalog_pb2.MergeRegionsResponse:
        with self._changed:
            row = request.row or self.regions[request.region_ids[1]][0]
            is_made = all(start != row for start, _ in self.regions.values())
            mishap = self._next_mishap(request)
            if mishap is not Mishap.REQUEST_IS_LOST and not isinstance(mishap, types_pb2.Error) and not is_made:
                self.merge(row)
        _end_if(mishap, context)
        [merged] = [each for each in self._messages(request.table, self.regions) if self.has(each.region_id, row)]
        return catalog_pb2.MergeRegionsResponse(region=merged)

    def _next_mishap(self, request: catalog_pb2.SplitRegionRequest | catalog_pb2.MergeRegionsRequest) -> Scripted:
        self.changes.append(request)
        return self.change_script.popleft() if self.change_script else Mishap.NONE

    def _messages(self, table: str, regions: dict[int, tuple[bytes, bytes]]) -> list[types_pb2.RegionDescriptor]:
        properties = {"mapping": self.mapping} if self.mapping else {}
        return [
            types_pb2.RegionDescriptor(
                region_id=region_id,
                table=table,
                start=start,
                stop=stop,
                server=self.address,
                descriptor=types_pb2.TableDescriptor(properties=properties),
            )
            for region_id, (start, stop) in sorted(regions.items(), key=lambda each: each[1])
        ]

    def _statistics(self, table: str) -> list[catalog_pb2.RegionStatistics]:
        return [
            _STATISTICS(region=each, state=_STATISTICS.STATE_DAMAGED, error="a file is damaged")
            if each.region_id in self.damaged
            else _STATISTICS(region=each, state=_STATISTICS.STATE_OPEN, store_file_bytes=7, open_read_count=2)
            for each in self._messages(table, self.regions)
        ]


def _end_if(mishap: Scripted, context: grpc.ServicerContext) -> None:
    """Ends the call if the mishap says so."""
    if isinstance(mishap, types_pb2.Error):
        end_call(context, mishap)
    if mishap is not Mishap.NONE:
        context.abort(grpc.StatusCode.UNAVAILABLE, "the connection was cut")
