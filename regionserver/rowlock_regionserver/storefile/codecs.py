"""Compresses and decompresses the chunks of wide blocks.

Each chunk says how it is compressed, so the chunks of a family may differ:

- A chunk that would hardly shrink is stored as it is.
- Values of one length may be transposed: first the first bytes of all values, then the second ones, and so on. This
  brings the equal bytes of numbers together, so that LZ4 makes them about as small as Zstandard does, in a third of
  its time.
- In a family with Zstandard, LZ4 is used where it is nearly as good, because it takes a third of the time.

Zstandard needs some 100 KiB of working memory, which each thread keeps: to make it for each chunk took 8 µs, as long as
to decompress 16 KiB.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import google_crc32c
import numpy as np
import pyarrow as pa
import zstandard

from rowlock_regionserver.cells import Compression

# Decompressing a chunk costs more time than reading a tenth of its bytes.
SHRUNK_MAX = 0.9
# The share of a chunk that Zstandard has to save beyond LZ4.
_SAVED_MIN = 1 / 16

_SHRINKING = (Compression.LZ4, Compression.ZSTD)
# Beside the compression: the values are transposed.
TRANSPOSED = 0x10
# Longer values are seldom numbers.
_TRANSPOSED_BYTES_MAX = 32
# At or above this many bytes numpy transposes back faster than it places byte after byte of all values.
_LONG_VALUE_BYTES = 8

_LZ4 = pa.Codec("lz4")
# Level 3 takes twice the time, and saves less than 5 %.
_LEVEL = 1


class _Zstandard(threading.local):
    """The working memory of one thread."""

    def __init__(self) -> None:
        self.compressor = zstandard.ZstdCompressor(level=_LEVEL)
        self.decompressor = zstandard.ZstdDecompressor()


_ZSTANDARD = _Zstandard()


def compressed(raw: bytes, compression: Compression, value_bytes: int) -> tuple[bytes, int]:
    """Returns the chunk as it is stored, and how it is compressed, in a family of this compression.

    `value_bytes` is the length of its values; 0 if they have different ones.
    """
    if compression is Compression.NONE:
        return raw, Compression.NONE
    stored, how = _best(raw, compression, value_bytes)
    return (stored, how) if len(stored) <= SHRUNK_MAX * len(raw) else (raw, Compression.NONE)


def _best(raw: bytes, compression: Compression, value_bytes: int) -> tuple[bytes, int]:
    saved_min = len(raw) * _SAVED_MIN
    stored: bytes = _LZ4.compress(raw, asbytes=True)
    how: int = Compression.LZ4
    if len(stored) > saved_min and 1 < value_bytes <= _TRANSPOSED_BYTES_MAX:
        transposed: bytes = _LZ4.compress(_transposed(raw, value_bytes), asbytes=True)
        if len(transposed) < len(stored):
            stored, how = transposed, Compression.LZ4 | TRANSPOSED
    if len(stored) > saved_min and compression is Compression.ZSTD:
        smaller = _ZSTANDARD.compressor.compress(raw)
        if len(smaller) < len(stored) - saved_min:
            stored, how = smaller, compression
    return stored, how


def decompressed(stored: pa.Buffer, how: int, raw_bytes: int, value_bytes: int) -> bytes:
    """Returns the chunk, of which `stored` was verified. Raises ValueError when it is not `raw_bytes` long."""
    try:
        raw = _zstd_decompressed(stored, raw_bytes) if how & Compression.ZSTD else _lz4_decompressed(stored, raw_bytes)
    except MemoryError:  # Arrow's, too, which is no damage.
        raise
    except (pa.ArrowException, OSError, zstandard.ZstdError) as error:
        raise ValueError(f"{error}") from error
    if len(raw) != raw_bytes:
        raise ValueError(f"{len(raw)} bytes")
    return _transposed_back(raw, value_bytes) if how & TRANSPOSED else raw


def _lz4_decompressed(stored: pa.Buffer, raw_bytes: int) -> bytes:
    # Any: pyarrow's stubs don't say which buffers it takes.
    raw: Any = _LZ4.decompress(stored, raw_bytes, asbytes=True)
    assert isinstance(raw, bytes)
    return raw


def _zstd_decompressed(stored: pa.Buffer, raw_bytes: int) -> bytes:
    # Otherwise a damaged frame could ask for any memory.
    frame = memoryview(stored)
    found = zstandard.frame_content_size(frame)
    if found != raw_bytes:
        raise ValueError(f"{found} bytes")
    return _ZSTANDARD.decompressor.decompress(frame)


def known_compressions(value_bytes: int) -> frozenset[int]:
    """Returns how a chunk with values of this length may be compressed."""
    transposed = [how | TRANSPOSED for how in _SHRINKING] if value_bytes > 1 else []
    return frozenset([Compression.NONE, *_SHRINKING, *transposed])


def _transposed(raw: bytes, row_bytes: int) -> bytes:
    """Returns the bytes of a matrix, of rows of `row_bytes`, column by column. Some 2 GB/s."""
    return np.frombuffer(raw, np.uint8).reshape(-1, row_bytes).T.tobytes()


def _transposed_back(raw: bytes, value_bytes: int) -> bytes:
    """Returns the values of a matrix that `_transposed` returned. 1 to 3 GB/s."""
    count = len(raw) // value_bytes
    if value_bytes >= _LONG_VALUE_BYTES:
        return _transposed(raw, count)
    # numpy would copy the few bytes of each value in a loop of its own.
    values, of_places = bytearray(len(raw)), memoryview(raw)
    for place in range(value_bytes):
        values[place::value_bytes] = of_places[place * count : (place + 1) * count]
    return bytes(values)


# The CRC32C of a stored chunk.
checksum: Callable[[bytes | pa.Buffer], int] = google_crc32c.value
