"""Opens a store file, and gives its runs, each of which is a source of reads.

A file has up to three runs: cell blocks, wide blocks, and wide blocks of older lines. A row may have cells in all.

Opening checks the length and then the metadata, whose place and checksum are in the manifest. After that the indexes
and the Bloom filter are in memory. Blocks are read on demand (block_file.py), with a descriptor that is borrowed for
each read (open_files.py).

Of a clipped file only some rows count, and its runs have no others (clipped_run.py). Its counts and its bytes are then
estimates, from the bytes of the blocks that may have these rows. A file that a bulk write staged has other numbers than
were written (adopted_numbers.py).

A store file has no close(). Cells, tables and lines that its runs returned do not refer to it. The runs, and values
that are away, hold a reference to the open file.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from rowlock_regionserver.errors import CorruptionError
from rowlock_regionserver.files import Files
from rowlock_regionserver.storefile import format as layout
from rowlock_regionserver.storefile import metadata
from rowlock_regionserver.storefile.block_file import BlockFile
from rowlock_regionserver.storefile.cache import BlockCache
from rowlock_regionserver.storefile.cell_run import CellRun
from rowlock_regionserver.storefile.clip import Clip, row_before
from rowlock_regionserver.storefile.clipped_run import ClippedRun
from rowlock_regionserver.storefile.extents import Extent, read_payload
from rowlock_regionserver.storefile.info import StoreFileInfo
from rowlock_regionserver.storefile.open_files import OpenFiles
from rowlock_regionserver.storefile.row_filter import RowFilter
from rowlock_regionserver.storefile.wide_run import WideRun

Run = CellRun | WideRun | ClippedRun


class StoreFile:
    """An open store file. Safe to use from many threads."""

    @classmethod
    def open(cls, path: Path, info: StoreFileInfo, cache: BlockCache, open_files: OpenFiles) -> StoreFile:
        """Opens and checks the file that `info` describes; blocks on the disk.

        Raises CorruptionError when length or metadata are not as written, FileNotFoundError when it is missing, and
        DataFolderError when a newer rowlock wrote it.
        """
        handle = open_files.handle(path)
        files = open_files.files
        try:
            with handle as descriptor:
                contents = read_metadata(path, info, files, descriptor)
        except BaseException:
            handle.release()
            open_files.close_released()
            raise
        return cls(info, BlockFile(handle, cache, files, contents.bytes_held), contents)

    def linked(self, path: Path, info: StoreFileInfo, cache: BlockCache, open_files: OpenFiles) -> StoreFile:
        """Returns the file by another name, a hard link, and with another entry. Reads nothing."""
        assert info.metadata_checksum == self.info.metadata_checksum, (info, self.info)
        handle = open_files.handle(path)
        handle.identity = self._file.handle.identity  # Its first read opens no other file of this name.
        return StoreFile(info, BlockFile(handle, cache, open_files.files, self._contents.bytes_held), self._contents)

    def __init__(self, info: StoreFileInfo, file: BlockFile, contents: metadata.Metadata) -> None:
        self.path = file.path
        self._contents = contents
        self.info = info
        self._file = file
        clip = Clip(info.clip_start, info.clip_stop) if info.is_clipped else None
        runs = _runs_of(info, file, contents, clip)
        self.runs: tuple[Run, ...] = tuple(runs) if clip is None else tuple([ClippedRun(run, clip) for run in runs])
        # What counts of the file's bytes.
        self._share = 1.0 if clip is None else _share(runs, self.runs)
        edges = [(run.empty_until(b"", b""), run.empty_until(b"", b"", reverse=True)) for run in self.runs]
        # Both inclusive. If no row can be in the file, the last one comes before the first.
        self.first_row = min([first for first, _ in edges if first is not None], default=b"\x00")
        self.last_row = max([row_before(after) for _, after in edges if after is not None], default=b"")

    @property
    def byte_count(self) -> int:
        """The bytes on the disk; of a clipped file, about those of the rows that count."""
        return self.estimated(self.info.file_bytes)

    def estimated(self, count: int) -> int:
        """Returns how many of `count` things in the file are in rows that count: `count`, unless it is clipped.

        Of a clipped file, the share of its bytes, rounded up: 0 only if `count` is.
        """
        return math.ceil(count * self._share) if self.info.is_clipped else count

    def as_base(self) -> StoreFile:
        """Returns the same open file as a base."""
        base = copy.copy(self)
        base.info = replace(self.info, is_base=True)
        return base

    def without_condition(self) -> StoreFile:
        """Returns the same open file when its commit is durable."""
        committed = copy.copy(self)
        committed.info = replace(self.info, commit_number=0)
        return committed

    def remove_when_unused(self, *, folder_too: bool = False) -> None:
        """Removes the file after the last reference to it, and with `folder_too` its folder if it is empty then."""
        self._file.handle.remove_when_unused(folder_too=folder_too)


def _runs_of(
    info: StoreFileInfo, file: BlockFile, contents: metadata.Metadata, clip: Clip | None
) -> list[CellRun | WideRun]:
    """Returns the runs that have blocks; an empty file has an empty run of cells."""
    numbers = info.numbers
    groups = numbers.of_groups(contents.row_groups if clip is None else clip.of_groups(contents.row_groups))
    runs: list[CellRun | WideRun] = []
    if len(contents.wide_index):
        rows = RowFilter(contents.bloom_words, contents.wide_index)
        runs.append(WideRun(file, numbers.of_index(contents.wide_index), rows, groups, numbers))
    if len(contents.older_index):
        rows = RowFilter(contents.bloom_words, contents.older_index)
        index = numbers.of_index(contents.older_index)
        runs.append(WideRun(file, index, rows, groups.of_older_lines(), numbers))
    if len(contents.index) or not runs:
        runs.append(CellRun(file, info, contents.index, RowFilter(contents.bloom_words, contents.index)))
    return runs


def _share(runs: Sequence[Run], clipped: Sequence[Run]) -> float:
    """Returns the bytes of the clipped runs as a share of those of the runs."""
    part, whole = (sum(weight for run in each for _, weight in run.row_weights()) for each in (clipped, runs))
    return part / whole if whole else 1.0


def read_metadata(path: Path, info: StoreFileInfo, files: Files, descriptor: int) -> metadata.Metadata:
    """Reads the metadata of the open file and verifies it against `info`; raises CorruptionError if they differ."""
    file_bytes = files.identity(descriptor).byte_count
    if file_bytes != info.file_bytes:
        raise CorruptionError(path, min(file_bytes, info.file_bytes), f"{info.file_bytes} bytes", f"{file_bytes}")
    payload = read_payload(files, descriptor, path, metadata_extent(info))
    contents = metadata.decode(payload.to_pybytes(), path, info.metadata_offset)
    if not info.agrees_with(contents.summary):
        raise CorruptionError(path, info.metadata_offset, f"{info.summary()}", f"{contents.summary}")
    return contents


def metadata_extent(info: StoreFileInfo) -> Extent:
    """Returns the place of the metadata and the header that it must have."""
    header = layout.Header(
        layout.METADATA_MAGIC,
        info.header_number,
        info.metadata_bytes - layout.HEADER_BYTES,
        info.cell_count,
        info.metadata_checksum,
        info.format_version,
    )
    return Extent(info.metadata_offset, header)
