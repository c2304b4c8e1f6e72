"""One kept answer: as a region holds it, as a manifest lists it, and what it takes in memory."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from typing import NamedTuple

from rowlock_regionserver.operations import RowOutcome, RowResult

# Memory as CPython holds it, measured: an answer beside its row's key; an outcome that is more than a stamp; each of
# its cells, beside what is in it.
ANSWER_BYTES = 240
_OUTCOME_BYTES = 200
_CELL_BYTES = 180
# From here on an answer with cells is large.
LARGE_BYTES = 1024

# What an answer is besides its outcome.
IS_BULK = 1
IS_CUT = 2
OF_ANY_KIND = 4  # of an earlier version, which did not say

# (sequence, row if it is known, write number, outcome, what it is, bytes in memory). An outcome that is an int stands
# for RowResult(timestamp=int): a tuple of nothing but bytes and ints is no work for the cyclic collector.
Answer = tuple[int, bytes | None, int, int | RowOutcome, int, int]


@dataclass(frozen=True, slots=True)
class SavedAnswer:
    """The answer to a request, and the write number that must be published before it is given again."""

    client: bytes
    sequence: int
    floor: int
    row: bytes  # of a bulk batch its first
    write_number: int
    result: RowResult
    is_cut: bool = False
    is_bulk: bool | None = False  # None: an earlier version did not say


class RepeatedAnswer(NamedTuple):
    """The earlier answer to the same request. `is_cut`: its cells are not kept any more."""

    write_number: int
    outcome: RowOutcome
    is_cut: bool = False


def new_answer(sequence: int, row: bytes | None, write_number: int, outcome: RowOutcome, kind: int) -> Answer:
    """The answer as a region holds it."""
    byte_count = ANSWER_BYTES + (len(row) if row else 0)
    if isinstance(outcome, RowResult):
        if outcome.condition_met and not outcome.results and not outcome.seen:
            return sequence, row, write_number, outcome.timestamp, kind, byte_count
        byte_count += _OUTCOME_BYTES
        for family, qualifier, _, value in (*outcome.seen, *outcome.results):
            byte_count += _CELL_BYTES + len(family) + len(qualifier) + len(value)
    else:
        byte_count += _OUTCOME_BYTES + 2 * len(outcome.message)  # The exception has it too.
    return sequence, row, write_number, outcome, kind, byte_count


def outcome_of(answer: Answer) -> RowOutcome:
    outcome = answer[3]
    return RowResult(timestamp=outcome) if isinstance(outcome, int) else outcome


def answer_of(answers: list[Answer], sequence: int) -> Answer | None:
    """The answer with this sequence among those of one client, which are sorted. O(log n)."""
    if not answers or sequence > answers[-1][0]:
        return None
    answer = answers[bisect_left(answers, (sequence,))]
    return answer if answer[0] == sequence else None


def without_cells(answer: Answer) -> Answer:
    """The answer as it is kept without its cells."""
    sequence, row, write_number, outcome, kind, _ = answer
    assert isinstance(outcome, RowResult), outcome
    return new_answer(sequence, row, write_number, outcome._replace(seen=(), results=()), kind | IS_CUT)


def changed_something(answer: Answer) -> bool:
    """Its change is in the log, so a flush must save the answer."""
    outcome = answer[3]
    return (outcome if isinstance(outcome, int) else isinstance(outcome, RowResult) and outcome.timestamp) != 0


def listed(client: bytes, floor: int, answer: Answer) -> SavedAnswer:
    """The answer, which changed something, as a manifest lists it."""
    sequence, row, write_number, _, kind, _ = answer
    result = outcome_of(answer)
    assert isinstance(result, RowResult), result
    assert row is not None, "a change of an unknown row"
    is_bulk = None if kind & OF_ANY_KIND else bool(kind & IS_BULK)
    return SavedAnswer(client, sequence, floor, row, write_number, result, bool(kind & IS_CUT), is_bulk)


def kind_of(answer: SavedAnswer) -> int:
    """What the answer is, of one that a manifest has listed."""
    kind = OF_ANY_KIND if answer.is_bulk is None else IS_BULK if answer.is_bulk else 0
    return kind | IS_CUT if answer.is_cut else kind
