"""Extents: where sealed values lie in a store file, and how they are read without LMDB.

Everything is read by pread into memory of our own. A mapping would save one copy, but a file cut or a sector lost
under it kills the process, and bytes verified once may be other bytes when they are read again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import google_crc32c
import pyarrow as pa

from rowlock_regionserver.errors import CorruptionError
from rowlock_regionserver.files import Files
from rowlock_regionserver.storefile.format import HEADER_BYTES, Header, check_payload, unpack_header

# What is between extents is read in pieces of this size.
_PIECE_BYTES_MAX = 1 << 20


@dataclass(frozen=True, slots=True)
class Extent:
    """A sealed value at `offset`, which must begin with exactly this header."""

    offset: int
    header: Header

    @property
    def stop(self) -> int:
        return self.offset + HEADER_BYTES + self.header.payload_bytes


def read_exactly(files: Files, descriptor: int, path: Path, byte_count: int, offset: int) -> pa.Buffer:
    """So many bytes of the file. CorruptionError when it ends before, or when the disk can't read them."""
    # Arrow's pool gives memory again that it gave before. Fresh memory costs more to map than the bytes to read.
    buffer = pa.allocate_buffer(byte_count)
    _read_into(files, descriptor, path, [memoryview(buffer)], offset)
    return buffer


def _read_into(files: Files, descriptor: int, path: Path, pieces: list[memoryview], offset: int) -> None:
    """Fills the pieces, none empty, with what lies there, by one read."""
    left = pieces
    byte_count = sum([piece.nbytes for piece in pieces])
    place = 0
    try:
        while place < byte_count:
            count = files.pread_into(descriptor, left, offset + place)
            if count == 0:
                raise CorruptionError(path, offset, f"{byte_count} bytes", f"the file's end after {place}")
            place += count
            if place < byte_count:
                left = _rest(left, count)
    except OSError as error:
        raise CorruptionError(path, offset + place, f"{byte_count - place} readable bytes", f"{error}") from error


def _rest(pieces: list[memoryview], byte_count: int) -> list[memoryview]:
    """What of the pieces is behind the first bytes."""
    for index, piece in enumerate(pieces):
        if byte_count < piece.nbytes:
            return [piece[byte_count:], *pieces[index + 1 :]]
        byte_count -= piece.nbytes
    return []


def read_payload(files: Files, descriptor: int, path: Path, extent: Extent) -> pa.Buffer:
    """The value's payload, verified. CorruptionError when header or payload is not what was written.

    DataFolderError when a newer rowlock wrote it.
    """
    return read_payloads(files, descriptor, path, [extent])[0]


def read_payload_at_once(files: Files, descriptor: int, path: Path, extent: Extent) -> pa.Buffer | None:
    """The same, if all of it is in the system's memory; None if a disk would have to be waited for."""
    buffer = pa.allocate_buffer(extent.stop - extent.offset)
    if files.pread_into_at_once(descriptor, memoryview(buffer), extent.offset) != buffer.size:
        return None
    return _verified_payload(buffer, path, extent)


def read_payloads(files: Files, descriptor: int, path: Path, extents: Sequence[Extent]) -> list[pa.Buffer]:
    """The payloads of values that ascend and lie close together: by one read, and each verified."""
    gaps = [extent.offset - before.stop for before, extent in pairwise(extents)]
    passed_over = memoryview(bytearray(max(gaps, default=0)))
    # Each in memory of its own: whoever keeps one of them does not keep the others.
    buffers = [pa.allocate_buffer(extent.stop - extent.offset) for extent in extents]
    pieces = [memoryview(buffers[0])]
    for gap, buffer in zip(gaps, buffers[1:], strict=True):
        if gap:
            pieces.append(passed_over[:gap])
        pieces.append(memoryview(buffer))
    _read_into(files, descriptor, path, pieces, extents[0].offset)
    return [_verified_payload(buffer, path, extent) for buffer, extent in zip(buffers, extents, strict=True)]


def _verified_payload(value: pa.Buffer, path: Path, extent: Extent) -> pa.Buffer:
    header = value.slice(0, HEADER_BYTES).to_pybytes()
    if header != extent.header.pack():
        # Says more if the header is damaged in itself, or of another format version.
        unpack_header(header, path, extent.offset)
        raise CorruptionError(path, extent.offset, f"the header of {extent.header}", f"the bytes {header.hex()}")
    payload = value.slice(HEADER_BYTES)
    check_payload(payload, extent.header, path, extent.offset)
    return payload


def container_checksum(files: Files, descriptor: int, path: Path, extents: Sequence[Extent], file_bytes: int) -> int:
    """CRC32C of all bytes that no extent covers, in file order: LMDB's own."""
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
