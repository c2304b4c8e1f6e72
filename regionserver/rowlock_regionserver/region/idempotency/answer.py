"""One saved answer: as a region holds it in memory, as a manifest lists it, and its bytes in memory."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from rowlock_regionserver.operations import RowOutcome, RowResult

# Memory in CPython, measured: an answer without its row's key; an outcome that is more than a stamp; each of its cells
# without names and value.
ANSWER_BYTES = 240
_OUTCOME_BYTES = 200
_CELL_BYTES = 180
# An answer with cells is large from this size on.
LARGE_BYTES = 1024

# Flags of an answer.
IS_BULK = 1
IS_CUT = 2  # its cells, or what its procedure returned, were dropped
MAY_BE_BULK = 4  # saved by an earlier version, which did not record whether it is of a bulk batch

# (sequence, row if it is known, write number, outcome, flags, bytes in memory). An outcome that is an int means
# RowResult(timestamp=int): the cyclic garbage collector does not track a tuple of only bytes and ints.
Answer = tuple[int, bytes | None, int, int | RowOutcome, int, int]


@dataclass(frozen=True, slots=True)
class SavedAnswer:
    """The answer to a request, and the write number that must be published before it is sent again."""

    client: bytes
    sequence: int
    floor: int
    row: bytes  # the first one of a bulk batch
    write_number: int
    result: RowResult
    is_cut: bool = False
    is_bulk: bool | None = False  # None: an earlier version did not record it


class RepeatedAnswer(NamedTuple):
    """The earlier answer to the same request. `is_cut`: its cells were dropped."""

    write_number: int
    outcome: RowOutcome
    is_cut: bool = False


def new_answer(sequence: int, row: bytes | None, write_number: int, outcome: RowOutcome, flags: int) -> Answer:
    """Returns the answer as a region holds it."""
    byte_count = ANSWER_BYTES + (len(row) if row else 0)
    if isinstance(outcome, RowResult):
        if outcome.condition_met and not outcome.results and not outcome.seen and not outcome.answer:
            return sequence, row, write_number, outcome.timestamp, flags, byte_count
        byte_count += _OUTCOME_BYTES + len(outcome.answer)
        for family, qualifier, _, value in (*outcome.seen, *outcome.results):
            byte_count += _CELL_BYTES + len(family) + len(qualifier) + len(value)
    else:
        byte_count += _OUTCOME_BYTES + 2 * len(outcome.message)  # The exception's args hold it too.
    return sequence, row, write_number, outcome, flags, byte_count


def put_answers(sequences: Sequence[int], rows: Sequence[bytes], write_number: int, stamp: int) -> list[Answer]:
    """Returns the answers of rows that were put with this stamp, by sequence."""
    return sorted(
        [
            (sequence, row, write_number, stamp, 0, ANSWER_BYTES + len(row))
            for sequence, row in zip(sequences, rows, strict=True)
        ]
    )


def outcome_of(answer: Answer) -> RowOutcome:
    outcome = answer[3]
    return RowResult(timestamp=outcome) if isinstance(outcome, int) else outcome


def answer_of(answers: list[Answer], sequence: int) -> Answer | None:
    """Returns the answer with this sequence among the sorted answers of one client. O(log n)."""
    if not answers or sequence > answers[-1][0]:
        return None
    answer = answers[bisect_left(answers, (sequence,))]
    return answer if answer[0] == sequence else None


def without_cells(answer: Answer) -> Answer:
    """Returns the answer with its cells, or what its procedure returned, dropped."""
    sequence, row, write_number, outcome, flags, _ = answer
    assert isinstance(outcome, RowResult), outcome
    return new_answer(sequence, row, write_number, outcome._replace(seen=(), results=(), answer=b""), flags | IS_CUT)


def changed_something(answer: Answer) -> bool:
    """Whether the answer's change is in the log, so that a flush must save the answer."""
    outcome = answer[3]
    return (outcome if isinstance(outcome, int) else isinstance(outcome, RowResult) and outcome.timestamp) != 0


def saved_answer(client: bytes, floor: int, answer: Answer) -> SavedAnswer:
    """Returns the answer, which must be of a change, as a manifest lists it."""
    sequence, row, write_number, _, flags, _ = answer
    result = outcome_of(answer)
    assert isinstance(result, RowResult), result
    assert row is not None, "a change of an unknown row"
    is_bulk = None if flags & MAY_BE_BULK else bool(flags & IS_BULK)
    return SavedAnswer(client, sequence, floor, row, write_number, result, bool(flags & IS_CUT), is_bulk)


def flags_of(answer: SavedAnswer) -> int:
    """Returns the flags of an answer that a manifest listed."""
    flags = MAY_BE_BULK if answer.is_bulk is None else IS_BULK if answer.is_bulk else 0
    return flags | IS_CUT if answer.is_cut else flags
