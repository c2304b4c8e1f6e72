"""A store without files: a picker's plans are applied to sets of rows, and the bytes that are written are counted.

Each row has one cell, so that of two versions the newer one is left. A compaction is done at once, after each flush.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
from rowlock_regionserver.compaction.picker import FileFacts, Kind, Plan

Rows = npt.NDArray[np.bool_]
Picker = Callable[[Sequence[FileFacts]], Plan | None]


@dataclass(frozen=True, slots=True)
class SimulatedFile:
    """One file. `rows` has one entry for each row of the table; without it no row is in two files."""

    facts: FileFacts
    rows: Rows | None = None


class SimulatedStore:
    """The files of one store, newest first."""

    def __init__(self, picker: Picker, row_bytes: int = 1024) -> None:
        self.files: list[SimulatedFile] = []
        self.flushed_bytes = 0
        self.compacted_bytes = 0
        self.plans: list[Plan] = []
        self._picker = picker
        self._row_bytes = row_bytes
        self._next_number = 1

    @property
    def write_amplification(self) -> float:
        """Bytes that flushes and compactions wrote, for each byte that flushes wrote. The log does not count."""
        return 1 + self.compacted_bytes / self.flushed_bytes

    @property
    def byte_count(self) -> int:
        """Of all files."""
        return sum(file.facts.byte_count for file in self.files)

    @property
    def delta_count(self) -> int:
        """Files that are no bases."""
        return sum(not file.facts.is_base for file in self.files)

    def flush_rows(self, rows: Rows) -> None:
        """Adds a file of these rows, and compacts until nothing is due."""
        places = np.flatnonzero(rows)
        self._flush(len(places) * self._row_bytes, rows, _key(places[0]), _key(places[-1]))

    def flush_bytes(self, byte_count: int) -> None:
        """Adds a file whose cells are in no other file, but between theirs, and compacts until nothing is due."""
        self._flush(byte_count, None, _key(0), _key(1))

    def add_base(self, byte_count: int) -> None:
        """Adds a base that was there before the simulation."""
        facts = self._facts(byte_count, _key(0), _key(1))
        self.files.append(SimulatedFile(replace(facts, is_base=True)))

    def _flush(self, byte_count: int, rows: Rows | None, first_row: bytes, last_row: bytes) -> None:
        self.files.insert(0, SimulatedFile(self._facts(byte_count, first_row, last_row), rows))
        self.flushed_bytes += byte_count
        while (plan := self._picker([file.facts for file in self.files])) is not None:
            self._apply(plan)

    def _apply(self, plan: Plan) -> None:
        by_number = {file.facts.number: file for file in self.files}
        is_base = plan.kind is Kind.MAJOR
        start = next(index for index, file in enumerate(self.files) if file.facts.number == plan.inputs[0])
        outputs = [self._compacted([by_number[number] for number in group]) for group in plan.groups]
        outputs += [by_number[number] for number in plan.moved]
        outputs = [replace(file, facts=replace(file.facts, is_base=is_base)) for file in outputs]
        self.files[start : start + len(plan.inputs)] = outputs
        self.plans.append(plan)

    def _compacted(self, inputs: Sequence[SimulatedFile]) -> SimulatedFile:
        masks = [file.rows for file in inputs if file.rows is not None]
        rows = np.logical_or.reduce(masks) if masks else None
        byte_count = sum(file.facts.byte_count for file in inputs)
        if rows is not None:
            byte_count = int(np.count_nonzero(rows)) * self._row_bytes
        self.compacted_bytes += byte_count
        first_row = min(file.facts.first_row for file in inputs)
        return SimulatedFile(self._facts(byte_count, first_row, max(file.facts.last_row for file in inputs)), rows)

    def _facts(self, byte_count: int, first_row: bytes, last_row: bytes) -> FileFacts:
        self._next_number += 1
        return FileFacts(
            number=self._next_number - 1,
            byte_count=byte_count,
            cell_count=byte_count // self._row_bytes,
            tombstone_count=0,
            expired_count=0,
            is_all_expired=False,
            is_base=False,
            is_protected=False,
            age_ms=0,
            first_row=first_row,
            last_row=last_row,
            row_count=byte_count // self._row_bytes,
        )


def _key(place: int) -> bytes:
    return int(place).to_bytes(8, "big")


def rocksdb_universal(files: Sequence[FileFacts]) -> Plan | None:
    """Returns what RocksDB's universal style would compact, with its defaults.

    From github.com/facebook/rocksdb/wiki/Universal-Compaction: a trigger of 4 files, a size ratio of 1 %, and all files
    are compacted when the newer ones are 200 % of the oldest.
    """
    trigger, size_ratio, space_share = 4, 1.01, 2.0
    byte_counts = [file.byte_count for file in files]
    if len(files) < trigger:
        return None
    if sum(byte_counts[:-1]) >= space_share * byte_counts[-1]:
        return _of(files)
    start = 0
    while start < len(files):
        stop = start + 1
        while stop < len(files) and sum(byte_counts[start:stop]) * size_ratio >= byte_counts[stop]:
            stop += 1
        if stop - start > 1:
            return _of(files[start:stop])
        start = stop
    return _of(files[: len(files) - trigger + 1]) if len(files) > trigger else None


def _of(files: Sequence[FileFacts]) -> Plan:
    numbers = tuple(file.number for file in files)
    return Plan(Kind.MINOR, numbers, "as RocksDB", groups=(numbers,))
