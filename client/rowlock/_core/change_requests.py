"""The offsets of change feeds, and the request for the current one. Without Arrow, which takes long to import."""

from __future__ import annotations

from collections.abc import Mapping

from rowlock_proto.v1 import region_pb2

from rowlock._core.catalog import check_table_name
from rowlock.errors import InvalidArgumentError


def newest_request(table: str) -> region_pb2.ReadChangesRequest:
    """Returns the request for the current offset. Raises InvalidArgumentError and TypeError."""
    check_table_name(table)
    return region_pb2.ReadChangesRequest(table=table, start=region_pb2.ReadChangesRequest.START_NEWEST)


def offset_of(answer: region_pb2.ReadChangesResponse) -> dict[int, int]:
    """Returns the offset in an answer."""
    return {entry.region_id: entry.write_number for entry in answer.offset}


def checked_offset(since: Mapping[int, int] | Mapping[str, int]) -> dict[int, int]:
    """Returns an offset with integers as keys, in JSON they are strings. Raises InvalidArgumentError and TypeError."""
    if not isinstance(since, Mapping):
        raise TypeError(f"since must be an offset, a dict of write numbers by region, not {type(since).__name__}")
    if not since:
        raise InvalidArgumentError("since is an empty offset; use None for the oldest change, or db.changes_offset")
    offset: dict[int, int] = {}
    for key, number in since.items():
        region_id = int(key) if isinstance(key, str) and key.isascii() and key.isdecimal() else key
        for each in (region_id, number):
            if isinstance(each, bool) or not isinstance(each, int):
                raise TypeError(f"since must have write numbers by region, all of them int, not {key!r}: {number!r}")
            if not 0 <= each < 1 << 63:
                raise InvalidArgumentError(f"since has {key!r}: {number!r}, which is not from 0 to 2^63 - 1")
        offset[int(region_id)] = number
    return offset
