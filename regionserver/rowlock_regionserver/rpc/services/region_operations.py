"""The Catalog's calls on regions: they locate, list, split and merge them."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from typing import Protocol

from google.protobuf.message import Message
from rowlock_proto.shown_names import row_text
from rowlock_proto.v1 import catalog_pb2, types_pb2

from rowlock_regionserver.catalog.regions import RegionEntry, range_text, region_of_row
from rowlock_regionserver.catalog.table_entry import TableEntry
from rowlock_regionserver.config import Config
from rowlock_regionserver.engine.workers import Workers
from rowlock_regionserver.errors import (
    InvalidRequestError,
    LimitExceededError,
    NotServingRegionError,
    RegionServerError,
)
from rowlock_regionserver.host.client_state import ClientState
from rowlock_regionserver.host.read_snapshots import is_snapshot
from rowlock_regionserver.locks.lock_matrix import Operation
from rowlock_regionserver.locks.table_locks import Caller
from rowlock_regionserver.region.region import Region
from rowlock_regionserver.rpc.grpc.calls import Context, Method
from rowlock_regionserver.rpc.messages.failures import parsed
from rowlock_regionserver.rpc.messages.sessions import caller_of
from rowlock_regionserver.rpc.messages.tables import damaged_message, entry_message, region_message, statistics_message
from rowlock_regionserver.rpc.services.worker_calls import run_locked


class RegionsHost(Protocol):
    """The region server as these calls see it. Thread-safe; splits and merges block."""

    @property
    def clients(self) -> ClientState: ...
    def table_entry(self, name: str) -> TableEntry: ...
    def readable_entry(self, name: str) -> TableEntry: ...
    def region(self, region_id: int) -> Region: ...
    def readable_regions_of(self, name: str, start: bytes = b"", stop: bytes = b"") -> Sequence[Region]: ...
    def split_region(
        self, name: str, region_id: int, row: bytes | None, caller: Caller
    ) -> tuple[RegionEntry, RegionEntry]: ...
    def merge_regions(self, name: str, left_id: int, right_id: int, caller: Caller) -> RegionEntry: ...


class RegionOperations:
    """Some of the methods of rowlock.v1.Catalog. `server`: this server's address for clients, empty if it has none."""

    def __init__(self, host: RegionsHost, workers: Workers, server: str, data_folder_id: str, config: Config) -> None:
        self._host = host
        self._workers = workers
        self._server = server
        self._data_folder_id = data_folder_id
        self._config = config

    @property
    def methods(self) -> dict[str, Method]:
        """The methods that take locks, by their names in catalog.proto."""
        return {"SplitRegion": self._split_region, "MergeRegions": self._merge_regions}

    @property
    def quick(self) -> dict[str, Callable[[bytes], Message]]:
        """The methods that never wait, except to open a named snapshot, which reads the ends of its files."""
        return {"LocateRegions": self._locate_regions, "ListRegions": self._list_regions}

    def _locate_regions(self, data: bytes) -> catalog_pb2.LocateRegionsResponse:
        message = parsed(catalog_pb2.LocateRegionsRequest, data)
        regions = self._host.readable_regions_of(message.table, message.start, message.stop)
        return catalog_pb2.LocateRegionsResponse(
            regions=[region_message(region, self._server, self._data_folder_id) for region in regions]
        )

    def _list_regions(self, data: bytes) -> catalog_pb2.ListRegionsResponse:
        message = parsed(catalog_pb2.ListRegionsRequest, data)
        found = self._host.readable_entry(message.table)
        if is_snapshot(message.table):
            self._host.readable_regions_of(message.table)  # Opens them.
        table = found.table
        listed = []
        for entry in [region for region in found.regions if region.overlaps(message.start, message.stop)]:
            try:
                region = self._host.region(entry.region_id)
            except NotServingRegionError:
                raise  # It was split a moment ago: the client asks again.
            except RegionServerError as error:
                described = entry_message(entry, table, self._server, self._data_folder_id)
                listed.append(damaged_message(described, error))
            else:
                listed.append(statistics_message(region, self._server, self._data_folder_id))
        return catalog_pb2.ListRegionsResponse(regions=listed)

    async def _split_region(self, data: bytes, context: Context) -> bytes:
        message = parsed(catalog_pb2.SplitRegionRequest, data)
        name, row = message.table, message.split_row
        if message.is_repeated and not row:
            raise InvalidRequestError("a split that is repeated must name split_row", table=name)
        self._check_row(name, row)
        chosen = await asyncio.get_running_loop().run_in_executor(self._workers.quick, self._to_split, message)

        def split(caller: Caller) -> Message:
            daughters = self._host.split_region(name, chosen[0].region_id, row or None, caller)
            return self._split_answer(name, daughters)

        if len(chosen) == 2:
            return self._split_answer(name, chosen).SerializeToString()
        return await self._locked(Operation.SPLIT, name, caller_of(message.lock, context.peer()), split, chosen)

    def _to_split(self, message: catalog_pb2.SplitRegionRequest) -> Sequence[RegionEntry]:
        """Returns the region to split; or two, if the split that this call repeats was made."""
        entry = self._host.table_entry(message.table)
        row = message.split_row
        if message.is_repeated:
            upper = region_of_row(entry.regions, row)
            if upper.start == row:
                return [_before(entry, upper), upper]
        if message.region_id:
            return [_region_of_id(entry, message.region_id)]
        return [region_of_row(entry.regions, row) if row else self._largest(entry)]

    def _largest(self, entry: TableEntry) -> RegionEntry:
        """Returns the region with the most bytes; the first one if none has any."""
        found: list[tuple[int, RegionEntry]] = []
        for region in entry.regions:
            with contextlib.suppress(RegionServerError):  # It is damaged, and can't be split.
                sizes = self._host.region(region.region_id).statistics()
                found.append((sizes.store_file_bytes + sizes.memstore_bytes, region))
        if not found:
            return entry.regions[0]
        return max(found, key=lambda each: each[0])[1]

    def _split_answer(self, name: str, daughters: Sequence[RegionEntry]) -> catalog_pb2.SplitRegionResponse:
        return catalog_pb2.SplitRegionResponse(regions=self._messages(self._host.table_entry(name), daughters))

    async def _merge_regions(self, data: bytes, context: Context) -> bytes:
        message = parsed(catalog_pb2.MergeRegionsRequest, data)
        name = message.table
        self._check_row(name, message.row)
        chosen = self._to_merge(message)

        def merge(caller: Caller) -> Message:
            left, right = chosen
            return self._merge_answer(name, self._host.merge_regions(name, left.region_id, right.region_id, caller))

        if len(chosen) == 1:
            return self._merge_answer(name, chosen[0]).SerializeToString()
        return await self._locked(Operation.MERGE, name, caller_of(message.lock, context.peer()), merge, chosen)

    def _to_merge(self, message: catalog_pb2.MergeRegionsRequest) -> Sequence[RegionEntry]:
        """Returns the two regions in row order; or one, if the merge that this call repeats was made."""
        entry = self._host.table_entry(message.table)
        row = message.row
        if bool(row) == bool(message.region_ids) or len(message.region_ids) not in (0, 2):
            raise InvalidRequestError(
                "a merge names two regions by their ids, or `row`, the first row of the second one", table=message.table
            )
        if not row:
            if message.is_repeated:
                raise InvalidRequestError("a merge that is repeated must name `row`", table=message.table)
            two = [_region_of_id(entry, region_id) for region_id in message.region_ids]
            return sorted(two, key=lambda region: region.start)
        right = region_of_row(entry.regions, row)
        if right.start == row:
            return [_before(entry, right), right]
        if message.is_repeated:
            return [right]
        raise InvalidRequestError(
            f"no region of table {message.table!r} begins with row {row_text(row)}: region {right.region_id} has the "
            f"rows {range_text(right)}; name the first row of a region, which is then merged into the one before it",
            table=message.table,
            row=row,
        )

    def _merge_answer(self, name: str, merged: RegionEntry) -> catalog_pb2.MergeRegionsResponse:
        (region,) = self._messages(self._host.table_entry(name), [merged])
        return catalog_pb2.MergeRegionsResponse(region=region)

    def _messages(self, entry: TableEntry, regions: Sequence[RegionEntry]) -> list[types_pb2.RegionDescriptor]:
        return [entry_message(region, entry.table, self._server, self._data_folder_id) for region in regions]

    async def _locked(
        self,
        operation: Operation,
        table: str,
        caller: Caller,
        work: Callable[[Caller], Message],
        regions: Sequence[RegionEntry],
    ) -> bytes:
        ids = [region.region_id for region in regions]
        message = await run_locked(self._host.clients, self._workers.tables, operation, table, caller, work, ids)
        return message.SerializeToString()

    def _check_row(self, table: str, row: bytes) -> None:
        if len(row) > self._config.row_bytes_max:
            raise LimitExceededError(
                f"the row {row_text(row)} has {len(row)} bytes, more than row_bytes_max = {self._config.row_bytes_max}",
                limit="row_bytes_max",
                limit_value=self._config.row_bytes_max,
                found=len(row),
                table=table,
                row=row[:100],
            )


def _region_of_id(entry: TableEntry, region_id: int) -> RegionEntry:
    """Returns the region. Raises InvalidRequestError: the caller names it, so looking it up again can't help."""
    found = [region for region in entry.regions if region.region_id == region_id]
    if not found:
        name = entry.table.name
        raise InvalidRequestError(
            f"table {name!r} has no region {region_id}: it was split or merged, or is another table's; list them",
            table=name,
        )
    return found[0]


def _before(entry: TableEntry, region: RegionEntry) -> RegionEntry:
    return entry.regions[entry.regions.index(region) - 1]
