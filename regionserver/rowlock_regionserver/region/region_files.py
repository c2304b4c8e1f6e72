"""The files that a region's manifest names: store files and answers files, which share one numbering."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from rowlock_regionserver.files import Files
from rowlock_regionserver.region.idempotency.answers_file import answers_number, answers_path
from rowlock_regionserver.region.manifest import Manifest
from rowlock_regionserver.region.store_file_names import store_file_path, store_files_among


def unnamed_files(manifest: Manifest, files: Files, folder: Path) -> list[Path]:
    """Returns the store files and answers files in the folder that the manifest does not name."""
    return unnamed_among(numbered_files(files.list_folder(folder), folder), manifest, folder)


def numbered_files(names: Sequence[str], folder: Path) -> list[tuple[int, Path]]:
    """Returns the store files and answers files among the names in the folder: their numbers and paths."""
    answers = ((answers_number(name), name) for name in names)
    return [
        *((name.number, name.path) for name in store_files_among(names, folder)),
        *((number, folder / name) for number, name in answers if number is not None),
    ]


def unnamed_among(numbered: Iterable[tuple[int, Path]], manifest: Manifest, folder: Path) -> list[Path]:
    """Returns those of the files that the manifest does not name."""
    named = {
        store_file_path(folder, number, info.number) for number, infos in manifest.store_files.items() for info in infos
    }
    named.update(answers_path(folder, file.number) for file in manifest.answers_files)
    return [path for _, path in numbered if path not in named]
