"""The folder `staging`: what bulk writes have staged, over restarts.

    staging/N/write        bulk write number N: its session and its table
    staging/N/batch-B      batch B: its bulk files, which are in the folder `bulk`, and the request that sent it

Both are small files with the frame of generations.py. A batch is staged when its file here is durable; the bulk files
are durable before. At start a write is open again with its session, unless it was committed, or its table is gone. What
can't be read is removed: its session has ended then, and nothing of it was committed.
"""

from __future__ import annotations

import base64
import contextlib
import json
import re
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from rowlock_regionserver import generations
from rowlock_regionserver.catalog.catalog import CatalogState
from rowlock_regionserver.durable_files import replace_file
from rowlock_regionserver.errors import CorruptionError
from rowlock_regionserver.files import Files
from rowlock_regionserver.region.bulk.staged import StagedBatch

_FOLDER = re.compile(r"\d+")
_BATCH = re.compile(r"batch-(\d{8})")

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
    """What one request staged."""

    request: RequestKey | None
    staged: tuple[StagedBatch, ...]


class Staging:
    """The files of all bulk writes of a data folder."""

    def __init__(self, folder: Path, files: Files) -> None:
        self._folder = folder
        self._files = files

    def make(self, write: StagedWrite) -> None:
        """Makes the folder of a write, durably. Raises DiskFullError, UnknownOutcomeError and OSError."""
        folder = self._folder_of(write)
        with contextlib.suppress(FileExistsError):
            self._files.make_folder(folder)
        self._files.fsync_folder(self._folder)
        replace_file(self._files, folder / "write", generations.framed(1, json.dumps(asdict(write)).encode()))

    def add(self, write: StagedWrite, number: int, batch: Batch) -> None:
        """Makes a batch durable. Raises as `make`."""
        request = batch.request and [base64.b64encode(batch.request[0]).decode(), batch.request[1]]
        body = json.dumps({"request": request, "staged": [each.to_json() for each in batch.staged]}).encode()
        replace_file(self._files, self._folder_of(write) / f"batch-{number:08d}", generations.framed(number, body))

    def remove(self, write: StagedWrite) -> None:
        """Removes the folder of a write, not its bulk files. What can't be removed is removed by the next start."""
        self._remove(self._folder_of(write))

    def read(self, state: CatalogState) -> list[tuple[StagedWrite, dict[int, Batch]]]:
        """Returns the open writes with their batches by number. Removes the folders of all others."""
        with contextlib.suppress(FileExistsError):
            self._files.make_folder(self._folder)
        found = []
        for name in self._files.list_folder(self._folder):
            if _FOLDER.fullmatch(name):
                folder = self._folder / name
                try:
                    write, batches = self._read(folder)
                except (CorruptionError, FileNotFoundError, KeyError, TypeError, ValueError):
                    self._remove(folder)
                    continue
                is_of_table = any(entry.table.table_id == write.table_id for entry in state.tables)
                if is_of_table and state.commits.of_write(write.write_number) is None:
                    found.append((write, batches))
                else:
                    self._remove(folder)
        return found

    def _read(self, folder: Path) -> tuple[StagedWrite, dict[int, Batch]]:
        write = StagedWrite(**json.loads(generations.read(self._files, folder / "write", 1)))
        return write, dict(self._batches(folder))

    def _batches(self, folder: Path) -> Iterator[tuple[int, Batch]]:
        for name in self._files.list_folder(folder):
            match = _BATCH.fullmatch(name)
            if match:
                number = int(match[1])
                fields = json.loads(generations.read(self._files, folder / name, number))
                request = fields["request"] and (base64.b64decode(fields["request"][0]), fields["request"][1])
                yield number, Batch(request, tuple([StagedBatch.from_json(each) for each in fields["staged"]]))

    def _remove(self, folder: Path) -> None:
        with contextlib.suppress(OSError):
            # `write` last: without it nothing of the folder counts.
            for name in self._files.list_folder(folder):
                self._files.remove_if_there(folder / name)
            self._files.remove_folder(folder)

    def _folder_of(self, write: StagedWrite) -> Path:
        return self._folder / str(write.write_number)
