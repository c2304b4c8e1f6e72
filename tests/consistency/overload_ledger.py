"""The ledger of the overload campaign: every acknowledged change, and so the expected contents of the tables.

A refused change is not in the ledger, so a table that holds more than the ledger was changed by a refused request.
"""

from __future__ import annotations

import threading

import rowlock

from tests.crash.account import Account

HOT_ROWS = (b"row-1", b"row-2", b"row-3")
CHECKED_ROW = b"checked"
COUNTER, CHECKED = b"f:counter", b"f:checked"
NEW_PREFIX = b"new-"


class Ledger:
    """The acknowledged changes. Thread-safe; call `judge` after the load."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        # Guarded by self._lock:
        self._numbers: dict[bytes, list[int]] = {row: [] for row in HOT_ROWS}  # answered to increments
        self._marks: dict[tuple[bytes, bytes], bytes] = {}  # the newest by row and column, each put by one thread
        self._new_rows: dict[bytes, bytes] = {}
        self._checks_met = 0
        self._bulk_rows: set[bytes] = set()

    def incremented(self, row: bytes, number: int) -> None:
        with self._lock:
            self._numbers[row].append(number)

    def marked(self, row: bytes, column: bytes, value: bytes) -> None:
        with self._lock:
            self._marks[row, column] = value

    def put(self, row: bytes, value: bytes) -> None:
        with self._lock:
            self._new_rows[row] = value

    def checked(self) -> None:
        """Records a check that held, after which the next number was put."""
        with self._lock:
            self._checks_met += 1

    def bulk_put(self, rows: list[bytes]) -> None:
        with self._lock:
            self._bulk_rows.update(rows)

    def judge(self, account: Account, hot: rowlock.Table[bytes], bulk: rowlock.Table[bytes], when: str) -> None:
        """Checks that the tables hold the acknowledged changes, and nothing else."""
        problems = account.problems
        for row, data in hot.rows(HOT_ROWS):
            numbers = self._numbers[row]
            counter = int.from_bytes(data.get(COUNTER, b""), "big")
            if counter != len(numbers) or sorted(numbers) != list(range(1, counter + 1)):
                problems.append(f"{when}: the counter of {row!r} is {counter} after {len(numbers)} increments")
            marks = {column: value for column, value in data.items() if column != COUNTER}
            expected = {column: value for (own, column), value in self._marks.items() if own == row}
            if marks != expected:
                problems.append(
                    f"{when}: puts of {row!r} are lost, or were made though refused: {_difference(marks, expected)}"
                )
        checked = int(hot.row(CHECKED_ROW).get(CHECKED, b"0"))
        if checked != self._checks_met:
            problems.append(f"{when}: {checked} changes were made by {self._checks_met} checks that were met")
        with hot.scan(prefix=NEW_PREFIX) as scan:
            found = {row: data[b"f:v"] for row, data in scan}
        if found != self._new_rows:
            problems.append(f"{when}: new rows are lost, or there though refused: {_difference(found, self._new_rows)}")
        with bulk.scan(keys_only=True) as scan:
            bulk_rows = {row for row, _ in scan}
        if bulk_rows != self._bulk_rows:
            problems.append(f"{when}: {len(bulk_rows)} rows of bulk batches, acknowledged {len(self._bulk_rows)}")


def _difference(found: dict[bytes, bytes], expected: dict[bytes, bytes]) -> str:
    wrong = sorted(key for key in found.keys() | expected.keys() if found.get(key) != expected.get(key))
    return f"{len(wrong)} differ, the first is {wrong[0]!r}"
