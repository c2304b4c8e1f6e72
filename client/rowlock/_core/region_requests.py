"""Requests that split and merge regions, without I/O."""

from __future__ import annotations

from collections.abc import Iterable

from rowlock_proto.v1 import catalog_pb2

from rowlock._codec.columns import Name, check_int, encoded_bound, encoded_row, listed
from rowlock._core.catalog import check_table_name
from rowlock.errors import InvalidArgumentError
from rowlock.schema import Region


def list_request(table: str, start: Name | None, stop: Name | None) -> catalog_pb2.ListRegionsRequest:
    """Returns the request for the regions that overlap a range. Raises InvalidArgumentError and TypeError."""
    check_table_name(table)
    return catalog_pb2.ListRegionsRequest(
        table=table, start=encoded_bound("start", start), stop=encoded_bound("stop", stop)
    )


def split_request(table: str, row: Name | None, region: Region | int | None) -> catalog_pb2.SplitRegionRequest:
    """Returns the request that splits a region. Raises InvalidArgumentError and TypeError."""
    check_table_name(table)
    return catalog_pb2.SplitRegionRequest(
        table=table,
        region_id=0 if region is None else _region_id(table, region),
        split_row=b"" if row is None else encoded_row(row),
    )


def merge_request(
    table: str, row: Name | None, regions: Iterable[Region | int] | None
) -> catalog_pb2.MergeRegionsRequest:
    """Returns the request that merges two regions. Raises InvalidArgumentError and TypeError."""
    check_table_name(table)
    if (row is None) == (regions is None):
        raise InvalidArgumentError(
            "a merge takes the first row of the second region, or regions=(left, right): one of the two"
        )
    ids = [_region_id(table, region) for region in listed("regions", "regions or their ids", regions or ())]
    if regions is not None and len(ids) != 2:
        raise InvalidArgumentError(f"regions must be two neighbours, not {len(ids)} regions")
    return catalog_pb2.MergeRegionsRequest(table=table, region_ids=ids, row=b"" if row is None else encoded_row(row))


def _region_id(table: str, region: Region | int) -> int:
    if isinstance(region, Region):
        if region.table != table:
            raise InvalidArgumentError(f"region {region.region_id} is of table {region.table!r}, not {table!r}")
        return region.region_id
    check_int("a region's id", region)
    if not 1 <= region < 1 << 63:
        raise InvalidArgumentError(f"{region} is not the id of a region; `regions` returns them")
    return region
