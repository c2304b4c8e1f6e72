"""The changes that the writers of the kill campaign have sent and got acknowledged, in a file that all processes map.

Every thread of every writer has its own slots, so no lock is needed. A slot is a row (or a group of rows that are
always written together) and counts up: `sent` before the call, `acknowledged` after it. The stored number must lie
between them. Shared counters have a mark for each number that was answered: none may be answered twice.
"""

from __future__ import annotations

import mmap
from pathlib import Path

import numpy as np
import numpy.typing as npt

THREADS = 8  # of a writer
ROWS_A_THREAD = 4
SLOTS_A_WRITER = THREADS * ROWS_A_THREAD
COUNTERS = 4  # of each kind
MARKS = 1 << 20

TABLE = "kills"
COLUMNS = (b"info:number", b"info:again", b"stats:number")
CHANGES = b"stats:changes"  # how often the row was changed, in rows that count it
BULK_ROWS = 20

Int64s = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]


def row_of(slot: int) -> bytes:
    return b"row-%06d" % slot


def bulk_row(slot: int, place: int) -> bytes:
    """One of the rows that a slot's bulk batches write together."""
    return b"bulk-%06d-%02d" % (slot, place)


def counter_row(kind: str, place: int) -> bytes:
    return f"{kind}-{place}".encode()


def is_bulk(slot: int) -> bool:
    """The last thread of each writer writes bulk batches."""
    return slot % SLOTS_A_WRITER // ROWS_A_THREAD == THREADS - 1


class Ledger:
    """The shared file. `make` before the writers start."""

    def __init__(self, path: Path, writers: int) -> None:
        slots = writers * SLOTS_A_WRITER
        with path.open("r+b") as file:
            memory = mmap.mmap(file.fileno(), 0)
        numbers = np.frombuffer(memory, np.int64, count=1 + 3 * slots)
        self._flags: Int64s = numbers[:1]
        self.sent: Int64s = numbers[1 : 1 + slots]
        self.acknowledged: Int64s = numbers[1 + slots : 1 + 2 * slots]
        self._operations: Int64s = numbers[1 + 2 * slots :]
        marks = np.frombuffer(memory, np.uint8, offset=numbers.nbytes)
        self.increment_marks: Bytes = marks[: COUNTERS * MARKS].reshape(COUNTERS, MARKS)
        self.race_marks: Bytes = marks[COUNTERS * MARKS :].reshape(COUNTERS, MARKS)

    @staticmethod
    def make(path: Path, writers: int) -> None:
        """Creates an empty ledger for this number of writers."""
        with path.open("wb") as file:
            file.truncate(8 * (1 + 3 * writers * SLOTS_A_WRITER) + 2 * COUNTERS * MARKS)

    @property
    def is_stopping(self) -> bool:
        return bool(self._flags[0])

    def stop(self) -> None:
        """Tells the writers to end after the call they are in."""
        self._flags[0] = 1

    def count(self, slot: int) -> None:
        """Counts an acknowledged operation of the slot's thread."""
        self._operations[slot] += 1

    def has_begun(self, writer: int) -> bool:
        """Returns whether the writer got any acknowledgement."""
        return bool(self._operations[writer * SLOTS_A_WRITER : (writer + 1) * SLOTS_A_WRITER].any())

    @property
    def operation_count(self) -> int:
        """Returns the number of acknowledged operations of all writers."""
        return int(self._operations.sum())
