"""The live files of a region: its manifest, the store files that readers see, and the removal of unused ones.

A change is one Edit, applied in this order:

1. Commit: the next manifest generation names the live files. It is durable before anything else happens.
2. Publish: readers see the new files instead of what they replace, segments or other files, in one step (stores.py).
3. Remove: files that no manifest names any more are removed, each when its last reader is done.

If there is no space, file descriptor or memory for the manifest, the new files are removed, and nothing has changed.
After any other failure of 1 they stay, because the manifest that names them may be on the disk; the next start finds
out. A lack of memory after the rename of the manifest raises UnknownOutcomeError, because the edit is done in part.

The files of a bulk write come in two steps, because they are committed by the catalog for all regions at once:
`prepare` names them in a manifest, on condition of the commit, and then `adopt` publishes them, or `withdraw` gives
them up. Edits in between keep them.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from rowlock_regionserver.errors import (
    DiskFullError,
    FamilyNotFoundError,
    OutOfMemoryError,
    TooManyOpenFilesError,
)
from rowlock_regionserver.files import Files
from rowlock_regionserver.memstore.memstore import Segment
from rowlock_regionserver.process_limits import memory_error_final
from rowlock_regionserver.region.applied_limits import AppliedLimits
from rowlock_regionserver.region.idempotency.manifest_answers import unnamed_answers
from rowlock_regionserver.region.manifest import LiveManifest, Manifest
from rowlock_regionserver.region.retained_changes import RetainedChanges
from rowlock_regionserver.region.store_file_names import store_file_path
from rowlock_regionserver.region.stores import Store, Stores
from rowlock_regionserver.storefile.info import StoreFileInfo
from rowlock_regionserver.storefile.reader import StoreFile
from rowlock_regionserver.versions.past_limits import forgotten


@dataclass(frozen=True, slots=True)
class Replacement:
    """Neighbouring files of a store, and the files that take their place, both newest first."""

    inputs: Sequence[StoreFile]
    # They have the same cells as the inputs for every reader. An input may stay, with the same path.
    outputs: Sequence[StoreFile]


@dataclass(frozen=True, slots=True)
class Edit:
    """A change of the live files, applied in one step."""

    # By family number, a new file, whose cells are newer than those of the family's other files.
    added: Mapping[int, StoreFile] = field(default_factory=dict)
    # By family number.
    replaced: Mapping[int, Replacement] = field(default_factory=dict)
    # By family number, the memstore segments whose cells are in the added files.
    flushed: Mapping[int, Sequence[Segment]] = field(default_factory=dict)
    # Stores of families that were dropped.
    dropped: Sequence[Store] = ()
    # By family number: the write number up to which past limits make no difference any more.
    settled: Mapping[int, int] = field(default_factory=dict)


class LiveFiles:
    """The live files of one region. Thread-safe: edits are applied one after the other."""

    def __init__(
        self,
        live: LiveManifest,
        stores: Stores,
        files: Files,
        committed: Callable[[int], None],
        changes: Callable[[], RetainedChanges | None] = lambda: None,
    ) -> None:
        """`committed(generation)` is called when a manifest is durable. `changes`: returns the change feed's state."""
        self.folder = live.folder
        self._stores = stores
        self._files = files
        self._committed = committed
        self._changes = changes
        self._edit_lock = threading.Lock()  # held for a whole edit
        self._live = live  # guarded by self._edit_lock for writing; replaced by one assignment
        self._dropped: list[StoreFile] = []  # of dropped families; guarded by self._edit_lock
        self._number_lock = threading.Lock()
        self._next_file_number = live.manifest.next_file_number  # guarded by self._number_lock

    @property
    def manifest(self) -> Manifest:
        """The live manifest."""
        return self._live.manifest

    @property
    def generation(self) -> int:
        """The live manifest's."""
        return self._live.generation

    def path_of(self, family_number: int, file_number: int) -> Path:
        """Returns the path of a store file."""
        return store_file_path(self.folder, family_number, file_number)

    def new_file_number(self) -> int:
        """Returns a number that no file of the region has or had."""
        with self._number_lock:
            number = self._next_file_number
            self._next_file_number += 1
        return number

    def apply_edit(self, edit: Edit, manifest: Manifest | None = None) -> None:
        """Makes the edit. `manifest`: a live one with what changes besides its store files.

        Only one caller at a time may pass a manifest. Raises FamilyNotFoundError if the family of a replacement was
        dropped, DiskFullError, TooManyOpenFilesError, OutOfMemoryError, UnknownOutcomeError and OSError.
        """
        with memory_error_final(self.folder):
            self._apply(edit, manifest)

    def _apply(self, edit: Edit, manifest: Manifest | None) -> None:
        with self._edit_lock:
            # Without space for this manifest, the next one that is committed frees them.
            self._dropped += [file for store in edit.dropped for file in store.files]
            self._check_replaced(edit)
            self._commit(self._edited(self.manifest if manifest is None else manifest, edit))
            dropped, self._dropped = self._dropped, []
            self._publish(edit)
        for file in dropped:
            file.remove_when_unused()
        for replacement in edit.replaced.values():
            kept = {file.path for file in replacement.outputs}
            for file in replacement.inputs:
                if file.path not in kept:
                    file.remove_when_unused()

    def _check_replaced(self, edit: Edit) -> None:
        for number, replacement in edit.replaced.items():
            store = next((store for store in self._stores.all() if store.family.number == number), None)
            if store is None:
                raise self._dropped_error(number)
            _place_of(replacement.inputs, store)

    def _dropped_error(self, family_number: int) -> FamilyNotFoundError:
        return FamilyNotFoundError(f"family {family_number} of the region in {self.folder} was dropped meanwhile")

    def prepare(self, files: Mapping[int, Sequence[StoreFile]]) -> None:
        """Names new files in a manifest, durably; they count if the catalog gets the commit in their infos.

        `files`: by family number, newest first; their cells are newer than those of all other files. No flush runs
        until `adopt` or `withdraw`. Raises as `apply_edit`; then the files are removed, unless the outcome is unknown.
        """
        with self._edit_lock, memory_error_final(self.folder):
            manifest = self._edited(self.manifest, Edit())
            live = manifest.store_files
            added = {number: tuple([file.info for file in of_family]) for number, of_family in files.items()}
            named = {number: (*infos, *live.get(number, ())) for number, infos in added.items()}
            self._commit(replace(manifest, store_files={**live, **named}))

    def adopt(self, files: Mapping[int, Sequence[StoreFile]]) -> None:
        """Publishes files that were prepared: their commit is durable. Never fails; needs no disk.

        The next manifest has them without the condition.
        """
        adopted = {number: tuple([file.without_condition() for file in each]) for number, each in files.items()}

        def publish() -> None:
            for number, of_family in adopted.items():
                store = self._stores.of(number)
                store.files = (*of_family, *store.files)

        with self._edit_lock:
            manifest = self.manifest
            numbers = {file.info.commit_number for of_family in files.values() for file in of_family}
            self._live = replace(self._live, manifest=manifest.counted(numbers))
            self._stores.change(publish)

    def withdraw(self) -> None:
        """Forgets files that were prepared: there is no commit. The next manifest does not name them."""
        with self._edit_lock:
            self._live = replace(self._live, manifest=self.manifest.counted(()))

    def discard(self, manifest: Manifest, added: Sequence[Path]) -> None:
        """Removes the files that were written for an edit and its manifest, which will not be applied."""
        for path in (*added, *unnamed_answers(manifest, self.manifest, self.folder)):
            self._files.remove_if_there(path)

    def _commit(self, manifest: Manifest) -> None:
        """1. Makes the manifest live: the commit point."""
        before = self.manifest
        try:
            self._live = self._live.replaced(self._files, manifest)
        except (DiskFullError, TooManyOpenFilesError, OutOfMemoryError):
            self.discard(manifest, sorted(self._paths(manifest) - self._paths(before)))
            raise
        self._committed(self._live.generation)
        for path in unnamed_answers(before, manifest, self.folder):
            with contextlib.suppress(OSError):  # The next start removes it.
                self._files.remove_if_there(path)

    def _paths(self, manifest: Manifest) -> set[Path]:
        return {self.path_of(number, info.number) for number, infos in manifest.store_files.items() for info in infos}

    def _edited(self, manifest: Manifest, edit: Edit) -> Manifest:
        """Returns the manifest with the live store files and this change of them, and without dropped families."""
        dropped = {store.family.number for store in edit.dropped}
        families = [store.family for store in self._stores.all() if store.family.number not in dropped]
        served = {family.number for family in families}
        limits = {
            family.number: AppliedLimits.of(forgotten(family, edit.settled.get(family.number, 0)))
            for family in families
        }
        live = self.manifest.store_files
        store_files = {number: infos for number, infos in live.items() if number in served}
        for number, replacement in edit.replaced.items():
            if number not in served:
                raise self._dropped_error(number)
            store_files[number] = _replaced_infos(store_files[number], replacement)
        for number, file in edit.added.items():
            store_files[number] = (file.info, *store_files.get(number, ()))
        return replace(
            manifest,
            store_files=store_files,
            next_file_number=self._next_file_number,
            unflushed_cells={number: each for number, each in manifest.unflushed_cells.items() if number in served},
            limits=limits,
            changes=self._changes(),
        )

    def _publish(self, edit: Edit) -> None:
        """2. Replaces segments by files, in one step for all readers."""

        def exchange() -> None:
            served = {store.family.number: store for store in self._stores.all()}
            for number, file in edit.added.items():
                store = self._stores.of(number)
                store.files = (file, *store.files)
            for number, replacement in edit.replaced.items():
                if number not in served:
                    # The family was dropped while the manifest was written. The manifest of the drop follows.
                    self._dropped += [file for file in replacement.outputs if file not in replacement.inputs]
                    continue
                store = served[number]
                place = _place_of(replacement.inputs, store)
                after = store.files[place + len(replacement.inputs) :]
                store.files = (*store.files[:place], *replacement.outputs, *after)
            for number, segments in edit.flushed.items():
                self._stores.of(number).memstore.drop(segments)
            for number, write_number in edit.settled.items():
                if number in served:
                    served[number].family = forgotten(served[number].family, write_number)

        if edit.added or edit.replaced or edit.flushed:
            self._stores.change(exchange)


def _place_of(files: Sequence[StoreFile], store: Store) -> int:
    """Returns the place of the first of the files in the store, where they are neighbours."""
    place = store.files.index(files[0])
    assert tuple(files) == store.files[place : place + len(files)], f"{files} are not neighbours in {store.files}"
    return place


def _replaced_infos(infos: Sequence[StoreFileInfo], replacement: Replacement) -> tuple[StoreFileInfo, ...]:
    numbers = [info.number for info in infos]
    place = numbers.index(replacement.inputs[0].info.number)
    outputs = [file.info for file in replacement.outputs]
    return (*infos[:place], *outputs, *infos[place + len(replacement.inputs) :])
