"""Compresses and decompresses the chunks of wide blocks.

A chunk's entry says how it is compressed, so a family's chunks may differ: one that would hardly shrink is stored as
it is, and one that LZ4 makes very small stays so, because each call of Zstandard takes some 10 µs.
"""

from __future__ import annotations

from typing import Any

import google_crc32c
import pyarrow as pa

from rowlock_regionserver.cells import Compression

# Decompression takes more time than a tenth of the bytes saves.
SHRUNK_MAX = 0.9
_VERY_SMALL = 0.05

# At level 1 the blocks are within 5 % of level 3, in half the time.
_CODECS: dict[int, pa.Codec] = {
    Compression.LZ4: pa.Codec("lz4"),
    Compression.ZSTD: pa.Codec("zstd", compression_level=1),
}


def compressed(raw: bytes, compression: Compression) -> tuple[bytes, Compression]:
    """Returns the chunk as it is stored, and how it is compressed, in a family of this compression."""
    if compression is Compression.NONE or not raw:
        return raw, Compression.NONE
    stored: bytes = _CODECS[Compression.LZ4].compress(raw, asbytes=True)
    if compression is Compression.ZSTD and len(stored) > _VERY_SMALL * len(raw):
        stored = _CODECS[compression].compress(raw, asbytes=True)
    else:
        compression = Compression.LZ4
    if len(stored) > SHRUNK_MAX * len(raw):
        return raw, Compression.NONE
    return stored, compression


def decompressed(stored: pa.Buffer | memoryview, compression: int, raw_bytes: int) -> bytes:
    """Returns the chunk, of which `stored` was verified. Raises ValueError when it is not `raw_bytes` long."""
    try:
        # Any: pyarrow's stubs don't say that it takes any buffer.
        raw: Any = _CODECS[compression].decompress(stored, raw_bytes, asbytes=True)
    except (pa.ArrowException, OSError) as error:
        raise ValueError(f"{error}") from error
    if len(raw) != raw_bytes:
        raise ValueError(f"{len(raw)} bytes")
    assert isinstance(raw, bytes)
    return raw


def checksum(stored: bytes | pa.Buffer) -> int:
    """Returns the CRC32C of a stored chunk."""
    value: int = google_crc32c.value(stored)
    return value
