"""Compares the result of a scan after a kill with the ledger of sent and acknowledged changes."""

from __future__ import annotations

from tests.crash.kill_ledger import (
    BULK_ROWS,
    CHANGES,
    COLUMNS,
    COUNTERS,
    Bytes,
    Int64s,
    bulk_row,
    counter_row,
    is_bulk,
    row_of,
)


class Found:
    """The result of a scan, and its comparison with the ledger."""

    def __init__(self, rows: dict[bytes, dict[bytes, bytes]]) -> None:
        self._rows = rows

    def row_problems(self, acknowledged: Int64s, sent: Int64s) -> list[str]:
        """Yields rows that are incomplete, lost or invented, by the slots' acknowledged and sent numbers."""
        problems = []
        for slot in range(len(sent)):
            names = [bulk_row(slot, place) for place in range(BULK_ROWS)] if is_bulk(slot) else [row_of(slot)]
            numbers = {number for name in names for number in self._numbers(name)}
            if len(numbers) != 1:
                problems.append(f"{names[0]!r} is incomplete: numbers {sorted(numbers)}")
            elif not acknowledged[slot] <= min(numbers) <= sent[slot]:
                lost = "LOST" if min(numbers) < acknowledged[slot] else "never written"
                problems.append(
                    f"{names[0]!r} is {numbers}, {lost}: {acknowledged[slot]} acknowledged, {sent[slot]} sent"
                )
        return problems

    def _numbers(self, name: bytes) -> list[int]:
        """Returns the numbers in the row's columns, and its counter of changes if it has one; 0 for an absent row."""
        cells = self._rows.get(name)
        if cells is None:
            return [0]
        numbers = [int(cells.get(column, b"-1").split()[0]) for column in COLUMNS]
        if CHANGES in cells:
            numbers.append(int.from_bytes(cells[CHANGES], "big"))
        return numbers

    def counter_problems(self, kind: str, before: Bytes, after: Bytes, *, is_final: bool) -> list[str]:
        """Yields counters below an answer before the scan and, at the end, numbers that were not answered."""
        problems = []
        for place in range(COUNTERS):
            cells = self._rows.get(counter_row(kind, place), {})
            found = int(cells.get(b"info:n", b"0")) + int.from_bytes(cells.get(b"stats:n", b""), "big")
            answered = int(before[place].nonzero()[0].max(initial=0))
            if found < answered:
                problems.append(f"{kind} {place} is {found}, LOST: {answered} was answered")
            if is_final and not (found == after[place].sum() and after[place][1 : found + 1].all()):
                problems.append(f"{kind} {place} is {found}, but {after[place].sum()} numbers were answered")
        return problems
