"""The segment: its name, its 64-byte header, and how its file is made.

    offset  bytes  field
         0      8  magic             b"rowlkwal"
         8      4  format version
        12      4  number            1, 2, 3, ...
        16     16  log id            random, the same in all segments of a log
        32      4  predecessor       the number of the segment before, 0 when this is the log's first
        36      4  predecessor bytes its final length: its records beyond that are not part of the log
        40      4  allocated bytes   the file's length when it got its name; 0 in format 1
        44     16  zeros
        60      4  checksum          CRC32C of the 60 bytes before

Formats 3 and 4 are format 2 with more kinds of changes. A log's segments are of format 2 until it gets the first such
change, which begins a segment of the format that it needs; no later segment has a lower one. So a server that does not
know these kinds refuses exactly the logs that may have them.

A segment is made as `spare.wal`, and is renamed to its own name when its head (header and first marker) is durable and
its predecessor is durable up to its final length.
"""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass
from pathlib import Path

from rowlock_regionserver.errors import CorruptionError, DataFolderError
from rowlock_regionserver.files import Files
from rowlock_regionserver.wal.record import MARKER, SEGMENT_BYTES_MAX, Position, checksum_of, encode_record, record_size

MAGIC = b"rowlkwal"
FORMAT_VERSION = 2
FORMAT_VERSION_MAX = 4
# The greatest kind of a change in formats 2 and 3; greater ones need the next format.
KIND_MAX_OF_FORMAT_2 = 17
KIND_MAX_OF_FORMAT_3 = 19
_READABLE_VERSIONS = (1, 2, 3, 4)
LOG_ID_BYTES = 16
PREALLOCATED_NAME = "spare.wal"

_HEADER = struct.Struct("<8sII16sIII16x")
_CHECKSUM = struct.Struct("<I")
SEGMENT_HEADER_BYTES = _HEADER.size + _CHECKSUM.size
_NAME = re.compile(r"(\d{10})\.wal")


@dataclass(frozen=True, slots=True)
class SegmentHeader:
    """The header of a segment."""

    number: int
    log_id: bytes
    predecessor: int
    predecessor_bytes: int
    allocated_bytes: int = 0
    version: int = FORMAT_VERSION

    def __post_init__(self) -> None:
        assert len(self.log_id) == LOG_ID_BYTES, f"a log id of {len(self.log_id)} bytes"
        assert self.number > self.predecessor >= 0, f"segment {self.number} after segment {self.predecessor}"
        assert 0 <= self.predecessor_bytes < 2 * SEGMENT_BYTES_MAX, f"a segment of {self.predecessor_bytes} bytes"

    def encode(self) -> bytes:
        header = _HEADER.pack(
            MAGIC,
            self.version,
            self.number,
            self.log_id,
            self.predecessor,
            self.predecessor_bytes,
            self.allocated_bytes,
        )
        return header + _CHECKSUM.pack(checksum_of(header))


def version_for(kind: int) -> int:
    """Returns the lowest format version that has changes of this kind."""
    if kind <= KIND_MAX_OF_FORMAT_2:
        return FORMAT_VERSION
    return 3 if kind <= KIND_MAX_OF_FORMAT_3 else FORMAT_VERSION_MAX


def encode_head(header: SegmentHeader, seed: int, marker: bytes, durable: Position) -> bytes:
    """Encodes the head of a segment: its header and its first marker."""
    record = encode_record(seed, SEGMENT_HEADER_BYTES, 0, 0, 0, durable, MARKER, marker)
    assert len(record) == record_size(len(marker))
    return header.encode() + record


def decode_segment_header(path: Path, data: bytes) -> SegmentHeader:
    """Decodes the header at the start of `data`. Raises CorruptionError; DataFolderError for another format."""
    if len(data) < SEGMENT_HEADER_BYTES:
        raise CorruptionError(path, 0, f"a segment header of {SEGMENT_HEADER_BYTES} bytes", f"{len(data)} bytes")
    magic, version, number, log_id, predecessor, predecessor_bytes, allocated_bytes = _HEADER.unpack_from(data)
    if magic != MAGIC:
        raise CorruptionError(path, 0, f"the magic {MAGIC!r}", repr(magic))
    (stated,) = _CHECKSUM.unpack_from(data, _HEADER.size)
    computed = checksum_of(data[: _HEADER.size])
    if stated != computed:
        raise CorruptionError(path, _HEADER.size, f"header checksum {computed:#010x}", f"{stated:#010x}")
    if version not in _READABLE_VERSIONS:
        raise DataFolderError(
            f"{path} is a log segment of format {version}, but this server reads formats up to {FORMAT_VERSION_MAX}: "
            "use the rowlock version that wrote it"
        )
    if number <= predecessor or predecessor_bytes >= 2 * SEGMENT_BYTES_MAX:
        raise CorruptionError(path, 12, "a segment after its predecessor", f"{number} after {predecessor}")
    return SegmentHeader(number, log_id, predecessor, predecessor_bytes, allocated_bytes, version)


def segment_path(folder: Path, number: int) -> Path:
    return folder / f"{number:010d}.wal"


def damaged_path(folder: Path, number: int) -> Path:
    """The new name of a segment that is not removed because it may be needed for a repair."""
    return folder / f"{number:010d}.damaged"


def segment_number(name: str) -> int | None:
    """The number of the segment with this file name; None for any other file."""
    match = _NAME.fullmatch(name)
    return int(match[1]) if match else None


def make_preallocated(files: Files, folder: Path, byte_count: int) -> int:
    """Makes a segment file of `byte_count` preallocated bytes as `spare.wal`, and returns its descriptor.

    Syncs the file, but not its name. Replaces an existing one. If it fails, with ENOSPC say, it leaves no file.
    An OSError names the file and its size.
    """
    path = folder / PREALLOCATED_NAME
    descriptor = files.create(path)
    try:
        files.allocate(descriptor, 0, byte_count)
        files.fsync(descriptor)
    except OSError as error:
        files.close(descriptor)
        files.remove_if_there(path)
        problem = f"{error.strerror or error}, for a log segment of {byte_count} bytes"
        raise OSError(error.errno, problem, str(path)) from error
    return descriptor


def name_preallocated(files: Files, folder: Path, number: int) -> None:
    """Renames `spare.wal` to the segment with this number. Its head and its predecessor must be durable.

    The log already writes to the file and a failure ends the log, so nothing is undone here, unlike in
    durable_files.py.
    """
    files.rename(folder / PREALLOCATED_NAME, segment_path(folder, number))
    files.fsync_folder(folder)
