"""A writer of the kill campaign: a process with one client and many threads, which write as fast as they get answers.

`python -m tests.crash.kill_writer ADDRESS LEDGER WRITERS PLACE`. The server is killed and restarted all the time. The
client retries unanswered requests under the same request id, so no call may fail: a failed call ends the writer with
exit 1 and a traceback, and so does a client whose requests did not go over direct connections.
"""

from __future__ import annotations

import sys
import threading
import traceback
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pyarrow as pa
import rowlock
from rowlock import Increment, Put, Table
from rowlock.changes import Change

from tests.crash.kill_ledger import (
    BULK_ROWS,
    CHANGES,
    COLUMNS,
    COUNTERS,
    MARKS,
    ROWS_A_THREAD,
    SLOTS_A_WRITER,
    TABLE,
    THREADS,
    Bytes,
    Ledger,
    bulk_row,
    counter_row,
    row_of,
)
from tests.ending import end_at_once

TIMEOUT_SECONDS = 300.0
VALUE_BYTES = 60
_ROWS_MAPPING = ", ".join(["row BINARY :key", *(f"`{column.decode()}` BINARY {column.decode()}" for column in COLUMNS)])


class Writer:
    """The threads of one process. Each does one kind of work, on its own rows and on shared counters."""

    def __init__(self, table: Table[bytes], ledger: Ledger, place: int) -> None:
        self._table = table  # whose durability is `os`
        self._synced = table.with_options(durability="fsync")
        self._ledger = ledger
        self._first_slot = place * SLOTS_A_WRITER

    def run(self) -> None:
        """Runs the threads until the ledger says stop. A thread that fails ends the process."""
        work = (
            self._put,
            self._put,
            self._mixed,
            self._mixed,
            self._increment,
            self._increment,
            self._race,
            self._bulk,
        )
        assert len(work) == THREADS
        threads = [threading.Thread(target=self._repeat, args=(place, step)) for place, step in enumerate(work)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def _repeat(self, thread: int, step: Callable[[int, int], None]) -> None:
        try:
            turn = 0
            while not self._ledger.is_stopping:
                slot = self._first_slot + thread * ROWS_A_THREAD + turn % ROWS_A_THREAD
                step(slot, turn)
                self._ledger.count(slot)
                turn += 1
        except BaseException:
            traceback.print_exc()
            end_at_once(1)

    def _put(self, slot: int, turn: int) -> None:
        """Puts the slot's next number into all columns of two families."""
        self._put_into(self._table, slot)

    def _put_synced(self, slot: int, turn: int) -> None:
        self._put_into(self._synced, slot)

    def _put_into(self, table: Table[bytes], slot: int) -> None:
        number = self._begin(slot)
        table.put(row_of(slot), dict.fromkeys(COLUMNS, _value(number)))
        self._end(slot, number)

    def _mixed(self, slot: int, turn: int) -> None:
        """Puts the next number and increments a counter in the same mutation; the two must be equal."""
        number = self._begin(slot)
        value = _value(number)
        changes: list[Change] = [*(Put(column, value) for column in COLUMNS), Increment(CHANGES)]
        counted = self._synced.mutate_row(row_of(slot), changes)[-1]
        assert counted == number, f"row {row_of(slot)!r} was changed {counted!r} times, expected {number}"
        self._end(slot, number)

    def _bulk(self, slot: int, turn: int) -> None:
        """Puts a bulk batch of rows that are always written together, by turns as cells and as rows."""
        number = self._begin(slot)
        value = _value(number)
        rows = [bulk_row(slot, place) for place in range(BULK_ROWS)]
        if number % 2:
            columns = {"row": rows} | {column.decode(): [value] * BULK_ROWS for column in COLUMNS}
            self._table.put_arrow(_binary_table(columns), mapping=_ROWS_MAPPING)
        else:
            names = [column.split(b":") for column in COLUMNS] * BULK_ROWS
            columns = {
                "row": [row for row in rows for _ in COLUMNS],
                "family": [family for family, _ in names],
                "qualifier": [qualifier for _, qualifier in names],
                "value": [value] * len(names),
            }
            self._table.put_arrow(_binary_table(columns))
        self._end(slot, number)

    def _increment(self, slot: int, turn: int) -> None:
        """Increments a counter that all writers share."""
        place = turn % COUNTERS
        number = self._table.increment(counter_row("counter", place), b"stats:n")
        _mark(self._ledger.increment_marks[place], number)

    def _race(self, slot: int, turn: int) -> None:
        """Puts the next number by check-and-put, which fails if another writer was faster."""
        place = turn % COUNTERS
        row = counter_row("race", place)
        current = self._table.row(row).get(b"info:n")
        number = int(current or b"0") + 1
        if self._table.check_and_put(row, b"info:n", current, {b"info:n": b"%d" % number}):
            _mark(self._ledger.race_marks[place], number)

    def _begin(self, slot: int) -> int:
        self._ledger.sent[slot] += 1
        return int(self._ledger.sent[slot])

    def _end(self, slot: int, number: int) -> None:
        self._ledger.acknowledged[slot] = number


def _binary_table(columns: Mapping[str, Sequence[bytes]]) -> pa.Table:
    return pa.table(dict(columns), schema=pa.schema([(name, pa.binary()) for name in columns]))


def _value(number: int) -> bytes:
    return (b"%d " % number).ljust(VALUE_BYTES, b".")


def _mark(marks: Bytes, number: int) -> None:
    assert 0 < number < MARKS, f"{number} was answered"
    assert not marks[number], f"{number} was answered twice"
    marks[number] = 1


def main(address: str, ledger: str, writers: str, place: str) -> None:
    with rowlock.connect(address, timeout=TIMEOUT_SECONDS) as client:
        Writer(client.table(TABLE), Ledger(Path(ledger), int(writers)), int(place)).run()
        [way] = client.statistics().connections
        assert way.direct_requests > 2 * way.grpc_requests, f"most requests did not go directly: {way}"


if __name__ == "__main__":
    main(*sys.argv[1:])
