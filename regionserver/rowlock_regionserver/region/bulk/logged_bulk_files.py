"""The bulk files that the log's records name: they stay until the flush of their cells."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from rowlock_regionserver.files import Files
from rowlock_regionserver.region.bulk.bulk_file import bulk_file_path


class LoggedBulkFiles:
    """Those of one region. Added by replay, or with the gate held exclusively; removed by the one flush that runs."""

    def __init__(self, folder: Path, files: Files) -> None:
        self._folder = folder
        self._files = files
        # By file number.
        self._write_numbers: dict[int, int] = {}

    def __contains__(self, file_number: int) -> bool:
        return file_number in self._write_numbers

    def __iter__(self) -> Iterator[int]:
        """Their numbers."""
        return iter(self._write_numbers)

    def add(self, file_number: int, write_number: int) -> None:
        """The record with this write number names the file."""
        self._write_numbers[file_number] = write_number

    def remove_through(self, write_number: int) -> None:
        """Removes the files of writes up to this number, which replay will pass over."""
        for file_number, of_write in list(self._write_numbers.items()):
            if of_write <= write_number:
                del self._write_numbers[file_number]
                with contextlib.suppress(OSError):  # Nobody reads it any more; the next start tries again.
                    self._files.remove_if_there(bulk_file_path(self._folder, file_number))
