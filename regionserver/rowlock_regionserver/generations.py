"""Small immutable files in numbered generations: how the manifest and the catalog are kept.

1. A generation is there whole and durable, or not at all (durable_files.py).
2. The one with the greatest number counts. The one before it is kept for repair by hand; older ones are removed.
3. A damaged newest generation is an error. The older one is never taken in its place by itself, because it may name
   files that are gone and forget writes that were acknowledged.

Layout: docs/storefile_format.md, "Generations". One writer a name; nothing here locks.
"""

from __future__ import annotations

import contextlib
import errno
import re
import struct
from collections.abc import Iterable
from pathlib import Path

import google_crc32c

from rowlock_regionserver.durable_files import TEMPORARY_SUFFIX, replace_file
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
    """Where the generation lies: names sort as their numbers do."""
    return folder / f"{name}-{number:016d}"


def write(files: Files, folder: Path, name: str, number: int, body: bytes, *, version: int = FORMAT_VERSION) -> Path:
    """Makes generation `number` the newest one, durably; blocks on the disk. `version` is that of the body's format.

    `number` must be greater than that of every generation there is. DiskFullError,
    TooManyOpenFilesError or another OSError: the generation before is still the newest one and nothing was left behind.
    UnknownOutcomeError: renamed, but the folder could not be synced, so after a power cut either may be found;
    neither's files may be removed, and the process should end.
    """
    assert number > 0, f"generation numbers start at 1, not {number}"
    path = generation_path(folder, name, number)
    replace_file(files, path, _encode(number, body, version))
    # It is written. A leftover here is harmless: the next write tries again.
    with contextlib.suppress(OSError, TooManyOpenFilesError):
        for old in generation_numbers(files, folder, name)[:-GENERATIONS_KEPT]:
            with contextlib.suppress(OSError):
                files.remove(generation_path(folder, name, old))
    return path


def read_newest(files: Files, folder: Path, name: str, *, version_max: int = FORMAT_VERSION) -> tuple[int, bytes]:
    """(number, body) of the newest generation. Leftover temporary files are ignored and removed.

    FileNotFoundError when there is no generation. CorruptionError names the newest one when it is damaged;
    DataFolderError when its version is greater than `version_max`: a newer rowlock wrote it.
    """
    pattern = re.compile(re.escape(name) + r"-\d{16}" + re.escape(TEMPORARY_SUFFIX))
    for entry in files.list_folder(folder):
        if pattern.fullmatch(entry):
            # On a read-only folder it stays; it is ignored all the same.
            with contextlib.suppress(OSError):
                files.remove(folder / entry)
    numbers = generation_numbers(files, folder, name)
    if not numbers:
        raise FileNotFoundError(errno.ENOENT, "no generation", str(folder / name))
    path = generation_path(folder, name, numbers[-1])
    return numbers[-1], read(files, path, numbers[-1], version_max=version_max)


def generation_numbers(files: Files, folder: Path, name: str) -> list[int]:
    """Numbers of the generations there are, ascending, whole or damaged."""
    return numbers_in(files.list_folder(folder), name)


def numbers_in(names: Iterable[str], name: str) -> list[int]:
    """The same of the names in a folder."""
    pattern = re.compile(re.escape(name) + r"-(\d{16})")
    matches = (pattern.fullmatch(entry) for entry in names)
    return sorted(int(match[1]) for match in matches if match)


def read(files: Files, path: Path, number: int, *, version_max: int = FORMAT_VERSION) -> bytes:
    """The body of the generation at `path`, which must be `number`.

    CorruptionError when it is damaged, DataFolderError when its version is greater than `version_max`.
    """
    try:
        raw = files.read(path)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise CorruptionError(path, 0, "a readable file", f"{error}") from error
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
            f"{path} has format version {version}; this rowlock reads up to {version_max}. Use a newer one."
        )
    if found_number != number or body_bytes != len(raw) - _HEADER.size:
        raise CorruptionError(
            path,
            _CHECKSUM_STOP,
            f"number {number} and a body of {len(raw) - _HEADER.size} bytes",
            f"number {found_number} and {body_bytes} bytes",
        )
    return raw[_HEADER.size :]


def _encode(number: int, body: bytes, version: int) -> bytes:
    unchecked = _HEADER.pack(MAGIC, version, 0, number, len(body))
    rest = unchecked[_CHECKSUM_STOP:] + body
    checksum: int = google_crc32c.value(unchecked[:_CHECKSUM_START] + rest)
    return unchecked[:_CHECKSUM_START] + checksum.to_bytes(4, "little") + rest
