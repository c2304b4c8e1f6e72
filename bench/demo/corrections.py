"""What a writer corrects, in which order, and what a reader at one moment may have seen of it.

A writer goes through its flights in order, and begins anew at the end. Its corrections have numbers, 0, 1, 2, ...: the
number n is of its flight n modulo their count, and halves the delay that this flight has by then. Whoever reads at one
moment sees of each writer exactly its first k corrections, for some k: none before the k-th is missing, none after it
is there. The k of a read gives the exact state of every flight, so all else that the read says can be judged.

One moment over all writers is more: there is a time by which each writer had sent its last correction that is seen,
and its first one that is not seen had not been answered. Times are time.monotonic_ns(), one clock for all processes.
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
    """What is seen of a corrected flight: its delay, and the writer's newest correction of it."""

    delay: int
    by: str
    number: int


@dataclass(frozen=True, slots=True)
class Rounds:
    """All that one writer will ever do: its name, its flights' rows in order, and their delays in the source."""

    writer: str
    rows: Sequence[bytes]
    delays: Sequence[int]

    def __post_init__(self) -> None:
        assert len(self.rows) == len(self.delays) > 0, f"{len(self.rows)} rows, {len(self.delays)} delays"
        assert min(self.delays) >= 0, "only a delay that is not below zero comes to zero by halving"

    def correction(self, number: int) -> Correction:
        """The one of this number."""
        done, place = divmod(number, len(self.rows))
        return Correction(number, self.rows[place], self.delays[place] >> done, self.delays[place] >> (done + 1))

    def first(self, count: int) -> dict[bytes, Corrected]:
        """The corrected flights, after so many corrections."""
        newest = map(self.correction, range(max(0, count - len(self.rows)), count))
        return {made.row: Corrected(made.new, self.writer, made.number) for made in newest}


@dataclass(slots=True)
class Journal:
    """When each correction was sent, and when it was acknowledged; the place is the number."""

    sent: list[int] = field(default_factory=list)
    acknowledged: list[int] = field(default_factory=list)


def seen_count(rounds: Rounds, seen: Mapping[bytes, Corrected]) -> int | None:
    """How many of the writer's corrections were seen, None if those are not exactly its first ones.

    `seen`: the flights that have a correction of this writer.
    """
    count = max((corrected.number + 1 for corrected in seen.values()), default=0)
    return count if seen == rounds.first(count) else None


def one_moment(journals: Sequence[Journal], counts: Sequence[int], begun: int, ended: int) -> bool:
    """Whether there is a moment from `begun` to `ended` at which so many of each writer's corrections could be seen."""
    pairs = list(zip(journals, counts, strict=True))
    if any(count > len(journal.sent) for journal, count in pairs):
        return False
    sent = (journal.sent[count - 1] for journal, count in pairs if count)
    missed = (journal.acknowledged[count] for journal, count in pairs if count < len(journal.acknowledged))
    return max([begun, *sent]) <= min([ended, *missed])
