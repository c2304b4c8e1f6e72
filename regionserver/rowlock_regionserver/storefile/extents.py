"""Extents: the places of sealed values in a store file, and reading them without LMDB.

Everything is read by pread into private memory. A memory mapping would save one copy, but a truncated file or a lost
sector would kill the process, and bytes may change after they were verified.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from operator import attrgetter
from pathlib import Path

import google_crc32c
import pyarrow as pa

from rowlock_regionserver.errors import CorruptionError
from rowlock_regionserver.files import Files
from rowlock_regionserver.storefile.format import HEADER_BYTES, Header, check_payload, check_start, unpack_header

# The bytes between extents are read in pieces of this size.
_PIECE_BYTES_MAX = 1 << 20
_NBYTES = attrgetter("nbytes")


@dataclass(frozen=True, slots=True)
class Extent:
    """A sealed value at `offset`, which must begin with exactly this header."""

    offset: int
    header: Header

    @property
    def stop(self) -> int:
        return self.offset + HEADER_BYTES + self.header.payload_bytes


def read_exactly(files: Files, descriptor: int, path: Path, byte_count: int, offset: int) -> pa.Buffer:
    """Reads `byte_count` bytes of the file. Raises CorruptionError when it is shorter or the disk can't read them."""
    # Arrow's pool reuses freed memory. Mapping fresh memory costs more than reading the bytes.
    buffer = pa.allocate_buffer(byte_count)
    read_into(files, descriptor, path, [memoryview(buffer)], offset)
    return buffer


def read_into(files: Files, descriptor: int, path: Path, pieces: list[memoryview], offset: int) -> int:
    """Fills the pieces, none empty, with the bytes at `offset`, by one read unless the system splits it.

    Returns how many bytes these are. Raises CorruptionError if they can't be read, and MemoryError.
    """
    unfilled = pieces
    byte_count: int = sum(map(_NBYTES, pieces))
    place = 0
    try:
        while place < byte_count:
            count = files.pread_into(descriptor, unfilled, offset + place)
            if count == 0:
                raise CorruptionError(path, offset, f"{byte_count} bytes", f"the file's end after {place}")
            place += count
            if place < byte_count:
                unfilled = _without_first(unfilled, count)
    except OSError as error:
        if error.errno == errno.ENOMEM:
            raise MemoryError(f"{error.strerror}: {path}") from error
        raise CorruptionError(
            path,
            offset + place,
            f"{byte_count - place} readable bytes",
            f"{error}",
            what_is_wrong=f"can't be read at byte {offset + place}: {error.strerror or error}",
        ) from error
    return byte_count


def _without_first(pieces: list[memoryview], byte_count: int) -> list[memoryview]:
    """Returns the pieces without their first `byte_count` bytes."""
    for index, piece in enumerate(pieces):
        if byte_count < piece.nbytes:
            return [piece[byte_count:], *pieces[index + 1 :]]
        byte_count -= piece.nbytes
    return []


def read_payload(files: Files, descriptor: int, path: Path, extent: Extent) -> pa.Buffer:
    """Reads and verifies the value's payload.

    Raises CorruptionError when header or payload is not as written, and DataFolderError when a newer rowlock wrote it.
    """
    return read_payloads(files, descriptor, path, [extent])[0]


def read_payload_at_once(files: Files, descriptor: int, path: Path, extent: Extent) -> pa.Buffer | None:
    """Reads and verifies the payload if it is all in the page cache; returns None if the read would block on a disk."""
    buffer = pa.allocate_buffer(extent.stop - extent.offset)
    if files.pread_into_at_once(descriptor, memoryview(buffer), extent.offset) != buffer.size:
        return None
    return _verified_payload(buffer, path, extent)


def read_payloads(files: Files, descriptor: int, path: Path, extents: Sequence[Extent]) -> list[pa.Buffer]:
    """Reads the payloads of ascending, closely spaced values by one read, and verifies each."""
    gaps = [extent.offset - before.stop for before, extent in pairwise(extents)]
    discarded = memoryview(bytearray(max(gaps, default=0)))
    # Each has memory of its own, so that a reference to one does not keep the others alive.
    buffers = [pa.allocate_buffer(extent.stop - extent.offset) for extent in extents]
    pieces = [memoryview(buffers[0])]
    for gap, buffer in zip(gaps, buffers[1:], strict=True):
        if gap:
            pieces.append(discarded[:gap])
        pieces.append(memoryview(buffer))
    read_into(files, descriptor, path, pieces, extents[0].offset)
    return [_verified_payload(buffer, path, extent) for buffer, extent in zip(buffers, extents, strict=True)]


def read_start(files: Files, descriptor: int, path: Path, extent: Extent, byte_count: int) -> pa.Buffer:
    """Reads the first `byte_count` bytes of the payload, and verifies what the header's checksum covers of them."""
    value = read_exactly(files, descriptor, path, HEADER_BYTES + byte_count, extent.offset)
    _check_header(value, path, extent)
    start = value.slice(HEADER_BYTES)
    check_start(start, extent.header, path, extent.offset)
    return start


def _verified_payload(value: pa.Buffer, path: Path, extent: Extent) -> pa.Buffer:
    _check_header(value, path, extent)
    payload = value.slice(HEADER_BYTES)
    check_payload(payload, extent.header, path, extent.offset)
    return payload


def _check_header(value: pa.Buffer, path: Path, extent: Extent) -> None:
    header = value.slice(0, HEADER_BYTES).to_pybytes()
    if header != extent.header.pack():
        # Raises a more precise error if the header itself is damaged or has another format version.
        unpack_header(header, path, extent.offset)
        raise CorruptionError(path, extent.offset, f"the header of {extent.header}", f"the bytes {header.hex()}")


def container_checksum(files: Files, descriptor: int, path: Path, extents: Sequence[Extent], file_bytes: int) -> int:
    """Returns the CRC32C of LMDB's own bytes: all that no extent covers, in file order."""
    checksum: int = google_crc32c.value(b"")
    for offset, byte_count in _pieces_between(extents, file_bytes):
        checksum = google_crc32c.extend(checksum, read_exactly(files, descriptor, path, byte_count, offset))
    return checksum


def _pieces_between(extents: Sequence[Extent], file_bytes: int) -> Iterator[tuple[int, int]]:
    place = 0
    for extent in sorted(extents, key=lambda extent: extent.offset):
        yield from _pieces(place, extent.offset)
        place = extent.stop
    yield from _pieces(place, file_bytes)


def _pieces(start: int, stop: int) -> Iterator[tuple[int, int]]:
    for piece in range(start, stop, _PIECE_BYTES_MAX):
        yield piece, min(_PIECE_BYTES_MAX, stop - piece)
