"""Rows of values without timestamps: how a server answers a get, and how a put is sent.

The layout is that of RowValues in region.proto. Nothing in an answer is trusted: a message that contradicts itself
raises ServerError.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from functools import lru_cache

from google.protobuf.message import DecodeError
from rowlock_proto.v1 import region_pb2

from rowlock._codec.columns import Name, Text, Value, encoded_value, parse_cell_key
from rowlock.errors import ServerError

# Lists of columns and of lengths are kept, so that rows of the same columns share the work: this many lists, each of at
# most this many bytes or names. Servers send no longer ones.
_LISTS_KEPT = 256
_LIST_BYTES_MAX = 10 * 1024
_LIST_NAMES_MAX = 64


def values_dict(message: region_pb2.RowValues, decode: Callable[[bytes], Text]) -> dict[Text, Text]:
    """Returns {column: value}. Raises ServerError unless the message is valid."""
    columns, lengths, data = message.columns, message.lengths, message.data
    names = (_kept_names if len(columns) <= _LIST_BYTES_MAX else _names_of)(columns, decode)
    if len(lengths) != 4 * len(names):
        raise _damaged(f"{len(names)} columns, and {len(lengths)} bytes of lengths")
    record = (_kept_record if len(names) <= _LIST_NAMES_MAX else _record_of)(lengths)
    if len(data) != record.size:
        raise _damaged(f"{len(data)} bytes, and values that end at {record.size}")
    values = record.unpack(data)
    # To decode to bytes is to do nothing, and takes time.
    return dict(zip(names, values if decode is bytes else map(decode, values)))  # noqa: B905  # as many


def _names_of(columns: bytes, decode: Callable[[bytes], Text]) -> tuple[Text, ...]:
    """Returns the names in a serialized ColumnSet, decoded."""
    try:
        return tuple(map(decode, region_pb2.ColumnSet.FromString(columns).columns))
    except DecodeError:
        raise _damaged("its list of columns can't be read") from None


_kept_names = lru_cache(maxsize=_LISTS_KEPT)(_names_of)


def _record_of(lengths: bytes) -> struct.Struct:
    """Returns what splits the values of a row. It splits ten values in a third of the time that slices take."""
    return struct.Struct("%ds" * (len(lengths) // 4) % struct.unpack(f"<{len(lengths) // 4}I", lengths))


_kept_record = lru_cache(maxsize=_LISTS_KEPT)(_record_of)


def fill_values(message: region_pb2.RowValues, data: Mapping[Text, Value]) -> None:
    """Fills in {column: value}. Raises InvalidArgumentError and TypeError for malformed columns and values."""
    # At once, because the caller may change the mapping meanwhile, in another thread.
    names, given = zip(*data.items(), strict=True)
    message.columns = (_kept_list if _are_short(names) else _list_of)(names)
    values = [value if type(value) is bytes else encoded_value(value) for value in given]
    message.lengths = struct.pack(f"<{len(values)}I", *map(len, values))
    message.data = b"".join(values)


def _are_short(names: tuple[Name, ...]) -> bool:
    try:
        return len(names) <= _LIST_NAMES_MAX and sum(map(len, names)) <= _LIST_BYTES_MAX
    except TypeError:  # `_list_of` says which of them is not a name.
        return False


def _list_of(names: tuple[Name, ...]) -> bytes:
    """Returns these columns as a serialized ColumnSet."""
    return region_pb2.ColumnSet(columns=[b":".join(parse_cell_key(name)) for name in names]).SerializeToString()


_kept_list = lru_cache(maxsize=_LISTS_KEPT)(_list_of)


def _damaged(problem: str) -> ServerError:
    return ServerError(f"the values of a row are damaged: {problem}")
