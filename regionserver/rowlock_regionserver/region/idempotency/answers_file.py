"""Answers files: saved answers of one region on disk, named by its manifest. Written once, read when it is opened.

A manifest is written at each flush, so it lists only a few answers itself (manifest_answers.py). Layout, integers
little-endian:

    magic      8 bytes  "rowlkans"
    version    u32      1
    for each answer:
        length        u32  of its payload
        write number  u64
        flags         u8   1: of a bulk batch, 2: its cells were dropped, 4: unknown whether of a bulk batch
        payload            a row record of the log (wal/mutation.py) without cells: row, request and answer

The manifest holds the file's length and the CRC32C of all its bytes.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import google_crc32c

from rowlock_regionserver.durable_files import new_file
from rowlock_regionserver.errors import CorruptionError
from rowlock_regionserver.files import Files
from rowlock_regionserver.operations import RequestId
from rowlock_regionserver.process import yield_now
from rowlock_regionserver.region.idempotency.answer import IS_BULK, IS_CUT, MAY_BE_BULK, SavedAnswer, flags_of
from rowlock_regionserver.wal.mutation import decode_cells, decode_request, encode_row

MAGIC = b"rowlkans"
VERSION = 1
_HEAD = struct.Struct("<8sI")
_ANSWER = struct.Struct("<IQB")
_NAME = re.compile(r"answers-(\d{12})")


@dataclass(frozen=True, slots=True)
class AnswersFile:
    """A manifest's entry for an answers file, which holds answers of writes up to `write_number_max`."""

    number: int
    write_number_max: int
    answer_count: int
    byte_count: int
    checksum: int

    def to_json(self) -> dict[str, int]:
        return {name: getattr(self, name) for name in self.__slots__}

    @staticmethod
    def from_json(fields: Mapping[str, int]) -> AnswersFile:
        return AnswersFile(*(int(fields[name]) for name in AnswersFile.__slots__))


def answers_path(folder: Path, number: int) -> Path:
    """Returns the path of the answers file with this number."""
    return folder / f"answers-{number:012d}"


def answers_number(name: str) -> int | None:
    """Returns the number of the answers file with this name; None if no answers file has such a name."""
    match = _NAME.fullmatch(name)
    return int(match[1]) if match else None


def write_answers(
    files: Files,
    folder: Path,
    number: int,
    write_number_max: int,
    answers: Iterable[Iterable[SavedAnswer]],
    family_numbers: Mapping[bytes, int],
) -> AnswersFile:
    """Writes lists of answers to a new file; file and name are durable when it returns.

    Replaces the file of a failed flush, if there is one. Yields to other threads after each list. Raises DiskFullError,
    TooManyOpenFilesError, OutOfMemoryError and OSError; then no file remains.
    """
    path = answers_path(folder, number)
    files.remove_if_there(path)
    count = 0
    with new_file(files, path) as file:
        file.append(_HEAD.pack(MAGIC, VERSION))
        for some in answers:
            chunk = list(some)
            file.append(b"".join([_encode(answer, family_numbers) for answer in chunk]))
            count += len(chunk)
            yield_now()
    return AnswersFile(number, write_number_max, count, file.byte_count, file.checksum)


def _encode(answer: SavedAnswer, family_numbers: Mapping[bytes, int]) -> bytes:
    request = RequestId(answer.client, answer.sequence, answer.floor)
    result = answer.result
    if not all(cell[0] in family_numbers for cell in (*result.seen, *result.results)):  # A family was dropped since.
        result = result._replace(seen=(), results=())
        answer = replace(answer, is_cut=True)
    payload = encode_row(answer.row, (), request, result, family_numbers)
    return _ANSWER.pack(len(payload), answer.write_number, flags_of(answer)) + payload


def read_answers(
    files: Files, folder: Path, written: AnswersFile, family_names: Mapping[int, bytes]
) -> Iterator[SavedAnswer]:
    """Yields the answers in the file. Raises CorruptionError if it does not match the manifest."""
    data = read_checked(files, folder, written)
    position = _HEAD.size
    while position < len(data):
        length, write_number, flags = _ANSWER.unpack_from(data, position)
        position += _ANSWER.size
        yield _decode(data[position : position + length], write_number, flags, family_names)
        position += length


def read_checked(files: Files, folder: Path, written: AnswersFile) -> bytes:
    """Returns the file's bytes. Raises CorruptionError if length or checksum do not match the manifest."""
    path = answers_path(folder, written.number)
    try:
        data = files.read(path)
    except FileNotFoundError:
        raise CorruptionError(path, 0, f"a file of {written.byte_count} bytes", "no file") from None
    if len(data) != written.byte_count:
        raise CorruptionError(path, len(data), f"{written.byte_count} bytes", f"{len(data)} bytes")
    checksum = google_crc32c.value(data)
    if checksum != written.checksum:
        raise CorruptionError(path, 0, f"CRC32C {written.checksum:08x}", f"{checksum:08x}")
    return data


def _decode(payload: bytes, write_number: int, flags: int, family_names: Mapping[int, bytes]) -> SavedAnswer:
    row, cells, position, record_flags = decode_cells(payload, write_number)
    request, result = decode_request(payload, position, record_flags, cells, family_names)
    is_bulk = None if flags & MAY_BE_BULK else bool(flags & IS_BULK)
    client, sequence, floor = request[:3]
    return SavedAnswer(client, sequence, floor, row, write_number, result, bool(flags & IS_CUT), is_bulk)
