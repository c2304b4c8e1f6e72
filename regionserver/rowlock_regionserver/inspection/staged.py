"""Checks what open bulk writes have staged, by the code with which a start reads it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from rowlock_regionserver.catalog.catalog import CatalogState
from rowlock_regionserver.errors import CorruptionError
from rowlock_regionserver.files import Files
from rowlock_regionserver.host.leftovers import Unnamed
from rowlock_regionserver.host.staging import StagedContents, Staging, is_open
from rowlock_regionserver.inspection.folder import StoredFolder
from rowlock_regionserver.region.bulk.bulk_file import read_staged_file
from rowlock_regionserver.region.store_file_names import store_file_path
from rowlock_regionserver.storefile.verify import verify_store_file

# What damage costs.
_ENDS_THE_WRITE = "the next start ends this bulk write, which was not committed"
_IS_UNCOMMITTED = "only a bulk write that was not committed needs it"
_REFUSES_THE_START = "the next start is refused, though no table needs it"


@dataclass(slots=True)
class StagedFound:
    """What the folder `staging` has. `damage`: each with what it costs."""

    write_count: int = 0
    damage: list[tuple[CorruptionError, str]] = field(default_factory=list)
    unnamed: list[Unnamed] = field(default_factory=list)


def check_staged(stored: StoredFolder, files: Files) -> StagedFound:
    """Checks the files of all open bulk writes. Raises DataFolderError when a newer version wrote one."""
    found = StagedFound()
    # Only the newest catalog knows which writes were committed.
    state = stored.catalog.body if stored.catalog is not None and stored.catalog.is_newest else None
    staging = Staging(stored.folder / "staging", files)
    try:
        folders = staging.folders()
    except FileNotFoundError:
        return found  # The next start makes it.
    except OSError as error:
        found.damage.append((CorruptionError.of(error, stored.folder / "staging"), _REFUSES_THE_START))
        return found
    for folder in folders:
        _check_write(staging, folder, state, stored.bulk_folder, files, found)
    return found


def _check_write(
    staging: Staging, folder: Path, state: CatalogState | None, bulk_folder: Path, files: Files, found: StagedFound
) -> None:
    try:
        write, contents = staging.read_folder(folder)
    except CorruptionError as error:
        found.damage.append((error, _ENDS_THE_WRITE))
    except FileNotFoundError as error:
        missing = Path(error.filename).name
        found.unnamed.append(Unnamed(folder, f"it has no {missing}; its removal did not finish", is_leftover=True))
    except OSError as error:
        found.damage.append((CorruptionError.of(error, folder), _REFUSES_THE_START))
    else:
        if state is not None and not is_open(write, state):
            why = "its bulk write was committed, or its table was dropped"
            found.unnamed.append(Unnamed(folder, why, is_leftover=True))
            return
        found.write_count += 1
        if state is not None:
            damage = _check_contents(folder, contents, bulk_folder, files)
            found.damage.extend([(error, _IS_UNCOMMITTED) for error in damage])


def _check_contents(
    folder: Path, contents: StagedContents, bulk_folder: Path, files: Files
) -> Iterator[CorruptionError]:
    """Yields the damage of the bulk files and store files of a write."""
    for _, staged in contents.unspilled():
        try:
            read_staged_file(files, bulk_folder, staged.record)
        except CorruptionError as error:
            yield error
        except OSError as error:
            yield CorruptionError.of(error, bulk_folder)
    for family_number, info in [file for spill in contents.spills for run in spill.runs for file in run.files]:
        yield from verify_store_file(store_file_path(folder, family_number, info.number), info, files)
