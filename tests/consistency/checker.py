"""Checks whether a history of concurrent operations is linearizable: whether some order explains every answer.

The order must respect time: an operation that ended before another began comes before it. An operation with an unknown
outcome may take effect at any moment after it began, or never. The search is that of Wing and Gong: take any operation
before which no remaining operation ended, check that the model gives the server's answer, and continue with the
remaining operations; on failure, backtrack. As Lowe noted, the continuation depends only on the set of operations taken
and the state of the row, so no such pair is visited twice. That makes short histories cheap, even with many orders.

Each row is an object, and a history is linearizable if and only if the history of each object is (Herlihy and Wing,
locality). So each row is checked separately.

References: Wing, Gong, "Testing and verifying concurrent objects", 1993; Lowe, "Testing for linearizability", 2017.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from tests.consistency.row_model import ABSENT, Action, Answer, Row, step

UNKNOWN_END = math.inf


@dataclass(frozen=True, slots=True)
class Operation:
    """A client's operation on a row, with its times in seconds of one clock; UNKNOWN_END if its outcome is unknown."""

    client: int
    row: bytes
    action: Action
    began: float
    ended: float
    answer: Answer = None

    @property
    def is_known(self) -> bool:
        return self.ended != UNKNOWN_END

    def text(self, since: float) -> str:
        """Formats the operation as one line, with times in milliseconds after `since`."""
        ended = f"{(self.ended - since) * 1000:9.2f}" if self.is_known else "        ?"
        answered = f" -> {self.answer}" if self.is_known else " -> unknown"
        return f"{(self.began - since) * 1000:9.2f} {ended}  client {self.client}  {self.action}{answered}"


def problem_of(history: Iterable[Operation]) -> str | None:
    """Returns None if the history is linearizable from absent rows on; else a text with the first row that isn't."""
    by_row: dict[bytes, list[Operation]] = {}
    for operation in history:
        by_row.setdefault(operation.row, []).append(operation)
    for row, operations in sorted(by_row.items()):
        if linearized(operations) is None:
            operations.sort(key=lambda operation: operation.began)
            lines = [operation.text(operations[0].began) for operation in operations]
            return "\n        ".join([f"row {row!r} is not linearizable:", *lines])
    return None


def linearized(operations: Sequence[Operation]) -> list[Operation] | None:
    """Returns an order of the operations of one row that explains every answer; None when there is none.

    Operations of unknown outcome stand in it only where an answer shows that they happened. Cost: up to the number of
    sets of operations that can come first, so exponential in how many run at once, and linear in how many there are.
    """
    in_time = sorted(operations, key=lambda operation: operation.began)
    known = _bits(number for number, operation in enumerate(in_time) if operation.is_known)
    seen: set[tuple[int, Row]] = set()
    # The operations taken, in order; and before each of them, and now, which were taken and which may be next.
    order: list[Operation] = []
    stack = [(0, _choices(in_time, 0, ABSENT))]
    while stack:
        taken, choices = stack[-1]
        if taken & known == known:
            return order
        for number, row in choices:
            after = taken | 1 << number
            if (after, row) not in seen:
                seen.add((after, row))
                order.append(in_time[number])
                stack.append((after, _choices(in_time, after, row)))
                break
        else:
            stack.pop()
            if order:
                order.pop()
    return None


def _choices(in_time: Sequence[Operation], taken: int, row: Row) -> Iterator[tuple[int, Row]]:
    """Yields the operations that may come next, by place, and the row after each; the model must give their answers."""
    left = [number for number in range(len(in_time)) if not taken >> number & 1]
    # An operation that began later must come after one that is not taken yet.
    latest_begin = min((in_time[number].ended for number in left), default=UNKNOWN_END)
    for number in left:
        operation = in_time[number]
        if operation.began > latest_begin:
            return
        after, answer = step(operation.action, row)
        if not operation.is_known or answer == operation.answer:
            yield number, after


def _bits(places: Iterable[int]) -> int:
    return sum(1 << place for place in places)
