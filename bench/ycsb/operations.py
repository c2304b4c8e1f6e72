"""The operations of the comparison: single rows, counters, scans, batches, and YCSB's workloads A to F."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from random import Random

from bench.ycsb.row_client import RowClient
from bench.ycsb.rows import COUNTER_COLUMN, COUNTER_ROW, FIELD_COUNT, Zipfian, one_value, row_key, row_values

BATCH_ROWS = 1000
SCAN_ROWS_MAX = 100
# Inserted rows have numbers of their own for each caller, so that no two insert the same row.
_NUMBERS_EACH = 1 << 32


class WrongAnswerError(Exception):
    """A system returned what it should not have; its figures mean nothing."""


class Caller:
    """One caller with a client, who makes one operation after the other. Each returns how many rows it counts as."""

    def __init__(self, client: RowClient, row_count: int, total_weight: float, seed: int) -> None:
        """The table has the rows from 0 to `row_count`; `total_weight` is zeta(row_count). Seeds must differ."""
        self._client = client
        self._random = Random(seed)
        self._row_count = row_count
        self._rows = Zipfian(self._random, row_count, total_weight)
        self._inserted_from = row_count + seed * _NUMBERS_EACH
        self._inserted_count = 0

    def get(self) -> int:
        return self._get(row_key(self._rows.scrambled()))

    def put(self) -> int:
        self._client.put(row_key(self._rows.scrambled()), row_values(self._random))
        return 1

    def half(self) -> int:
        """Reads a row or updates one of its columns, half and half: YCSB's workload A."""
        return self._read_or(0.5, self._update)

    def increment(self) -> int:
        """Increments the one counter that all callers share."""
        self._client.increment(COUNTER_ROW, COUNTER_COLUMN)
        return 1

    def scan(self) -> int:
        """Scans 1 to 100 rows, and returns how many were found."""
        return self._client.scan(row_key(self._rows.scrambled()), self._random.randint(1, SCAN_ROWS_MAX))

    def put_batch(self) -> int:
        """Puts a batch of rows of uniformly random keys."""
        numbers = (self._random.randrange(self._row_count) for _ in range(BATCH_ROWS))
        self._client.put_batch((row_key(number), row_values(self._random)) for number in numbers)
        return BATCH_ROWS

    def full_scan(self) -> int:
        return self._all_rows(self._client.full_scan())

    def full_scan_arrow(self) -> int:
        return self._all_rows(self._client.full_scan_arrow())

    def ycsb_b(self) -> int:
        """Reads, and updates of every twentieth."""
        return self._read_or(0.05, self._update)

    def ycsb_d(self) -> int:
        """Reads of the newest rows, and inserts of every twentieth."""
        if self._random.random() < 0.05:
            return self._insert()
        rank = self._rows.rank()
        if rank < self._inserted_count:
            return self._get(row_key(self._inserted_from + self._inserted_count - 1 - rank))
        return self._get(row_key(self._row_count - 1 - (rank - self._inserted_count)))

    def ycsb_e(self) -> int:
        """Short scans, and inserts of every twentieth. A scan counts as one."""
        if self._random.random() < 0.05:
            return self._insert()
        self.scan()
        return 1

    def ycsb_f(self) -> int:
        """Reads, and half of them followed by an update of the row that was read."""
        row = row_key(self._rows.scrambled())
        self._get(row)
        if self._random.random() < 0.5:
            self._client.put(row, one_value(self._random))
        return 1

    def _read_or(self, share: float, change: Callable[[bytes], None]) -> int:
        row = row_key(self._rows.scrambled())
        if self._random.random() < share:
            change(row)
            return 1
        return self._get(row)

    def _update(self, row: bytes) -> None:
        self._client.put(row, one_value(self._random))

    def _insert(self) -> int:
        self._client.put(row_key(self._inserted_from + self._inserted_count), row_values(self._random))
        self._inserted_count += 1
        return 1

    def _get(self, row: bytes) -> int:
        found = self._client.get(row)
        if found != FIELD_COUNT:
            raise WrongAnswerError(f"the row {row!r} has {found} columns, not {FIELD_COUNT}")
        return 1

    def _all_rows(self, found: int) -> int:
        if found < self._row_count:
            raise WrongAnswerError(f"a full scan found {found} rows of at least {self._row_count}")
        return found


# By the names that jobs give; YCSB's A and C are these two.
OPERATIONS: Mapping[str, Callable[[Caller], int]] = {
    "get": Caller.get,
    "put": Caller.put,
    "half": Caller.half,
    "increment": Caller.increment,
    "scan": Caller.scan,
    "put_batch": Caller.put_batch,
    "full_scan": Caller.full_scan,
    "full_scan_arrow": Caller.full_scan_arrow,
    "ycsb_a": Caller.half,
    "ycsb_b": Caller.ycsb_b,
    "ycsb_c": Caller.get,
    "ycsb_d": Caller.ycsb_d,
    "ycsb_e": Caller.ycsb_e,
    "ycsb_f": Caller.ycsb_f,
}


def load(client: RowClient, first: int, stop: int, seed: int) -> None:
    """Puts the rows from `first` to `stop`, in batches."""
    random = Random(seed)
    for start in range(first, stop, BATCH_ROWS):
        numbers = range(start, min(start + BATCH_ROWS, stop))
        client.put_batch((row_key(number), row_values(random)) for number in numbers)
