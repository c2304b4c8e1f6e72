"""The folder `staging`: what bulk writes have staged, over restarts.

    staging/N/write        bulk write number N: its session and its table
    staging/N/batch-B      batch B: its bulk files, which are in the folder `bulk`, and the request that sent it
    staging/N/spill-S      spill S: the store files that it wrote, and the batches that are in them
    staging/N/F-K.store    a store file of a spill

The first three are small files with the frame of generations.py. A batch is staged when its file here is durable; the
bulk files are durable before. A spill takes the place of its batches when its file is durable; then their bulk files
are removed. At start a write is open again with its session, unless it was committed, or its table is gone. What
can't be read is removed: its session has ended then, and nothing of it was committed. Batches and spills are numbered
from 1 on, so that a missing file is noticed, unless it is the last one.
"""

from __future__ import annotations

import base64
import contextlib
import json
import logging
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeVar

from rowlock_regionserver import generations
from rowlock_regionserver.catalog.catalog import CatalogState
from rowlock_regionserver.durable_files import TEMPORARY_SUFFIX, replace_file
from rowlock_regionserver.errors import CorruptionError, TooManyOpenFilesError
from rowlock_regionserver.files import Files
from rowlock_regionserver.operations import RequestId
from rowlock_regionserver.region.bulk.spilled import Spill
from rowlock_regionserver.region.bulk.staged import StagedBatch
from rowlock_regionserver.region.store_file_names import store_file_path

_FOLDER = re.compile(r"\d+")
_BATCH, _SPILL = "batch", "spill"
_NUMBERED = re.compile(rf"({_BATCH}|{_SPILL})-(\d{{8}})")

logger = logging.getLogger(__name__)

RequestKey = tuple[bytes, int]
Value = TypeVar("Value")


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


class StagedContents:
    """What a bulk write has staged: batches by number, and spills in their order. Not thread-safe."""

    def __init__(self, batches: Mapping[int, Batch] | None = None, spills: Iterable[Spill] = ()) -> None:
        self._batches: dict[int, Batch] = {}
        self._of_request: dict[RequestKey, Batch] = {}
        self._of_part: dict[RequestKey, Batch] = {}  # by the requests that the batch is a part of
        self.spills: tuple[Spill, ...] = ()
        self.unspilled_bytes = 0  # of the bulk files that are in no spill
        self.next_number = 1
        for number, batch in sorted((batches or {}).items()):
            self.add(number, batch)
        for spill in spills:
            self.add_spill(spill)

    def add(self, number: int, batch: Batch) -> None:
        """Adds a batch, whose number is not less than `next_number`. O(1)."""
        self._batches[number] = batch
        self.next_number = number + 1
        self.unspilled_bytes += _byte_count(batch)
        if batch.request is not None:
            client, sequence = batch.request
            self._of_request[client, sequence] = batch
            for part_of in batch.parts_of:
                self._of_part.setdefault((client, part_of), batch)

    def add_spill(self, spill: Spill) -> None:
        """Adds a spill of some batches."""
        self.spills = (*self.spills, spill)
        self.unspilled_bytes -= sum([_byte_count(self._batches[number]) for number in spill.batches])

    def find(self, request: RequestId | None) -> Batch | None:
        """Returns what this request has staged, or the one that it is a part of, or a part of it.

        A client sends parts of a batch when it does not know whether the whole was staged. It sends all parts, so a
        whole that comes after one of them adds nothing, and could win over later batches.
        """
        if request is None:
            return None
        for sequence in (request.sequence, *request.parts_of):
            found = self._of_request.get((request.client, sequence))
            if found is not None:
                return found
        return self._of_part.get((request.client, request.sequence))

    def unspilled(self) -> list[tuple[int, StagedBatch]]:
        """Returns the staged files that are in no spill, with the numbers of their batches, as they were sent."""
        spilled = {number for spill in self.spills for number in spill.batches}
        rest = [(number, batch) for number, batch in self._batches.items() if number not in spilled]
        return [(number, each) for number, batch in rest for each in batch.staged]

    def spilled(self) -> list[StagedBatch]:
        """Returns the batches that are in spills; their bulk files are gone."""
        return [each for spill in self.spills for number in spill.batches for each in self._batches[number].staged]

    def every_batch(self) -> list[StagedBatch]:
        """Returns all batches, in spills or not."""
        return [each for batch in self._batches.values() for each in batch.staged]


def _byte_count(batch: Batch) -> int:
    return sum([each.record.file_bytes for each in batch.staged])


def is_open(write: StagedWrite, state: CatalogState) -> bool:
    """Returns whether a start opens the write again: its table is there, and it was not committed."""
    is_of_table = any(entry.table.table_id == write.table_id for entry in state.tables)
    return is_of_table and state.commits.of_write(write.write_number) is None


def _file_name(kind: str, number: int) -> str:
    return f"{kind}-{number:08d}"


def _batch_of(fields: Any) -> Batch:  # Any: JSON
    request = fields["request"] and (base64.b64decode(fields["request"][0]), fields["request"][1])
    staged = tuple([StagedBatch.from_json(each) for each in fields["staged"]])
    return Batch(request, staged, tuple(fields.get("parts_of", ())))


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
        replace_file(self._files, self.folder_of(write) / _file_name(_BATCH, number), generations.framed(number, body))

    def add_spill(self, write: StagedWrite, number: int, spill: Spill) -> None:
        """Makes a spill take the place of its batches, durably. Raises as `make`."""
        body = json.dumps(spill.to_json()).encode()
        replace_file(self._files, self.folder_of(write) / _file_name(_SPILL, number), generations.framed(number, body))

    def remove(self, write: StagedWrite) -> None:
        """Removes the folder of a write, not its bulk files. What can't be removed is removed by the next start."""
        self._remove(self.folder_of(write))

    def read(self, state: CatalogState) -> list[tuple[StagedWrite, StagedContents]]:
        """Returns the open writes with what they have staged. Removes the folders of all others."""
        with contextlib.suppress(FileExistsError):
            self._files.make_folder(self._folder)
        found = []
        for folder in self.folders():
            try:
                write, contents = self.read_folder(folder)
            except FileNotFoundError:
                self._remove(folder)
                continue
            except CorruptionError as error:
                logger.warning(
                    "a bulk write has ended, unless it was committed, and is removed: expected %s in %s, found %s",
                    *(error.expected, error.path, error.found),
                )
                self._remove(folder)
                continue
            if is_open(write, state):
                self._remove_unnamed(folder, contents)
                found.append((write, contents))
            else:
                self._remove(folder)
        return found

    def folders(self) -> list[Path]:
        """Returns the folders of all writes. Raises OSError."""
        return [self._folder / name for name in self._files.list_folder(self._folder) if _FOLDER.fullmatch(name)]

    def read_folder(self, folder: Path) -> tuple[StagedWrite, StagedContents]:
        """Returns the write in a folder with what it has staged; only reads.

        Raises CorruptionError for the first file that is damaged or missing, FileNotFoundError without `write`, as
        after a removal that did not finish, DataFolderError when a newer version wrote one, and OSError.
        """
        write = self._decoded(folder / "write", 1, lambda fields: StagedWrite(**fields))
        spills = [self._decoded(path, number, Spill.from_json) for number, path in self._numbered(folder, _SPILL)]
        last_spilled = max([number for spill in spills for number in spill.batches], default=0)
        paths = self._numbered(folder, _BATCH, last_spilled)
        batches = {number: self._decoded(path, number, _batch_of) for number, path in paths}
        return write, StagedContents(batches, spills)

    def _numbered(self, folder: Path, kind: str, last: int = 0) -> list[tuple[int, Path]]:
        """Returns the files of a kind with their numbers, from 1 to `last` at least.

        Raises CorruptionError if one is missing.
        """
        matches = map(_NUMBERED.fullmatch, self._files.list_folder(folder))
        numbers = {int(match[2]) for match in matches if match and match[1] == kind}
        every = range(1, max(numbers | {last}) + 1)
        for number in every:
            if number not in numbers:
                path = folder / _file_name(kind, number)
                raise CorruptionError.missing(path, "what a bulk write staged", "no file")
        return [(number, folder / _file_name(kind, number)) for number in every]

    def _decoded(self, path: Path, number: int, decode: Callable[[Any], Value]) -> Value:  # Any: JSON
        body = generations.read(self._files, path, number)
        try:
            return decode(json.loads(body))
        except (LookupError, TypeError, ValueError) as error:
            raise CorruptionError(path, 0, "a file of a bulk write of this version", repr(error)) from error

    def _remove_unnamed(self, folder: Path, contents: StagedContents) -> None:
        """Removes what a spill has left that did not finish."""
        files = [file for spill in contents.spills for run in spill.runs for file in run.files]
        named = {store_file_path(folder, family_number, info.number).name for family_number, info in files}
        with contextlib.suppress(OSError, TooManyOpenFilesError):
            for name in self._files.list_folder(folder):
                if name.endswith(TEMPORARY_SUFFIX) or (name.endswith(".store") and name not in named):
                    self._files.remove_if_there(folder / name)

    def _remove(self, folder: Path) -> None:
        with contextlib.suppress(OSError, TooManyOpenFilesError):
            # `write` first: without it nothing of the folder counts.
            self._files.remove_if_there(folder / "write")
            for name in self._files.list_folder(folder):
                self._files.remove_if_there(folder / name)
            self._files.remove_folder(folder)

    def folder_of(self, write: StagedWrite) -> Path:
        """Returns the folder of a write."""
        return self._folder / str(write.write_number)
