"""The metadata value: the properties of all cells, the Bloom filter and the block index, as one payload.

    4 bytes   length of the summary
    summary   JSON: StoreFileInfo without the fields for places in the file, and the number of Bloom words
    zeros     up to a multiple of 8
    words     Bloom filter, 8 bytes each
    offset, payload bytes, cell count, checksum of each block: four arrays of 8-byte numbers
    ends of the first rows, ends of the last rows: two arrays of 8-byte numbers
    the first rows, one after the other; the last rows

All numbers are little-endian. The payload is sealed (format.py), so its checksum was verified before it is parsed here.
Parsing errors still raise CorruptionError.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
import numpy.typing as npt

from rowlock_regionserver.errors import CorruptionError
from rowlock_regionserver.storefile.bloom import Words
from rowlock_regionserver.storefile.index import BlockIndex
from rowlock_regionserver.storefile.info import Json

_LENGTH = struct.Struct("<I")
_ARRAYS_PER_BLOCK = 6


@dataclass(frozen=True, slots=True)
class Metadata:
    """The decoded metadata of a store file."""

    summary: Json
    bloom_words: Words  # empty: no filter
    index: BlockIndex

    @property
    def bytes_held(self) -> int:
        """The memory of the filter and the index."""
        return self.bloom_words.nbytes + self.index.bytes_held


def encode(metadata: Metadata) -> bytes:
    """Returns the payload."""
    summary = json.dumps({**metadata.summary, "bloom_word_count": len(metadata.bloom_words)}).encode()
    index = metadata.index
    head = _LENGTH.pack(len(summary)) + summary
    return b"".join(
        [
            head.ljust(_aligned(len(head)), b"\0"),
            metadata.bloom_words.astype("<u8").tobytes(),
            *(
                np.array(column, dtype="<u8").tobytes()
                for column in (
                    index.offsets,
                    index.payload_bytes,
                    index.cell_counts,
                    index.checksums,
                    np.cumsum([len(row) for row in index.first_rows]),
                    np.cumsum([len(row) for row in index.last_rows]),
                )
            ),
            *index.first_rows,
            *index.last_rows,
        ]
    )


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
    place += 8 * word_count
    arrays = []
    for _ in range(_ARRAYS_PER_BLOCK):
        # numpy refuses an empty array at the very end of a buffer.
        arrays.append(np.frombuffer(payload, "<u8", block_count, place) if block_count else np.empty(0, "<u8"))
        place += 8 * block_count
    offsets, payload_bytes, cell_counts, checksums, first_stops, last_stops = arrays
    first_rows, place = _rows(payload, place, first_stops)
    last_rows, _ = _rows(payload, place, last_stops)
    index = BlockIndex(
        offsets.tolist(), payload_bytes.tolist(), cell_counts.tolist(), checksums.tolist(), first_rows, last_rows
    )
    if problem := index.problem():
        raise ValueError(problem)
    return Metadata(summary, words, index)


def _rows(payload: bytes, place: int, stops: npt.NDArray[np.uint64]) -> tuple[list[bytes], int]:
    ends: Sequence[int] = [place, *(place + stop for stop in stops.tolist())]
    if ends[-1] > len(payload):
        raise ValueError(f"rows end at {ends[-1]} of {len(payload)} bytes")
    return [payload[start:stop] for start, stop in pairwise(ends)], ends[-1]


def _aligned(length: int) -> int:
    return -(-length // 8) * 8
