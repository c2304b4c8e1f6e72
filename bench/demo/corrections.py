"""The corrections of a writer, their order, and which of them a read at one moment may see.

A writer corrects its flights in order, and starts again after the last. Its corrections are numbered 0, 1, 2, ...:
correction n changes flight n modulo their count, and halves its current delay. A read at one moment sees exactly the
first k corrections of each writer, for some k: none before the k-th is missing, and none after it is there. This k
determines the exact state of every flight, so the rest of the read can be verified.

One moment over all writers requires more: a time at which each writer had sent its last correction that is seen, and
had no answer yet for its first one that is not seen. Times are time.monotonic_ns(), one clock for all processes.
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
    """A corrected flight as read: its delay, its writer, and the number of the newest correction."""

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
        assert min(self.delays) >= 0, "halving brings a delay to zero only if it is not negative"

    def correction(self, number: int) -> Correction:
        """Returns the correction with this number."""
        done, place = divmod(number, len(self.rows))
        return Correction(number, self.rows[place], self.delays[place] >> done, self.delays[place] >> (done + 1))

    def first(self, count: int) -> dict[bytes, Corrected]:
        """Returns the corrected flights after `count` corrections."""
        newest = map(self.correction, range(max(0, count - len(self.rows)), count))
        return {made.row: Corrected(made.new, self.writer, made.number) for made in newest}


@dataclass(slots=True)
class Journal:
    """The times when each correction was sent and acknowledged, by number."""

    sent: list[int] = field(default_factory=list)
    acknowledged: list[int] = field(default_factory=list)


def seen_count(rounds: Rounds, seen: Mapping[bytes, Corrected]) -> int | None:
    """Returns how many of the writer's corrections were seen; None if those are not exactly its first ones.

    `seen` has the flights with a correction of this writer.
    """
    count = max((corrected.number + 1 for corrected in seen.values()), default=0)
    return count if seen == rounds.first(count) else None


def one_moment(journals: Sequence[Journal], counts: Sequence[int], begun: int, ended: int) -> bool:
    """Returns whether at some moment from `begun` to `ended` a read could see these counts of corrections."""
    pairs = list(zip(journals, counts, strict=True))
    if any(count > len(journal.sent) for journal, count in pairs):
        return False
    sent = (journal.sent[count - 1] for journal, count in pairs if count)
    missed = (journal.acknowledged[count] for journal, count in pairs if count < len(journal.acknowledged))
    return max([begun, *sent]) <= min([ended, *missed])
