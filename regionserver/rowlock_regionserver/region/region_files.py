"""The files that a region's manifest names: store files and answers files, which share one numbering."""

from __future__ import annotations

from pathlib import Path

from rowlock_regionserver.files import Files
from rowlock_regionserver.region.idempotency.answers_file import answers_number, answers_path
from rowlock_regionserver.region.manifest import Manifest
from rowlock_regionserver.region.store_file_names import store_file_names, store_file_path


def unnamed_files(manifest: Manifest, files: Files, folder: Path) -> list[Path]:
    """Returns the store files and answers files in the folder that the manifest does not name."""
    named = {
        store_file_path(folder, number, info.number) for number, infos in manifest.store_files.items() for info in infos
    }
    named.update(answers_path(folder, file.number) for file in manifest.answers_files)
    return [path for _, path in _numbered_files(files, folder) if path not in named]


def greatest_file_number(files: Files, folder: Path) -> int:
    """Returns the greatest number of a store file or answers file in the folder, named or not; 0 if there is none."""
    return max((number for number, _ in _numbered_files(files, folder)), default=0)


def _numbered_files(files: Files, folder: Path) -> list[tuple[int, Path]]:
    found = [(name.number, name.path) for name in store_file_names(files, folder)]
    answers = ((answers_number(name), folder / name) for name in files.list_folder(folder))
    return [*found, *((number, path) for number, path in answers if number is not None)]
