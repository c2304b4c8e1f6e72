"""The folder `staging`: what bulk writes have staged, over restarts.

    staging/N/write        bulk write number N: its session and its table
    staging/N/batch-B      batch B: its bulk files, which are in the folder `bulk`, and the request that sent it
    staging/N/spill-S      spill S: the store files that it wrote, and the batches that are in them
    staging/N/F-K.store    a store file of a spill

The first three are small files with the frame of generations.py. A batch is staged when its file here is durable; the
bulk files are durable before. A spill takes the place of its batches when its file is durable; then their bulk files
are removed. At start a write is open again with its session, unless it was committed, or its table is gone. What
can't be read is removed: its session has ended then, and nothing of it was committed.

Missing files of batches and spills are noticed:

1. Spills are numbered from 1 on. A batch has the number of the one before it plus 1, or its file names that number
   (`after`). So a start notices a missing file that another one follows.
2. A missing last one leaves no trace in the folder. But a client knows the numbers of its batches, and names them in
   the commit, which is refused unless all are there (commit_checks.py). A lost spill leaves its batches without their
   bulk files, so the commit can't read them.
3. For that, a number is never given twice. Which ones were given can't be seen in the files, as any number of the last
   ones may be lost. So numbers are taken from blocks: `write` names the last number of the block in use, and is
   replaced, durably, before a number beyond it is given. After a restart the next number is the first one after the
   block. (A count of batches in `write`, always right, would cost two syncs more for each batch.)

A write of an earlier version names no block; its first restart here continues after the first block, too.
"""

from __future__ import annotations

import base64
import contextlib
import json
import logging
import re
from collections.abc import Callable, Collection, Iterable
from dataclasses import asdict, dataclass, replace
from functools import partial
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
_NUMBERED = re.compile(rf"({_BATCH}|{_SPILL})-(\d{{8,}})")
# The numbers of batches in one block. A write of 400 GB needs a second one, and numbers of 9 digits come only after a
# thousand restarts.
_BLOCK = 100_000

logger = logging.getLogger(__name__)

RequestKey = tuple[bytes, int]
Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class StagedWrite:
    """A bulk write: its session, and its table. last_reserved: no batch has a greater number."""

    session_id: str
    number: int
    owner: str
    purpose: str
    started_ms: int
    idle_ms: int
    table: str
    table_id: int
    write_number: int  # of this bulk write; never used again
    last_reserved: int = _BLOCK


@dataclass(frozen=True, slots=True)
class Batch:
    """What one request staged. parts_of: the requests that it is a part of, since a region was split.

    number: within its bulk write. after: the number of the batch that was staged before it; 0: none was.
    """

    number: int
    after: int
    request: RequestKey | None
    staged: tuple[StagedBatch, ...]
    parts_of: tuple[int, ...] = ()


class StagedContents:
    """What a bulk write has staged: batches by number, and spills in their order. Not thread-safe."""

    def __init__(self, batches: Iterable[Batch] = (), spills: Iterable[Spill] = (), last_reserved: int = 0) -> None:
        """batches: by ascending number. last_reserved: up to this number others may have been given and lost."""
        self._batches: dict[int, Batch] = {}
        self._of_request: dict[RequestKey, Batch] = {}
        self._of_part: dict[RequestKey, Batch] = {}  # by the requests that the batch is a part of
        self.spills: tuple[Spill, ...] = ()
        self.unspilled_bytes = 0  # of the bulk files that are in no spill
        self.last_number = 0  # of the newest batch that is there
        for batch in batches:
            self.add(batch)
        for spill in spills:
            self.add_spill(spill)
        self.next_number = max(self.last_number, last_reserved) + 1

    def add(self, batch: Batch) -> None:
        """Adds a batch, whose number is greater than those of all others. O(1)."""
        assert batch.number > self.last_number, (batch.number, self.last_number)
        self._batches[batch.number] = batch
        self.last_number = batch.number
        self.next_number = batch.number + 1
        self.unspilled_bytes += _byte_count(batch)
        if batch.request is not None:
            client, sequence = batch.request
            self._of_request[client, sequence] = batch
            for part_of in batch.parts_of:
                self._of_part.setdefault((client, part_of), batch)

    def missing(self, numbers: Iterable[int]) -> list[int]:
        """Returns those of these numbers of batches that are not there, in their order."""
        return [number for number in numbers if number not in self._batches]

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


def _batch_of(number: int, fields: Any) -> Batch:  # Any: JSON
    request = fields["request"] and (base64.b64decode(fields["request"][0]), fields["request"][1])
    staged = tuple([StagedBatch.from_json(each) for each in fields["staged"]])
    after = fields.get("after", number - 1)
    if not 0 <= after < number:
        raise ValueError(f"batch {number} can't be after batch {after}")
    return Batch(number, after, request, staged, tuple(fields.get("parts_of", ())))


def _write_fields(write: StagedWrite) -> dict[str, object]:
    """Returns what the file `write` has. Earlier versions can read it before a second block is in use."""
    fields = asdict(write)
    if write.last_reserved == _BLOCK:
        del fields["last_reserved"]
    return fields


class Staging:
    """The files of all bulk writes of a data folder."""

    def __init__(self, folder: Path, files: Files) -> None:
        self._folder = folder
        self._files = files

    def make(self, write: StagedWrite) -> None:
        """Makes the folder of a write, durably. Raises the errors of durable_files.replace_file."""
        folder = self.folder_of(write)
        with contextlib.suppress(FileExistsError):
            self._files.make_folder(folder)
        self._files.fsync_folder(self._folder)
        self._write(write)

    def reserved(self, write: StagedWrite, number: int) -> StagedWrite:
        """Reserves a block of numbers from `number` on, durably. Returns the write with it. Raises as `make`."""
        with_block = replace(write, last_reserved=number + _BLOCK - 1)
        self._write(with_block)
        return with_block

    def _write(self, write: StagedWrite) -> None:
        body = json.dumps(_write_fields(write)).encode()
        replace_file(self._files, self.folder_of(write) / "write", generations.framed(1, body))

    def add(self, write: StagedWrite, batch: Batch) -> None:
        """Makes a batch durable. Raises as `make`."""
        request = batch.request and [base64.b64encode(batch.request[0]).decode(), batch.request[1]]
        fields: dict[str, object] = {"request": request, "staged": [each.to_json() for each in batch.staged]}
        if batch.parts_of:
            fields["parts_of"] = list(batch.parts_of)
        if batch.after != batch.number - 1:
            fields["after"] = batch.after
        path = self.batch_path(write.write_number, batch.number)
        replace_file(self._files, path, generations.framed(batch.number, json.dumps(fields).encode()))

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
        spill_numbers = self._numbers(folder, _SPILL)
        _check_there(folder, _SPILL, spill_numbers, range(1, max(spill_numbers, default=0)))
        spills = [
            self._decoded(folder / _file_name(_SPILL, number), number, Spill.from_json) for number in spill_numbers
        ]
        batch_numbers = self._numbers(folder, _BATCH)
        _check_there(folder, _BATCH, batch_numbers, [number for spill in spills for number in spill.batches])
        batches = [
            self._decoded(folder / _file_name(_BATCH, number), number, partial(_batch_of, number))
            for number in batch_numbers
        ]
        _check_there(folder, _BATCH, batch_numbers, [batch.after for batch in batches if batch.after])
        return write, StagedContents(batches, spills, write.last_reserved)

    def _numbers(self, folder: Path, kind: str) -> list[int]:
        """Returns the numbers of the files of a kind, in ascending order."""
        matches = map(_NUMBERED.fullmatch, self._files.list_folder(folder))
        return sorted([int(match[2]) for match in matches if match and match[1] == kind])

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
        with contextlib.suppress(OSError, TooManyOpenFilesError, MemoryError):
            # `write` first: without it nothing of the folder counts.
            self._files.remove_if_there(folder / "write")
            for name in self._files.list_folder(folder):
                self._files.remove_if_there(folder / name)
            self._files.remove_folder(folder)

    def folder_of(self, write: StagedWrite) -> Path:
        """Returns the folder of a write."""
        return self._folder / str(write.write_number)

    def batch_path(self, write_number: int, number: int) -> Path:
        """Returns the file of a batch of a write."""
        return self._folder / str(write_number) / _file_name(_BATCH, number)


def _check_there(folder: Path, kind: str, numbers: Collection[int], expected: Iterable[int]) -> None:
    """Raises CorruptionError for the first of the expected numbers that no file of this kind has."""
    there = set(numbers)
    for number in expected:
        if number not in there:
            raise CorruptionError.missing(folder / _file_name(kind, number), "what a bulk write staged", "no file")
