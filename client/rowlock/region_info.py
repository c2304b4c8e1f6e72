"""Regions with their sizes, and their conversion from messages."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from rowlock_proto.v1 import catalog_pb2

from rowlock.schema import Region, region_from

RegionState = Literal["open", "damaged"]

_STATES: Mapping[int, RegionState] = {catalog_pb2.RegionStatistics.STATE_DAMAGED: "damaged"}


@dataclass(frozen=True, slots=True)
class RegionInfo(Region):
    """A region with its size at one moment, returned by `Client.regions`.

    state: "open": it serves. "damaged": it is closed because of damage; its sizes are not known.
    error: why it is closed; it names a damaged file.
    store_file_count, store_file_bytes: store files, and their size on disk.
    store_file_cells: cells in store files, before versions and tombstones are applied.
    memstore_bytes: memory of the changes that are in no store file yet.
    open_read_count: scans and snapshots that read it now, and gets that are under way.
    """

    state: RegionState = "open"
    error: str = ""
    store_file_count: int = 0
    store_file_bytes: int = 0
    store_file_cells: int = 0
    memstore_bytes: int = 0
    open_read_count: int = 0


def region_info_from(message: catalog_pb2.RegionStatistics, contacted: str) -> RegionInfo:
    """Returns a region with its size from its message. contacted: as in region_from."""
    region = region_from(message.region, contacted)
    return RegionInfo(
        region.region_id,
        region.table,
        region.start,
        region.stop,
        region.server,
        region.data_folder_id,
        region.mapping_text,
        state=_STATES.get(message.state, "open"),
        error=message.error,
        store_file_count=message.store_file_count,
        store_file_bytes=message.store_file_bytes,
        store_file_cells=message.store_file_cells,
        memstore_bytes=message.memstore_bytes,
        open_read_count=message.open_read_count,
    )
