"""Which of the rows that a bulk write has staged have changed since a snapshot."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow.compute as pc

from rowlock_regionserver.arrow.columns import Column, bytes_at
from rowlock_regionserver.found_cells import LongRowError
from rowlock_regionserver.region.bulk.bulk_file import read_staged_file
from rowlock_regionserver.region.bulk.cut_batch import rows_of
from rowlock_regionserver.region.bulk.spilled import SpilledRun
from rowlock_regionserver.region.bulk.staged import StagedBatch
from rowlock_regionserver.region.changed_rows import distinct_rows
from rowlock_regionserver.region.shared_parts import SharedParts
from rowlock_regionserver.region.store_file_names import store_file_path
from rowlock_regionserver.storefile.reader import Run, StoreFile


class StagedRows:
    """The rows of bulk files and of spilled runs. Reads files when it is asked."""

    def __init__(
        self, shared: SharedParts, folder: Path, staged: Sequence[StagedBatch], runs: Sequence[SpilledRun]
    ) -> None:
        """`folder` has the files of the runs."""
        self._shared = shared
        self._staged = staged
        self._spilled = [
            (run, store_file_path(folder, family_number, info.number), info)
            for run in runs
            for family_number, info in run.files
        ]
        self._runs: list[Run] | None = None  # of the store files, when they are open
        self._by_region: dict[int, Column] = {}  # the rows in bulk files, as far as they were read

    def bounds(self) -> list[tuple[bytes, bytes]]:
        """Returns ranges with all the rows."""
        of_batches = [(each.record.first_row, each.last_row + b"\0") for each in self._staged]
        return of_batches + [(run.first_row, run.last_row + b"\0") for run, _, _ in self._spilled]

    def among(self, rows: Column, region_id: int, count_max: int) -> list[bytes]:
        """Returns those of `rows`, which are of this region, that are staged, up to `count_max`. Blocks on the disk."""
        if region_id not in self._by_region:
            self._by_region[region_id] = distinct_rows(self._in_bulk_files(region_id))
        found = rows.filter(pc.is_in(rows, value_set=self._by_region[region_id]))
        names = [bytes_at(found, place) for place in range(min(len(found), count_max))]
        for place in range(len(rows) if self._spilled else 0):
            if len(names) >= count_max:
                break
            row = bytes_at(rows, place)
            if any(_has_row(run, row) for run in self._open_runs()):
                names.append(row)
        return names

    def _in_bulk_files(self, region_id: int) -> Iterator[Column]:
        for each in self._staged:
            if each.region_id == region_id:
                yield rows_of(read_staged_file(self._shared.files, self._shared.bulk_folder, each.record))

    def _open_runs(self) -> Sequence[Run]:
        if self._runs is None:
            shared = self._shared
            opened = [StoreFile.open(path, info, shared.cache, shared.open_files) for _, path, info in self._spilled]
            self._runs = [run for file in opened for run in file.runs]
        return self._runs


def _has_row(run: Run, row: bytes) -> bool:
    try:
        return bool(run.row_cells(row, 1))
    except LongRowError:
        return True
