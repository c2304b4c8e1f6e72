"""The account of a campaign: counts in the order in which they came up, and problems, each of which fails it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

PROBLEMS_SHOWN = 20


@dataclass(slots=True)
class Account:
    """The account of one campaign. Not thread-safe."""

    name: str
    promise: str
    counts: Counter[str] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def text(self, seconds: float) -> str:
        """Formats the account: the promise, a line for each count, and the problems."""
        width = max((len(what) for what in self.counts), default=0)
        lines = [f"{self.name}: {self.promise}"]
        lines += [f"    {what:<{width}}  {count:>10,}" for what, count in self.counts.items()]
        lines += [f"    {note}" for note in self.notes]
        lines += [f"    PROBLEM {problem}" for problem in self.problems[:PROBLEMS_SHOWN]]
        if len(self.problems) > PROBLEMS_SHOWN:
            lines.append(f"    and {len(self.problems) - PROBLEMS_SHOWN} more problems")
        verdict = "held" if not self.problems else "BROKEN"
        return "\n".join([*lines, f"    {verdict}, {seconds:.0f} s"])


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings of a campaign's run. `is_short` selects a sample that fits into the test suite."""

    seed: int
    is_short: bool
