"""The chunks of one wide block: verifies and decompresses each when it is first needed.

A chunk is used only after its checksum was compared, and its offsets only after they were found to stay inside it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import sub
from pathlib import Path

import numpy as np
import pyarrow as pa

from rowlock_regionserver.arrow.stored_lines import CompressedChunk
from rowlock_regionserver.errors import CorruptionError
from rowlock_regionserver.storefile import codecs, wide_directory
from rowlock_regionserver.storefile.extents import Extent
from rowlock_regionserver.storefile.format import HEADER_BYTES
from rowlock_regionserver.storefile.wide_directory import Directory
from rowlock_regionserver.storefile.wide_form import Kind


class WideChunks:
    """The chunks of a block as they are on the disk, all or some. Immutable; safe to use from many threads."""

    __slots__ = ("_offset", "_path", "_stored", "bytes_held", "directory")

    def __init__(self, directory: Directory, stored: Mapping[int, pa.Buffer], path: Path, offset: int) -> None:
        """`stored` has the chunks that were read, by their numbers; the block is at `offset` of the file."""
        self.directory = directory
        self._stored = stored
        self._path = path
        self._offset = offset
        self.bytes_held = sum([buffer.size for buffer in stored.values()])

    @classmethod
    def of_payload(cls, directory: Directory, payload: pa.Buffer, path: Path, offset: int) -> WideChunks:
        """Returns all chunks of a block."""
        starts = directory.starts
        # Without a step of its own for each chunk.
        stored = dict(enumerate(map(payload.slice, starts[:-1], map(sub, starts[1:], starts))))
        return cls(directory, stored, path, offset)

    @classmethod
    def of_extent(cls, extent: Extent, payload: pa.Buffer, path: Path) -> WideChunks:
        """Returns all chunks of a block, with its directory, from its verified payload; for those without an index."""
        raw = payload.slice(0, extent.header.checked_bytes).to_pybytes()
        directory = wide_directory.decode(raw, payload.size, None, path, extent.offset)
        return cls.of_payload(directory, payload, path, extent.offset)

    def without_any(self) -> WideChunks:
        """Returns the directory without chunks, for a block that has decompressed them all."""
        return WideChunks(self.directory, {}, self._path, self._offset)

    def has(self, number: int) -> bool:
        """Returns whether the chunk was read."""
        return number in self._stored

    def stored(self, number: int) -> CompressedChunk:
        """Returns a chunk of rows or values as it is stored, verified."""
        self.check(number)
        directory = self.directory
        return CompressedChunk(
            self._stored[number],
            directory.compressions[number],
            directory.raw_bytes[number],
            directory.form.chunks[number].width,
        )

    def raw(self, number: int) -> pa.Buffer:
        """Returns a chunk, verified, decompressed and checked. A plain one refers to what was read."""
        raw = self._checked(number)
        return pa.py_buffer(raw) if isinstance(raw, bytes) else raw

    def raws(self, numbers: Sequence[int]) -> list[pa.Buffer]:
        """Returns several chunks as `raw` does, in fewer steps if they are plain and have no offsets."""
        self.check_several(numbers)
        is_plain, stored = self.directory.is_plain, self._stored
        return [stored[number] if is_plain(number) else pa.py_buffer(self._decoded(number)) for number in numbers]

    def raw_bytes(self, number: int) -> bytes:
        """Returns a chunk as `raw` does, but as bytes, which refer to no other memory."""
        raw = self._checked(number)
        return raw if isinstance(raw, bytes) else raw.to_pybytes()

    def _checked(self, number: int) -> bytes | pa.Buffer:
        self.check(number)
        return self._decoded(number)

    def _decoded(self, number: int) -> bytes | pa.Buffer:
        directory, stored = self.directory, self._stored[number]
        raw: bytes | pa.Buffer = stored
        compression, raw_bytes = directory.compressions[number], directory.raw_bytes[number]
        form = directory.form.chunks[number]
        if compression:
            try:
                raw = codecs.decompressed(stored, compression, raw_bytes, form.value_bytes)
            except ValueError as error:
                raise self._corruption(number, f"a chunk of {raw_bytes} bytes", f"{error}") from error
        if not form.width and form.kind in (Kind.ROWS, Kind.VALUES):
            self._check_offsets(number, raw)
        return raw

    def check(self, number: int) -> None:
        """Raises CorruptionError unless the chunk has its checksum."""
        expected = self.directory.checksums[number]
        computed = codecs.checksum(self._stored[number])
        if computed != expected:
            raise self._corruption(number, f"chunk checksum {expected:#010x}", f"{computed:#010x}")

    def check_all(self) -> None:
        """Raises CorruptionError unless every chunk has its checksum."""
        self.check_several(list(self._stored))

    def check_several(self, numbers: Sequence[int]) -> None:
        """Raises CorruptionError unless each of these chunks, which ascend, has its checksum.

        Takes fewer steps than one by one.
        """
        if not self.directory.are_as_written(numbers, [self._stored[number] for number in numbers]):
            for number in numbers:
                self.check(number)

    def _check_offsets(self, number: int, raw: bytes | pa.Buffer) -> None:
        count = self.directory.line_count
        bounds = np.frombuffer(memoryview(raw), "<i4", count + 1)
        byte_count = memoryview(raw).nbytes - bounds.nbytes
        if bounds[0] != 0 or bounds[-1] != byte_count or (bounds[1:] < bounds[:-1]).any():
            raise self._corruption(number, f"offsets from 0 to {byte_count}", "others")

    def _corruption(self, number: int, expected: str, found: str) -> CorruptionError:
        return CorruptionError(self._path, self._offset + HEADER_BYTES + self.directory.starts[number], expected, found)
