"""The store file's layout: sealed values inside an LMDB file. docs/storefile_format.md describes it in full.

A store file is an LMDB file with up to four databases: `blocks`, whose values hold cells; `wide_blocks` and
`older_blocks`, whose values hold lines, if the file has any; and `metadata`, with one value that holds the indexes, the
Bloom filter and the properties of all cells. Every value is sealed: it begins with a header of 64 bytes, with a
checksum of the bytes that follow and one of itself. The header of a wide block covers only the directory; that has the
checksums of the rest.

LMDB is only the container. Its pages have no checksums, and a flipped bit in one makes LMDB read wild addresses. So the
writer records the file offset of each value, and readers read there directly: the offset of the metadata is in the
manifest, the offsets of the blocks are in the metadata.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from pathlib import Path

import google_crc32c
import pyarrow as pa

from rowlock_regionserver.errors import CorruptionError, DataFolderError

FORMAT_VERSION = 1
# The version of wide blocks, and of the metadata of a file that has some.
WIDE_FORMAT_VERSION = 2
# The version of the metadata of a file that has older lines.
OLDER_FORMAT_VERSION = 3

BLOCKS_DATABASE = b"blocks"
WIDE_BLOCKS_DATABASE = b"wide_blocks"
OLDER_BLOCKS_DATABASE = b"older_blocks"
METADATA_DATABASE = b"metadata"
METADATA_KEY = b"metadata"

BLOCK_MAGIC = b"rlblock\x01"
WIDE_BLOCK_MAGIC = b"rlwideb\x01"
OLDER_BLOCK_MAGIC = b"rlolder\x01"
LINES_MAGICS = (WIDE_BLOCK_MAGIC, OLDER_BLOCK_MAGIC)
METADATA_MAGIC = b"rlmetad\x01"

# magic, format version, CRC32C of the payload, number, payload bytes, cell count, checked bytes, zeros, CRC32C of all
# before
_HEADER = struct.Struct("<8sIIQQQI16xI")
HEADER_BYTES = 64
assert _HEADER.size == HEADER_BYTES

# LMDB refuses keys over 511 bytes; 8 of them are the block's number.
KEY_PREFIX_BYTES_MAX = 500


@dataclass(frozen=True, slots=True)
class Header:
    """The header that precedes a payload and seals it."""

    magic: bytes
    number: int  # block: its number in its run; metadata: the store file's number
    payload_bytes: int
    cell_count: int  # metadata: the cells of the file
    checksum: int  # CRC32C of the payload, or of its first `checked_bytes`
    version: int = FORMAT_VERSION
    checked_bytes: int = 0  # wide block: the bytes of its directory; 0: the whole payload

    def pack(self) -> bytes:
        """Returns the header's 64 bytes."""
        unsealed = _HEADER.pack(
            self.magic,
            self.version,
            self.checksum,
            self.number,
            self.payload_bytes,
            self.cell_count,
            self.checked_bytes,
            0,
        )
        own_checksum: int = google_crc32c.value(unsealed[:-4])
        return unsealed[:-4] + own_checksum.to_bytes(4, "little")


def unpack_header(raw: bytes, path: Path, offset: int) -> Header:
    """Returns the header at the start of `raw`, read at `offset` of the file.

    Raises CorruptionError when it is damaged, and DataFolderError when a newer rowlock wrote it.
    """
    if len(raw) < HEADER_BYTES:
        raise CorruptionError(path, offset, f"a header of {HEADER_BYTES} bytes", f"{len(raw)} bytes")
    magic, version, checksum, number, payload_bytes, cell_count, checked_bytes, own_checksum = _HEADER.unpack_from(raw)
    computed = google_crc32c.value(raw[: HEADER_BYTES - 4])
    if computed != own_checksum:
        raise CorruptionError(path, offset, f"header checksum {own_checksum:#010x}", f"{computed:#010x}")
    if not FORMAT_VERSION <= version <= OLDER_FORMAT_VERSION:
        raise DataFolderError(
            f"{path} has format version {version}; this rowlock reads versions up to {OLDER_FORMAT_VERSION}. Use a "
            "newer rowlock."
        )
    return Header(magic, number, payload_bytes, cell_count, checksum, version, checked_bytes)


def sealed(
    magic: bytes,
    number: int,
    cell_count: int,
    payload: bytes,
    value_bytes_min: int,
    *,
    version: int = FORMAT_VERSION,
    checked_bytes: int = 0,
) -> tuple[Header, bytes]:
    """Returns a header, and header and payload as one value, padded with zeros to at least `value_bytes_min`."""
    padded = payload.ljust(value_bytes_min - HEADER_BYTES, b"\0")
    checksum = google_crc32c.value(padded[:checked_bytes] if checked_bytes else padded)
    header = Header(magic, number, len(padded), cell_count, checksum, version, checked_bytes)
    return header, header.pack() + padded


def check_payload(payload: pa.Buffer, header: Header, path: Path, offset: int) -> None:
    """Raises CorruptionError unless the payload has the header's length and checksum; the header is at `offset`.

    Of a wide block only the directory is checked.
    """
    if payload.size != header.payload_bytes:
        raise CorruptionError(
            path, offset + HEADER_BYTES, f"a payload of {header.payload_bytes} bytes", f"{payload.size}"
        )
    check_start(payload, header, path, offset)


def check_start(payload: pa.Buffer, header: Header, path: Path, offset: int) -> None:
    """Raises CorruptionError unless the part of the payload that the header's checksum covers is as written."""
    computed = google_crc32c.value(payload.slice(0, header.checked_bytes) if header.checked_bytes else payload)
    if computed != header.checksum:
        raise CorruptionError(
            path, offset + HEADER_BYTES, f"payload checksum {header.checksum:#010x}", f"{computed:#010x}"
        )


def block_key(row: bytes, qualifier: bytes, timestamp: int, write_number: int, number: int) -> bytes:
    """Returns a block's key in LMDB: its first cell, escaped so that bytes sort as cells do and cut, then its number.

    No uncut key is a prefix of another, so keys of different cells can be equal only where they were cut. There the
    number decides.
    """
    cell = _escaped(row) + _escaped(qualifier) + _descending(timestamp) + _descending(write_number)
    return cell[:KEY_PREFIX_BYTES_MAX] + number.to_bytes(8, "big")


def _escaped(value: bytes) -> bytes:
    # A zero byte becomes 00 FF and the end 00 00, so that a value sorts before longer ones that begin with it.
    return value.replace(b"\0", b"\0\xff") + b"\0\0"


def _descending(number: int) -> bytes:
    return ((1 << 64) - 1 - number).to_bytes(8, "big")
