"""The writers' corrections, their order, and which of them a consistent read can see.

A writer corrects its flights in order, and starts again after the last one. Its corrections are numbered 0, 1, 2, ...:
number n corrects flight n modulo the number of flights, and halves the flight's current delay. A read at one read point
sees exactly the first k corrections of each writer, for some k: all before the k-th, and none after it. The k of a read
determines the expected state of every flight.

A read point for all writers together requires more: there is a time at which each writer had sent the last correction
that the read saw, and had no answer yet for the first one that it did not see. Times are time.monotonic_ns(), one clock
for all processes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Correction:
    """One change of one flight's delay."""

    number: int
    row: bytes
    old: int
    new: int


@dataclass(frozen=True, slots=True)
class Corrected:
    """The state of a corrected flight: its delay, and the writer and the number of its newest correction."""

    delay: int
    by: str
    number: int


@dataclass(frozen=True, slots=True)
class Rounds:
    """The work of one writer: its name, its flights' rows in order, and their delays in the source."""

    writer: str
    rows: Sequence[bytes]
    delays: Sequence[int]

    def __post_init__(self) -> None:
        assert len(self.rows) == len(self.delays) > 0, f"{len(self.rows)} rows, {len(self.delays)} delays"
        assert min(self.delays) >= 0, "halving brings only delays of at least zero to zero"

    def correction(self, number: int) -> Correction:
        """Returns the correction of this number."""
        done, place = divmod(number, len(self.rows))
        return Correction(number, self.rows[place], self.delays[place] >> done, self.delays[place] >> (done + 1))

    def first(self, count: int) -> dict[bytes, Corrected]:
        """Returns the corrected flights after the first `count` corrections."""
        newest = map(self.correction, range(max(0, count - len(self.rows)), count))
        return {change.row: Corrected(change.new, self.writer, change.number) for change in newest}


@dataclass(slots=True)
class Journal:
    """When each correction was sent and acknowledged; the index is the correction's number."""

    sent: list[int] = field(default_factory=list)
    acknowledged: list[int] = field(default_factory=list)


def seen_count(rounds: Rounds, seen: Mapping[bytes, Corrected]) -> int | None:
    """Returns how many of the writer's corrections a read saw; None if they are not exactly its first ones.

    `seen`: the flights that have a correction of this writer.
    """
    count = max((corrected.number + 1 for corrected in seen.values()), default=0)
    return count if seen == rounds.first(count) else None


def one_moment(journals: Sequence[Journal], counts: Sequence[int], begun: int, ended: int) -> bool:
    """Returns whether a read point from `begun` to `ended` can have exactly these counts of corrections."""
    pairs = list(zip(journals, counts, strict=True))
    if any(count > len(journal.sent) for journal, count in pairs):
        return False
    sent = (journal.sent[count - 1] for journal, count in pairs if count)
    missed = (journal.acknowledged[count] for journal, count in pairs if count < len(journal.acknowledged))
    return max([begun, *sent]) <= min([ended, *missed])
