"""The bulk files that the log's records name, until a flush has written their cells."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from rowlock_regionserver.files import Files
from rowlock_regionserver.region.bulk.bulk_file import bulk_file_path


class LoggedBulkFiles:
    """The logged bulk files of one region. Replay or a holder of the exclusive gate adds, the running flush removes."""

    def __init__(self, folder: Path, files: Files) -> None:
        self._folder = folder
        self._files = files
        self._write_numbers: dict[int, int] = {}  # by file number

    def __contains__(self, file_number: int) -> bool:
        return file_number in self._write_numbers

    def __iter__(self) -> Iterator[int]:
        """Yields the file numbers."""
        return iter(self._write_numbers)

    def add(self, file_number: int, write_number: int) -> None:
        """Adds a file, which the record with this write number names."""
        self._write_numbers[file_number] = write_number

    def remove_through(self, write_number: int) -> None:
        """Removes the files of writes up to this number, which replay will skip."""
        for file_number, of_write in list(self._write_numbers.items()):
            if of_write <= write_number:
                del self._write_numbers[file_number]
                with contextlib.suppress(OSError):  # It is unused; the next start tries again.
                    self._files.remove_if_there(bulk_file_path(self._folder, file_number))
