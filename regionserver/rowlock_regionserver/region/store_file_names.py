"""The names of store files in a region's folder."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from rowlock_regionserver.files import Files

_NAME = re.compile(r"(\d+)-(\d{12})\.store")


@dataclass(frozen=True, slots=True, order=True)
class StoreFileName:
    """A file with a store file's name: its family, its number in the region, and its path."""

    family_number: int
    number: int
    path: Path


def store_file_path(folder: Path, family_number: int, file_number: int) -> Path:
    """Returns the path of a store file in a region's folder."""
    return folder / f"{family_number}-{file_number:012d}.store"


def store_file_names(files: Files, folder: Path) -> list[StoreFileName]:
    """Returns the files in the folder with a store file's name, live or not, by family and number."""
    return store_files_among(files.list_folder(folder), folder)


def store_files_among(names: Iterable[str], folder: Path) -> list[StoreFileName]:
    """Returns those of these names in the folder that are a store file's, by family and number."""
    matches = (_NAME.fullmatch(name) for name in names)
    return sorted(StoreFileName(int(match[1]), int(match[2]), folder / match[0]) for match in matches if match)
