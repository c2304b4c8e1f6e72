"""The files of compaction histories: `compactions-N` in a region's folder, generations of one small file.

They only inform operators. One that can't be read is ignored with a line in the server's log, and so is a write for
which there is no space. But a failed sync of the folder is final, as it is for a manifest in the same folder.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from pathlib import Path

from rowlock_regionserver import generations
from rowlock_regionserver.compaction import history
from rowlock_regionserver.compaction.history import StoreHistory
from rowlock_regionserver.errors import (
    CorruptionError,
    DataFolderError,
    DiskFullError,
    OutOfMemoryError,
    TooManyOpenFilesError,
    UnknownOutcomeError,
)
from rowlock_regionserver.files import Files

NAME = "compactions"
logger = logging.getLogger(__name__)


class HistoryFiles:
    """Reads and writes the histories of regions by id. Thread-safe."""

    def __init__(self, files: Files, folder_of: Callable[[int], Path]) -> None:
        self._files = files
        self._folder_of = folder_of
        self._lock = threading.Lock()
        # Guarded by self._lock:
        self._generations: dict[int, int] = {}

    def read(self, region_id: int) -> tuple[dict[int, StoreHistory], int]:
        """Returns the histories of a region's stores by family number, and the next job id; ({}, 1) without a file."""
        folder = self._folder_of(region_id)
        try:
            numbers = generations.generation_numbers(self._files, folder, NAME)
            if not numbers:
                return {}, 1
            with self._lock:
                self._generations[region_id] = numbers[-1]
            return history.decode(generations.read_newest(self._files, folder, NAME)[1])
        except (CorruptionError, DataFolderError, OSError, KeyError, TypeError, ValueError, AttributeError) as error:
            logger.warning("the history of compactions in %s can't be read and is ignored: %s", folder, error)
            return {}, 1

    def write(self, region_id: int, state: Callable[[int], tuple[Mapping[int, StoreHistory], int] | None]) -> None:
        """Writes what `state` returns for the region: the histories of its stores and the next job id; None: nothing.

        Blocks on the disk. Raises UnknownOutcomeError, after which the process should end.
        """
        with self._lock:
            newest = state(region_id)
            if newest is None:
                return
            folder, generation = self._folder_of(region_id), self._generations.get(region_id, 0) + 1
            try:
                generations.write(self._files, folder, NAME, generation, history.encode(*newest))
            except UnknownOutcomeError:
                raise
            except (DiskFullError, TooManyOpenFilesError, OutOfMemoryError, OSError) as error:
                logger.warning("the history of compactions in %s could not be written: %s", folder, error)
            else:
                self._generations[region_id] = generation

    def forget(self, region_id: int) -> None:
        """Waits for a write of the region's history. The caller has made sure that `state` returns None from now on."""
        with self._lock:
            self._generations.pop(region_id, None)
