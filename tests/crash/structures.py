"""Finds each structure of a data folder's files by the documented formats, without the server's readers.

The formats are in docs/wal_format.md and docs/storefile_format.md. Files must be intact.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

SEGMENT_HEADER_BYTES = 64
RECORD_HEADER_BYTES = 41
GENERATION, RESERVATION, MARKER = 253, 254, 255
_SEALED_HEADER_BYTES = 64
_GENERATION_HEADER_BYTES = 32
_BULK_HEADER_BYTES = 16
# Four bytes of ones and the length of the message's head.
_ARROW_PREFIX_BYTES = 8
_INDEX_ARRAYS = 6
# By the version of the layout.
_FAMILY_FRAMES = {1: struct.Struct("<IQ"), 2: struct.Struct("<IIQ")}
_WIDE_INDEX_ARRAYS = 15
_DIRECTORY_HEAD_BYTES = 32
_CHUNK_KINDS = (
    "rows",
    "timestamps",
    "write numbers",
    "validity",
    "timestamps of a column",
    "write numbers of a column",
    "values",
)


@dataclass(frozen=True, slots=True)
class Structure:
    """The bytes [start, stop) of a file, and the name of their structure."""

    file_kind: str
    name: str
    path: Path
    start: int
    stop: int


@dataclass(frozen=True, slots=True)
class LogRecord:
    """A record's place in its segment; `stop` is after its padding."""

    start: int
    payload_stop: int
    stop: int
    kind: int

    @property
    def is_change(self) -> bool:
        return self.kind < GENERATION


def log_records(data: bytes) -> Iterator[LogRecord]:
    """Yields the records of a segment, up to the preallocated zeros."""
    start = SEGMENT_HEADER_BYTES
    while start + RECORD_HEADER_BYTES <= len(data) and data[start + 40]:
        payload_stop = start + RECORD_HEADER_BYTES + int.from_bytes(data[start + 4 : start + 8], "little")
        stop = -(-payload_stop // 8) * 8
        yield LogRecord(start, payload_stop, stop, data[start + 40])
        start = stop


def structures(folder: Path) -> list[Structure]:
    """Yields every structure of the log, store files, manifests, catalog and bulk files; none is empty."""
    found: list[Structure] = []
    for path in sorted(folder.rglob("*")):
        if path.is_dir() or path.suffix == ".temporary":
            continue
        data = path.read_bytes()
        match path.parent.name, path.suffix:
            case "log", ".wal" if path.stem.isdigit():
                found += [Structure("log", *place) for place in _log(path, data)]
            case "catalog", _:
                found += [Structure("catalog", *place) for place in _generation(path, data)]
            case "bulk", ".bulk":
                found += [Structure("bulk file", *place) for place in _bulk(path, data)]
            case _, ".store":
                found += [Structure("store file", *place) for place in _store(path, data)]
            case _ if path.name.startswith("manifest-"):
                found += [Structure("manifest", *place) for place in _generation(path, data)]
    return [structure for structure in found if structure.start < structure.stop]


_Place = tuple[str, Path, int, int]


def _log(path: Path, data: bytes) -> Iterator[_Place]:
    yield "segment header", path, 0, SEGMENT_HEADER_BYTES
    stop = SEGMENT_HEADER_BYTES
    for record in log_records(data):
        what = {GENERATION: "generation", RESERVATION: "reservation", MARKER: "marker"}.get(record.kind, "change")
        body = record.start + RECORD_HEADER_BYTES
        yield f"{what}'s header", path, record.start, body
        yield f"{what}'s payload", path, body, record.payload_stop
        yield "padding", path, record.payload_stop, record.stop
        stop = record.stop
    yield "preallocated zeros", path, stop, len(data)


def _generation(path: Path, data: bytes) -> Iterator[_Place]:
    is_newest = max(path.parent.glob(path.name[: path.name.index("-")] + "-*")) == path
    which = "newest" if is_newest else "kept older"
    yield f"{which} header", path, 0, _GENERATION_HEADER_BYTES
    yield f"{which} body", path, _GENERATION_HEADER_BYTES, len(data)


def _bulk(path: Path, data: bytes) -> Iterator[_Place]:
    yield "header", path, 0, _BULK_HEADER_BYTES
    place = _BULK_HEADER_BYTES
    frame = _FAMILY_FRAMES[int.from_bytes(data[8:12], "little")]
    while place < len(data):
        *_, byte_count = frame.unpack_from(data, place)
        yield "family frame", path, place, place + frame.size
        place += frame.size
        yield "Arrow stream", path, place, place + byte_count
        place += byte_count


def _store(path: Path, data: bytes) -> Iterator[_Place]:
    """Finds sealed values by their magic bytes; the bytes between them are LMDB's."""
    stop = 0
    while stop < len(data):
        marks = [place for mark in _SEALED if (place := data.find(mark, stop)) >= 0]
        start = min(marks, default=len(data))
        yield "LMDB's pages", path, stop, start
        if start == len(data):
            return
        what, parts = _SEALED[data[start : start + 8]]
        body = start + _SEALED_HEADER_BYTES
        stop = body + int.from_bytes(data[start + 24 : start + 32], "little")
        yield f"{what}'s header", path, start, body
        place = body
        for part, byte_count in parts(data[body:stop]):
            yield part, path, place, place + byte_count
            place += byte_count
        yield f"{what}'s padding", path, place, stop


def _block(payload: bytes) -> Iterator[tuple[str, int]]:
    """Yields the parts of an Arrow message: its head, with the places of the columns, and the columns."""
    message = pa.ipc.read_message(pa.py_buffer(payload))
    assert message.body is not None
    yield "block's Arrow head", _ARROW_PREFIX_BYTES + message.metadata.size
    yield "block's columns", message.body.size


def _wide_block(payload: bytes) -> Iterator[tuple[str, int]]:
    """Yields the directory, and the chunks by their kinds."""
    _, chunk_count, form_bytes = struct.unpack_from("<3I", payload)
    stored = struct.unpack_from(f"<{chunk_count}I", payload, _DIRECTORY_HEAD_BYTES)
    form = _DIRECTORY_HEAD_BYTES + 13 * chunk_count
    kinds = payload[form + 4 : form + 4 + 8 * chunk_count : 8]
    # The zeros that pad the block belong to the directory.
    yield "wide block's directory", len(payload) - sum(stored)
    assert len(payload) - sum(stored) >= form + form_bytes, "a directory that is shorter than its form"
    for kind, byte_count in zip(kinds, stored, strict=True):
        yield f"wide block's {_CHUNK_KINDS[kind]}", byte_count


def _metadata(payload: bytes) -> Iterator[tuple[str, int]]:
    summary_stop = 4 + int.from_bytes(payload[:4], "little")
    summary = json.loads(payload[4:summary_stop])
    bloom_start = -(-summary_stop // 8) * 8
    place = bloom_start + 8 * summary["bloom_word_count"]
    yield "metadata's summary", bloom_start
    yield "metadata's Bloom filter", place - bloom_start
    for which, block_count, array_count in (
        ("block index", summary["block_count"], _INDEX_ARRAYS),
        ("index of wide blocks", summary.get("wide_block_count", 0), _WIDE_INDEX_ARRAYS),
        ("index of older lines", summary.get("older_block_count", 0), _WIDE_INDEX_ARRAYS),
    ):
        if not block_count:
            continue
        start, place = place, -(-place // 8) * 8
        rows_start = place + 8 * block_count * array_count
        row_ends = struct.unpack_from(f"<{2 * block_count}Q", payload, rows_start - 16 * block_count)
        place = rows_start + row_ends[block_count - 1] + row_ends[-1]
        yield f"metadata's {which}", rows_start - start
        yield f"metadata's rows of the {which}", place - rows_start
    if group_count := summary.get("row_group_count", 0):
        start, place = place, -(-place // 8) * 8
        row_ends = struct.unpack_from(f"<{group_count}Q", payload, place)
        yield "metadata's row groups", place - start + (8 + 32) * group_count + row_ends[-1]


_SEALED: dict[bytes, tuple[str, Callable[[bytes], Iterator[tuple[str, int]]]]] = {
    b"rlblock\x01": ("block", _block),
    b"rlwideb\x01": ("wide block", _wide_block),
    b"rlolder\x01": ("wide block", _wide_block),
    b"rlmetad\x01": ("metadata", _metadata),
}
