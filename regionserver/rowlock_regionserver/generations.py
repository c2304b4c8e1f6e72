"""Numbered generations of small immutable files: the storage of the manifest and the catalog.

1. A generation is there completely and durably, or not at all (durable_files.py). After a crash a part of the first
   one may be there, in a new folder that nothing names (`write_first`).
2. The one with the greatest number counts. The one before it stays for a manual repair; older ones are removed.
3. A damaged newest generation is an error. The older one never replaces it automatically, because it may name files
   that were removed, and miss acknowledged writes.

Layout: docs/storefile_format.md, "Generations". One writer per name; there is no lock here.
"""

from __future__ import annotations

import contextlib
import errno
import re
import struct
from collections.abc import Iterable
from pathlib import Path

import google_crc32c

from rowlock_regionserver.durable_files import TEMPORARY_SUFFIX, new_file, replace_file
from rowlock_regionserver.errors import CorruptionError, DataFolderError, TooManyOpenFilesError
from rowlock_regionserver.files import Files

MAGIC = b"rlgenera"
FORMAT_VERSION = 1
GENERATIONS_KEPT = 2

# magic, format version, CRC32C of all but these four bytes, number, body length
_HEADER = struct.Struct("<8sIIQQ")
_CHECKSUM_START = 12
_CHECKSUM_STOP = 16


def generation_path(folder: Path, name: str, number: int) -> Path:
    """The path of the generation; names sort by number."""
    return folder / f"{name}-{number:016d}"


def write(files: Files, folder: Path, name: str, number: int, body: bytes, *, version: int = FORMAT_VERSION) -> Path:
    """Writes generation `number`, durably; blocks on the disk. `version` is that of the body's format.

    `number` must be greater than that of every existing generation. Raises DiskFullError, TooManyOpenFilesError,
    OutOfMemoryError or OSError when nothing was changed and no file is left. Raises UnknownOutcomeError when the folder
    could not be synced after the rename: after a power failure either generation may be the newest, so the files of
    neither may be removed, and the process should end.
    """
    assert number > 0, f"generation numbers start at 1, not {number}"
    path = generation_path(folder, name, number)
    replace_file(files, path, framed(number, body, version))
    # The generation is written. An old one that stays is harmless: the next write tries again.
    with contextlib.suppress(OSError, TooManyOpenFilesError, MemoryError):
        for old in generation_numbers(files, folder, name)[:-GENERATIONS_KEPT]:
            with contextlib.suppress(OSError):
                files.remove(generation_path(folder, name, old))
    return path


def write_first(files: Files, folder: Path, name: str, body: bytes, *, version: int = FORMAT_VERSION) -> None:
    """Writes generation 1 in a new folder, which no reader opens before something durable names it; blocks on the disk.

    Raises FileExistsError if there is one, which stays. Raises DiskFullError, TooManyOpenFilesError, OutOfMemoryError
    or OSError; then no file is left.
    """
    with new_file(files, generation_path(folder, name, 1)) as file:
        file.append(framed(1, body, version))


def read_newest(files: Files, folder: Path, name: str, *, version_max: int = FORMAT_VERSION) -> tuple[int, bytes]:
    """Returns (number, body) of the newest generation. Ignores and removes leftover temporary files.

    Raises FileNotFoundError when there is no generation, CorruptionError when the newest one is damaged, and
    DataFolderError when its version is greater than `version_max`: a newer rowlock wrote it.
    """
    pattern = re.compile(re.escape(name) + r"-\d{16}" + re.escape(TEMPORARY_SUFFIX))
    names = files.list_folder(folder)
    for entry in names:
        if pattern.fullmatch(entry):
            # In a read-only folder it stays, and is ignored.
            with contextlib.suppress(OSError):
                files.remove(folder / entry)
    numbers = numbers_in(names, name)
    if not numbers:
        raise FileNotFoundError(errno.ENOENT, "no generation", str(folder / name))
    path = generation_path(folder, name, numbers[-1])
    return numbers[-1], read(files, path, numbers[-1], version_max=version_max)


def generation_numbers(files: Files, folder: Path, name: str) -> list[int]:
    """The numbers of the generations in the folder, ascending, damaged ones too."""
    return numbers_in(files.list_folder(folder), name)


def numbers_in(names: Iterable[str], name: str) -> list[int]:
    """The numbers of the generations among the names of a folder, ascending."""
    pattern = re.compile(re.escape(name) + r"-(\d{16})")
    matches = (pattern.fullmatch(entry) for entry in names)
    return sorted(int(match[1]) for match in matches if match)


def read(files: Files, path: Path, number: int, *, version_max: int = FORMAT_VERSION) -> bytes:
    """Returns the body of the generation at `path`, which must be `number`.

    Raises CorruptionError when it is damaged or unreadable, FileNotFoundError, and DataFolderError when its version is
    greater than `version_max`. Raises OSError for a lack of memory, and TooManyOpenFilesError.
    """
    try:
        raw = files.read(path)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise CorruptionError.of(error, path) from error
    if len(raw) < _HEADER.size:
        raise CorruptionError(path, 0, f"at least {_HEADER.size} bytes", f"{len(raw)}")
    magic, version, checksum, found_number, body_bytes = _HEADER.unpack_from(raw)
    if magic != MAGIC:
        raise CorruptionError(path, 0, f"the mark {MAGIC!r}", f"{magic!r}")
    computed = google_crc32c.value(raw[:_CHECKSUM_START] + raw[_CHECKSUM_STOP:])
    if computed != checksum:
        raise CorruptionError(path, _CHECKSUM_START, f"checksum {checksum:#010x}", f"{computed:#010x}")
    if not 1 <= version <= version_max:
        raise DataFolderError(
            f"{path} has format version {version}, but this rowlock reads up to {version_max}; use a newer one"
        )
    if found_number != number or body_bytes != len(raw) - _HEADER.size:
        raise CorruptionError(
            path,
            _CHECKSUM_STOP,
            f"number {number} and a body of {len(raw) - _HEADER.size} bytes",
            f"number {found_number} and {body_bytes} bytes",
        )
    return raw[_HEADER.size :]


def framed(number: int, body: bytes, version: int = FORMAT_VERSION) -> bytes:
    """Returns the body after its header with number, version, length and checksum; `read` reads it."""
    unchecked = _HEADER.pack(MAGIC, version, 0, number, len(body))
    after_checksum = unchecked[_CHECKSUM_STOP:] + body
    checksum: int = google_crc32c.value(unchecked[:_CHECKSUM_START] + after_checksum)
    return unchecked[:_CHECKSUM_START] + checksum.to_bytes(4, "little") + after_checksum
