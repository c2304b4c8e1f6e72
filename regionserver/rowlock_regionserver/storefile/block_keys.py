"""The keys of a wide block, which scans that read values in place keep in the block cache."""

from __future__ import annotations

import pyarrow as pa

from rowlock_regionserver.arrow.stored_lines import CompressedChunk, LineNumbers
from rowlock_regionserver.sources import EVERY_LINE
from rowlock_regionserver.storefile.wide_chunks import WideChunks
from rowlock_regionserver.storefile.wide_directory import Directory
from rowlock_regionserver.storefile.wide_lines import timestamps_of

# Memory beside the directory and the chunks.
_OVERHEAD_BYTES = 1000


class BlockKeys:
    """A block's directory, rows, timestamps and write numbers. Safe to use from many threads.

    Two threads may decompress a chunk, or make the timestamps, at once, which is harmless.
    """

    __slots__ = ("_chunks", "_raw", "_timestamps", "bytes_held", "directory")

    def __init__(self, chunks: WideChunks, byte_count: int) -> None:
        """`chunks` has the directory and the chunks of the keys, which were read together in this many bytes."""
        self.directory: Directory = chunks.directory
        self._chunks = chunks
        directory = self.directory
        raw_bytes = sum([directory.raw_bytes[number] for number in directory.form.key_chunks])
        # About the memory, with all chunks decompressed.
        self.bytes_held = _OVERHEAD_BYTES + directory.bytes_held + byte_count + raw_bytes
        # Those that were decompressed.
        self._raw: dict[int, pa.Buffer] = {}
        self._timestamps: LineNumbers | None = None

    def has(self, number: int) -> bool:
        """Whether this is a chunk of keys."""
        return self._chunks.has(number)

    def stored(self, number: int) -> CompressedChunk:
        """Returns a chunk as it is stored, verified."""
        return self._chunks.stored(number)

    @property
    def timestamps(self) -> LineNumbers | None:
        """The timestamps of the lines, if each line has one for all its cells and lines differ."""
        if self._timestamps is None and self.directory.form.timestamps is not None:
            self._timestamps = timestamps_of(self.directory, self.raw, EVERY_LINE)
        return self._timestamps

    def raw(self, number: int) -> pa.Buffer:
        """Returns a chunk, verified, decompressed and checked."""
        raw = self._raw.get(number)
        if raw is None:
            raw = self._raw[number] = self._chunks.raw(number)
        return raw
