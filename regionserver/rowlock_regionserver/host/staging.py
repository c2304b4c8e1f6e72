"""The folder `staging`: what bulk writes have staged, over restarts.

    staging/N/write        bulk write number N: its session and its table
    staging/N/batch-B      batch B: its bulk files, which are in the folder `bulk`, and the request that sent it
    staging/N/spill-S      spill S: the store files that it wrote, and the batches that are in them
    staging/N/F-K.store    a store file of a spill

The first three are small files with the frame of generations.py. A batch is staged when its file here is durable; the
bulk files are durable before. A spill takes the place of its batches when its file is durable; then their bulk files
are removed. At start a write is open again with its session, unless it was committed, or its table is gone. What
can't be read is removed: its session has ended then, and nothing of it was committed.
"""

from __future__ import annotations

import base64
import contextlib
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

from rowlock_regionserver import generations
from rowlock_regionserver.catalog.catalog import CatalogState
from rowlock_regionserver.durable_files import TEMPORARY_SUFFIX, replace_file
from rowlock_regionserver.errors import CorruptionError
from rowlock_regionserver.files import Files
from rowlock_regionserver.operations import RequestId
from rowlock_regionserver.region.bulk.spilled import Spill
from rowlock_regionserver.region.bulk.staged import StagedBatch
from rowlock_regionserver.region.store_file_names import store_file_path

_FOLDER = re.compile(r"\d+")
_BATCH = re.compile(r"batch-(\d{8})")
_SPILL = re.compile(r"spill-(\d{8})")

RequestKey = tuple[bytes, int]


@dataclass(frozen=True, slots=True)
class StagedWrite:
    """A bulk write: its session, and its table."""

    session_id: str
    number: int
    owner: str
    purpose: str
    started_ms: int
    idle_ms: int
    table: str
    table_id: int
    write_number: int  # of this bulk write; never used again


@dataclass(frozen=True, slots=True)
class Batch:
    """What one request staged. parts_of: the requests that it is a part of, since a region was split."""

    request: RequestKey | None
    staged: tuple[StagedBatch, ...]
    parts_of: tuple[int, ...] = ()

    def is_of(self, request: RequestId) -> bool:
        """Whether the request staged this, or is a part of the one that did, or this is a part of it, and it is late.

        A client sends parts of a batch when it does not know whether the whole was staged. It sends all parts, so a
        whole that comes after one of them adds nothing, and could win over later batches.
        """
        if self.request is None or self.request[0] != request.client:
            return False
        return self.request[1] in (request.sequence, *request.parts_of) or request.sequence in self.parts_of


@dataclass(frozen=True, slots=True)
class StagedContents:
    """What a bulk write has staged: batches by number, and spills in their order. Immutable."""

    batches: Mapping[int, Batch] = field(default_factory=dict)
    spills: tuple[Spill, ...] = ()

    def unspilled(self) -> list[tuple[int, StagedBatch]]:
        """Returns the staged files that are in no spill, with the numbers of their batches, as they were sent."""
        spilled = {number for spill in self.spills for number in spill.batches}
        rest = [(number, batch) for number, batch in sorted(self.batches.items()) if number not in spilled]
        return [(number, each) for number, batch in rest for each in batch.staged]

    def spilled(self) -> list[StagedBatch]:
        """Returns the batches that are in spills; their bulk files are gone."""
        return [each for spill in self.spills for number in spill.batches for each in self.batches[number].staged]

    def every_batch(self) -> list[StagedBatch]:
        """Returns all batches, in spills or not."""
        return [each for batch in self.batches.values() for each in batch.staged]

    def with_batch(self, number: int, batch: Batch) -> StagedContents:
        """Returns it with one batch more."""
        return StagedContents({**self.batches, number: batch}, self.spills)

    def with_spill(self, spill: Spill) -> StagedContents:
        """Returns it with one spill more."""
        return StagedContents(self.batches, (*self.spills, spill))


class Staging:
    """The files of all bulk writes of a data folder."""

    def __init__(self, folder: Path, files: Files) -> None:
        self._folder = folder
        self._files = files

    def make(self, write: StagedWrite) -> None:
        """Makes the folder of a write, durably. Raises DiskFullError, UnknownOutcomeError and OSError."""
        folder = self.folder_of(write)
        with contextlib.suppress(FileExistsError):
            self._files.make_folder(folder)
        self._files.fsync_folder(self._folder)
        replace_file(self._files, folder / "write", generations.framed(1, json.dumps(asdict(write)).encode()))

    def add(self, write: StagedWrite, number: int, batch: Batch) -> None:
        """Makes a batch durable. Raises as `make`."""
        request = batch.request and [base64.b64encode(batch.request[0]).decode(), batch.request[1]]
        fields: dict[str, object] = {"request": request, "staged": [each.to_json() for each in batch.staged]}
        if batch.parts_of:
            fields["parts_of"] = list(batch.parts_of)
        body = json.dumps(fields).encode()
        replace_file(self._files, self.folder_of(write) / f"batch-{number:08d}", generations.framed(number, body))

    def add_spill(self, write: StagedWrite, number: int, spill: Spill) -> None:
        """Makes a spill take the place of its batches, durably. Raises as `make`."""
        body = json.dumps(spill.to_json()).encode()
        replace_file(self._files, self.folder_of(write) / f"spill-{number:08d}", generations.framed(number, body))

    def remove(self, write: StagedWrite) -> None:
        """Removes the folder of a write, not its bulk files. What can't be removed is removed by the next start."""
        self._remove(self.folder_of(write))

    def read(self, state: CatalogState) -> list[tuple[StagedWrite, StagedContents]]:
        """Returns the open writes with what they have staged. Removes the folders of all others."""
        with contextlib.suppress(FileExistsError):
            self._files.make_folder(self._folder)
        found = []
        for name in self._files.list_folder(self._folder):
            if _FOLDER.fullmatch(name):
                folder = self._folder / name
                try:
                    write, contents = self._read(folder)
                except (CorruptionError, FileNotFoundError, KeyError, TypeError, ValueError):
                    self._remove(folder)
                    continue
                is_of_table = any(entry.table.table_id == write.table_id for entry in state.tables)
                if is_of_table and state.commits.of_write(write.write_number) is None:
                    self._remove_unnamed(folder, contents)
                    found.append((write, contents))
                else:
                    self._remove(folder)
        return found

    def _read(self, folder: Path) -> tuple[StagedWrite, StagedContents]:
        write = StagedWrite(**json.loads(generations.read(self._files, folder / "write", 1)))
        return write, StagedContents(dict(self._batches(folder)), tuple(self._spills(folder)))

    def _batches(self, folder: Path) -> Iterator[tuple[int, Batch]]:
        for name in self._files.list_folder(folder):
            match = _BATCH.fullmatch(name)
            if match:
                number = int(match[1])
                fields = json.loads(generations.read(self._files, folder / name, number))
                request = fields["request"] and (base64.b64decode(fields["request"][0]), fields["request"][1])
                staged = tuple([StagedBatch.from_json(each) for each in fields["staged"]])
                yield number, Batch(request, staged, tuple(fields.get("parts_of", ())))

    def _spills(self, folder: Path) -> Iterator[Spill]:
        for name in sorted(self._files.list_folder(folder)):
            match = _SPILL.fullmatch(name)
            if match:
                yield Spill.from_json(json.loads(generations.read(self._files, folder / name, int(match[1]))))

    def _remove_unnamed(self, folder: Path, contents: StagedContents) -> None:
        """Removes what a spill has left that did not finish."""
        files = [file for spill in contents.spills for run in spill.runs for file in run.files]
        named = {store_file_path(folder, family_number, info.number).name for family_number, info in files}
        with contextlib.suppress(OSError):
            for name in self._files.list_folder(folder):
                if name.endswith(TEMPORARY_SUFFIX) or (name.endswith(".store") and name not in named):
                    self._files.remove_if_there(folder / name)

    def _remove(self, folder: Path) -> None:
        with contextlib.suppress(OSError):
            # `write` last: without it nothing of the folder counts.
            for name in self._files.list_folder(folder):
                self._files.remove_if_there(folder / name)
            self._files.remove_folder(folder)

    def folder_of(self, write: StagedWrite) -> Path:
        """Returns the folder of a write."""
        return self._folder / str(write.write_number)
