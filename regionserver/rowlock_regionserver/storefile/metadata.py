"""The metadata value: the properties of all cells, the Bloom filter, the block indexes and row groups, as one payload.

    4 bytes   length of the summary
    summary   JSON: StoreFileInfo without the fields for places in the file, and the number of Bloom words
    zeros     up to a multiple of 8
    words     Bloom filter, 8 bytes each
    offset, payload bytes, cell count, checksum of each block: four arrays of 8-byte numbers
    ends of the first rows, ends of the last rows: two arrays of 8-byte numbers
    the first rows, one after the other; the last rows

In format version 2 then, for the wide blocks:

    zeros     up to a multiple of 8
    offset, payload bytes, cell count, checksum, directory bytes, key bytes, raw bytes, line count, least and greatest
        write number, least and greatest timestamp, 1 or 0 for versions: thirteen arrays; then ends and rows as above

in format version 3 the same once more, for the blocks of older lines,

and if the summary has a `row_group_count`:

    zeros     up to a multiple of 8
    ends of the first rows of the row groups: 8-byte numbers
    digests: 32 bytes each
    the first rows, one after the other
    zeros     up to a multiple of 8
    ends of the `row_group_column_count` columns' qualifiers: 8-byte numbers
    the qualifiers, one after the other
    for each group, a bit a column, in whole bytes: 1 if each row of the group has a cell of it

All numbers are little-endian. The payload is sealed (format.py), so its checksum was verified before it is parsed here.
Parsing errors still raise CorruptionError.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from itertools import pairwise
from pathlib import Path
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from rowlock_regionserver.errors import CorruptionError
from rowlock_regionserver.row_groups import DIGEST_BYTES, NO_ROW_GROUPS, RowGroups
from rowlock_regionserver.storefile.bloom import Words
from rowlock_regionserver.storefile.extents import Extent
from rowlock_regionserver.storefile.index import BlockIndex
from rowlock_regionserver.storefile.info import Json
from rowlock_regionserver.storefile.wide_index import OlderIndex, WideIndex

_LENGTH = struct.Struct("<I")

_Index = TypeVar("_Index", bound=BlockIndex)


@dataclass(frozen=True, slots=True)
class Metadata:
    """The decoded metadata of a store file."""

    summary: Json
    bloom_words: Words  # empty: no filter
    index: BlockIndex
    wide_index: WideIndex = field(default_factory=WideIndex.empty)
    older_index: OlderIndex = field(default_factory=OlderIndex.empty)
    row_groups: RowGroups = NO_ROW_GROUPS  # of the wide blocks; none in files of earlier versions

    @property
    def bytes_held(self) -> int:
        """The memory of the filter and the indexes."""
        indexes = sum([index.bytes_held for index in self.indexes])
        return self.bloom_words.nbytes + indexes + self.row_groups.bytes_held

    def extents(self) -> list[Extent]:
        """Returns the extents of all blocks."""
        return [extent for index in self.indexes for extent in index.extents()]

    @property
    def indexes(self) -> tuple[BlockIndex, WideIndex, OlderIndex]:
        """The indexes of all runs."""
        return self.index, self.wide_index, self.older_index


def encode(metadata: Metadata) -> bytes:
    """Returns the payload."""
    counts = {"bloom_word_count": len(metadata.bloom_words)}
    if metadata.row_groups:
        counts["row_group_count"] = len(metadata.row_groups)
        counts["row_group_column_count"] = len(_columns(metadata.row_groups))
    summary = json.dumps({**metadata.summary, **counts}).encode()
    head = _LENGTH.pack(len(summary)) + summary
    payload = head.ljust(_aligned(len(head)), b"\0") + metadata.bloom_words.astype("<u8").tobytes()
    payload += _encoded_index(metadata.index)
    for index in (metadata.wide_index, metadata.older_index):
        if len(index):
            payload = payload.ljust(_aligned(len(payload)), b"\0") + _encoded_index(index)
    if metadata.row_groups:
        payload = payload.ljust(_aligned(len(payload)), b"\0") + _encoded_groups(metadata.row_groups)
    return payload


def _encoded_groups(groups: RowGroups) -> bytes:
    columns = _columns(groups)
    stops, column_stops = (
        np.cumsum([len(name) for name in names]).astype("<u8").tobytes() for names in (groups.first_rows, columns)
    )
    rows = b"".join([stops, *groups.digests, *groups.first_rows])
    is_complete = np.array([[name in complete for name in columns] for complete in groups.complete_columns], np.bool_)
    bits = np.packbits(is_complete, axis=1, bitorder="little").tobytes()
    return rows.ljust(_aligned(len(rows)), b"\0") + b"".join([column_stops, *columns, bits])


def _columns(groups: RowGroups) -> list[bytes]:
    """Returns the columns that some group has in each of its rows, ascending."""
    return sorted(frozenset().union(*groups.complete_columns))


def _encoded_index(index: BlockIndex) -> bytes:
    first_stops, last_stops = ([len(row) for row in rows] for rows in (index.first_rows, index.last_rows))
    columns = [*(getattr(index, name) for name in _numbers(type(index))), np.cumsum(first_stops), np.cumsum(last_stops)]
    return b"".join(
        [*[np.array(column, dtype="<u8").tobytes() for column in columns], *index.first_rows, *index.last_rows]
    )


def _numbers(kind: type[BlockIndex]) -> list[str]:
    """Returns the names of an index's lists of numbers, in their order."""
    return [each.name for each in fields(kind) if each.name not in ("first_rows", "last_rows")]


def decode(payload: bytes, path: Path, offset: int) -> Metadata:
    """Returns the metadata of a payload of encode(). `path` and `offset` say where it was read.

    Raises CorruptionError when it can't be parsed.
    """
    try:
        return _decode(payload)
    except (ValueError, KeyError, TypeError, struct.error) as error:
        raise CorruptionError(path, offset, "metadata of a store file", f"{error}") from error


def _decode(payload: bytes) -> Metadata:
    (summary_bytes,) = _LENGTH.unpack_from(payload)
    place = _aligned(_LENGTH.size + summary_bytes)
    summary = json.loads(payload[_LENGTH.size : _LENGTH.size + summary_bytes])
    block_count, word_count = int(summary["block_count"]), int(summary.pop("bloom_word_count"))
    words = np.frombuffer(payload, "<u8", word_count, place).astype(np.uint64)
    index, place = _decoded_index(BlockIndex, payload, place + 8 * word_count, block_count)
    wide_index, place = _decoded_index(WideIndex, payload, _aligned(place), int(summary.get("wide_block_count", 0)))
    older_index, place = _decoded_index(OlderIndex, payload, _aligned(place), int(summary.get("older_block_count", 0)))
    if len(older_index) and not (
        len(wide_index)
        and wide_index.first_rows[0] <= older_index.first_rows[0]
        and wide_index.last_rows[-1] >= older_index.last_rows[-1]
    ):
        raise ValueError("older lines of rows without a newest one")
    group_counts = int(summary.pop("row_group_count", 0)), int(summary.pop("row_group_column_count", 0))
    groups = _decoded_groups(payload, _aligned(place), *group_counts, wide_index)
    return Metadata(summary, words, index, wide_index, older_index, groups)


def _decoded_groups(payload: bytes, place: int, group_count: int, column_count: int, index: WideIndex) -> RowGroups:
    """Returns the groups of the rows of the wide blocks."""
    if not group_count:
        return NO_ROW_GROUPS
    stops = np.frombuffer(payload, "<u8", group_count, place)
    place += stops.nbytes
    rows_start = place + DIGEST_BYTES * group_count
    digests = [payload[start : start + DIGEST_BYTES] for start in range(place, rows_start, DIGEST_BYTES)]
    first_rows, place = _rows(payload, rows_start, stops)
    if not len(index) or first_rows[0] != index.first_rows[0] or first_rows[-1] > index.last_rows[-1]:
        raise ValueError(f"row groups from {first_rows[0]!r} to {first_rows[-1]!r}")
    if any(before >= after for before, after in pairwise(first_rows)):
        raise ValueError("row groups out of order")
    place = _aligned(place)
    column_stops = np.frombuffer(payload, "<u8", column_count, place) if column_count else np.zeros(0, np.uint64)
    columns, place = _rows(payload, place + column_stops.nbytes, column_stops)
    complete = _decoded_sets(payload, place, group_count, columns)
    return RowGroups(first_rows, digests, complete, index.last_rows[-1], len(index), max(index.timestamps_max))


def _decoded_sets(payload: bytes, place: int, count: int, columns: Sequence[bytes]) -> list[frozenset[bytes]]:
    """Returns `count` sets of the columns from their bits; equal ones are one object."""
    width = (len(columns) + 7) // 8
    distinct: dict[bytes, frozenset[bytes]] = {}
    sets = []
    for start in range(place, place + width * count, width) if width else [place] * count:
        bits = payload[start : start + width]
        if len(bits) < width:
            raise ValueError(f"bits of {len(columns)} columns end at {len(payload)} bytes")
        if bits not in distinct:
            number = int.from_bytes(bits, "little")
            distinct[bits] = frozenset([name for bit, name in enumerate(columns) if number >> bit & 1])
        sets.append(distinct[bits])
    return sets


def _decoded_index(kind: type[_Index], payload: bytes, place: int, block_count: int) -> tuple[_Index, int]:
    """Returns the index at `place`, and where it ends."""
    names = _numbers(kind)
    if not block_count:  # numpy refuses an empty array at the very end of a buffer.
        return kind.empty(), place
    arrays = []
    for _ in range(len(names) + 2):
        arrays.append(np.frombuffer(payload, "<u8", block_count, place))
        place += 8 * block_count
    *numbers, first_stops, last_stops = arrays
    first_rows, place = _rows(payload, place, first_stops)
    last_rows, place = _rows(payload, place, last_stops)
    columns = {name: array.tolist() for name, array in zip(names, numbers, strict=True)}
    index = kind(**columns, first_rows=first_rows, last_rows=last_rows)
    if problem := index.problem():
        raise ValueError(problem)
    return index, place


def _rows(payload: bytes, place: int, stops: npt.NDArray[np.uint64]) -> tuple[list[bytes], int]:
    ends: Sequence[int] = [place, *(place + stop for stop in stops.tolist())]
    if ends[-1] > len(payload):
        raise ValueError(f"rows end at {ends[-1]} of {len(payload)} bytes")
    return [payload[start:stop] for start, stop in pairwise(ends)], ends[-1]


def _aligned(length: int) -> int:
    return -(-length // 8) * 8
