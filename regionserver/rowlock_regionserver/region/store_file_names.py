"""The names of store files in a region's folder."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from rowlock_regionserver.files import Files

_NAME = re.compile(r"(\d+)-(\d{12})\.store")


@dataclass(frozen=True, slots=True, order=True)
class StoreFileName:
    """A file that has a store file's name: its family, its number in the region, and where it lies."""

    family_number: int
    number: int
    path: Path


def store_file_path(folder: Path, family_number: int, file_number: int) -> Path:
    """Where a region keeps a store file."""
    return folder / f"{family_number}-{file_number:012d}.store"


def store_file_names(files: Files, folder: Path) -> list[StoreFileName]:
    """What has a store file's name in the folder, named by a manifest or not, by family and number."""
    matches = (_NAME.fullmatch(name) for name in files.list_folder(folder))
    return sorted(StoreFileName(int(match[1]), int(match[2]), folder / match[0]) for match in matches if match)
