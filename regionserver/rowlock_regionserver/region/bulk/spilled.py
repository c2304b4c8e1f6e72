"""Spilled batches: batches of a bulk write that were merged into store files, because it is large.

A spill takes all batches that are staged for a region, in the order in which they were sent, and older ones that may
have rows of these (host/spilling.py says why). Their cells get small write numbers that say this order; the commit
raises them (storefile/adopted_numbers.py). Cells without a timestamp have timestamp 0, because their stamp is the
commit's. So a store file has cells with timestamps of their own, or cells that are stamped, not both: a spill makes a
run of files for each series of batches of one kind.
"""

from __future__ import annotations

import base64
import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rowlock_regionserver.cells import Family, from_then_on
from rowlock_regionserver.config import Config
from rowlock_regionserver.files import Files
from rowlock_regionserver.region.bulk.arranged import FamilyParts
from rowlock_regionserver.region.bulk.bulk_segments import segments_of
from rowlock_regionserver.region.bulk.staged import StagedBatch
from rowlock_regionserver.region.store_file_names import store_file_path
from rowlock_regionserver.scan.retained_tables import retained_tables
from rowlock_regionserver.sources import Source
from rowlock_regionserver.storefile.info import StoreFileInfo
from rowlock_regionserver.storefile.writer import write_store_file
from rowlock_regionserver.unneeded_files import remove_unneeded
from rowlock_regionserver.versions.retention import Retention

# More versions than cells: a limit that the table has at the commit decides, not one that it has now.
_EVERY_VERSION = 1 << 30


@dataclass(frozen=True, slots=True)
class SpilledRun:
    """Store files with the cells of consecutive batches, one file a family. Both rows are inclusive.

    number_count: their write numbers are from 1 to this. is_stamped: all cells have timestamp 0, and get the stamp.
    """

    number_count: int
    is_stamped: bool
    first_row: bytes
    last_row: bytes
    files: tuple[tuple[int, StoreFileInfo], ...]  # by family number

    def to_json(self) -> object:
        return [
            self.number_count,
            self.is_stamped,
            base64.b64encode(self.first_row).decode(),
            base64.b64encode(self.last_row).decode(),
            [[family_number, info.to_json()] for family_number, info in self.files],
        ]

    @staticmethod
    def from_json(fields: Any) -> SpilledRun:  # Any: JSON
        """The inverse of `to_json`. Raises TypeError or ValueError for another version."""
        number_count, is_stamped, first_row, last_row, files = fields
        return SpilledRun(
            number_count,
            is_stamped,
            base64.b64decode(first_row),
            base64.b64decode(last_row),
            tuple([(family_number, StoreFileInfo.from_json(info)) for family_number, info in files]),
        )


@dataclass(frozen=True, slots=True)
class Spill:
    """What one spill wrote: runs in the order of their batches, which it replaces."""

    region_id: int
    batches: tuple[int, ...]
    runs: tuple[SpilledRun, ...]

    def infos(self) -> list[StoreFileInfo]:
        """Returns its files."""
        return [info for run in self.runs for _, info in run.files]

    @property
    def byte_count(self) -> int:
        """The bytes of its files."""
        return sum([info.file_bytes for info in self.infos()])

    def to_json(self) -> object:
        return [self.region_id, self.batches, [run.to_json() for run in self.runs]]

    @staticmethod
    def from_json(fields: Any) -> Spill:  # Any: JSON
        """The inverse of `to_json`. Raises TypeError or ValueError for another version."""
        region_id, batches, runs = fields
        return Spill(region_id, tuple(batches), tuple([SpilledRun.from_json(each) for each in runs]))


class RunWriter:
    """Writes arranged batches as runs of store files in the folder of a bulk write. For one spill."""

    def __init__(
        self,
        folder: Path,
        families: Sequence[Family],
        files: Files,
        config: Config,
        new_number: Callable[[], int],
        between: Callable[[], None],
    ) -> None:
        """`new_number` returns numbers of files; `between` is called between pieces of work."""
        self._folder = folder
        self._families = {family.number: family for family in families}
        self._files = files
        self._config = config
        self._new_number = new_number
        self._between = between

    def write(self, batches: Sequence[tuple[StagedBatch, FamilyParts]]) -> tuple[SpilledRun, ...]:
        """Returns the durable runs of batches, which come with their cells. Blocks.

        Raises DiskFullError and OSError, and then leaves no file. Every family of the batches must be known.
        """
        runs: list[SpilledRun] = []
        try:
            for is_stamped, of_kind in itertools.groupby(batches, lambda each: are_stamped(each[1])):
                runs.append(self._written(list(of_kind), is_stamped=is_stamped))
        except BaseException:
            self.remove(runs)
            raise
        return tuple(runs)

    def remove(self, runs: Sequence[SpilledRun]) -> None:
        """Removes the files of runs that are not needed."""
        files = [each for run in runs for each in run.files]
        remove_unneeded(self._files, [store_file_path(self._folder, number, info.number) for number, info in files])

    def _written(self, batches: Sequence[tuple[StagedBatch, FamilyParts]], *, is_stamped: bool) -> SpilledRun:
        sources: dict[int, list[Source]] = {}
        for number, (_, parts) in enumerate(batches, 1):
            for family_number, segment in segments_of(parts, number, 0):
                sources.setdefault(family_number, []).insert(0, segment)
        written: list[tuple[int, StoreFileInfo]] = []
        try:
            for family_number, of_family in sorted(sources.items()):
                number = self._new_number()
                path = store_file_path(self._folder, family_number, number)
                # Cells of one timestamp replace each other, whatever the table's limit.
                family = replace(self._families[family_number], versions=1 if is_stamped else _EVERY_VERSION)
                info = write_segments(path, of_family, family, number, self._files, self._config, self._between)
                written.append((family_number, info))
        except BaseException:
            self.remove([SpilledRun(0, is_stamped, b"", b"", tuple(written))])
            raise
        first_row = min([staged.record.first_row for staged, _ in batches])
        last_row = max([staged.last_row for staged, _ in batches])
        return SpilledRun(len(batches), is_stamped, first_row, last_row, tuple(written))


def write_segments(
    path: Path,
    sources: Sequence[Source],
    family: Family,
    number: int,
    files: Files,
    config: Config,
    between: Callable[[], None] = lambda: None,
) -> StoreFileInfo:
    """Merges sources, newest first, into one store file, without what the family's number of versions makes surplus.

    Tombstones and expired cells stay: other files may have cells that they hide. Raises as `write_store_file`.
    """
    retention = Retention(from_then_on(max([source.write_number_max for source in sources])))
    bytes_max, merge_bytes_max = config.flush_window_bytes, config.flush_merge_window_bytes
    pieces = retained_tables(sources, retention, family.versions, bytes_max, merge_bytes_max, between=between)
    return write_store_file(path, pieces, family, files, number=number)


def are_stamped(parts: FamilyParts) -> bool:
    """Returns whether the cells of a staged batch get the stamp of the commit: all do, or none (staged.halves)."""
    part = next(iter(parts.values()))
    if part.lines is not None:
        return part.lines.timestamps is None or part.lines.timestamps.null_count > 0
    assert part.cells is not None
    return part.cells.column("timestamp").null_count > 0
