"""What a soak has shown, and whether it is enough."""

from __future__ import annotations

import statistics
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

import rowlock

GET_RATIO_MAX = 1.3
DISK_RATIO_MAX = 2.0
PROBLEMS_SHOWN = 20


@dataclass(frozen=True, slots=True)
class Get:
    """A timed get of one row."""

    ended: float  # of the monotonic clock
    seconds: float
    cells: int


Gets = Sequence[Get]


@dataclass(slots=True)
class Report:
    """Differences and leaks that need no time, misses that do, and lines to print."""

    differences: list[str] = field(default_factory=list)
    leaks: list[str] = field(default_factory=list)
    misses: list[str] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)

    @property
    def has_held(self) -> bool:
        return not (self.differences or self.leaks or self.misses)

    def text(self) -> str:
        lines = list(self.lines)
        for name, problems in (("DIFFERENCE", self.differences), ("LEAK", self.leaks), ("MISS", self.misses)):
            lines += [f"{name} {problem}" for problem in problems[:PROBLEMS_SHOWN]]
            if len(problems) > PROBLEMS_SHOWN:
                lines.append(f"and {len(problems) - PROBLEMS_SHOWN} more")
        lines.append(f"{len(self.differences)} differences; {'held' if self.has_held else 'BROKEN'}")
        return "\n".join(lines)

    def add_gets(self, gets: Gets, quiet_gets: Gets, part_s: float, *, is_judged: bool) -> None:
        """Compares the first and the last minute of the gets.

        `quiet_gets`: of a table that is not written. They show how the machine has changed, and decide nothing.
        """
        ratio = self._get_ratio("the table", gets, part_s)
        quiet_ratio = self._get_ratio("a table that is not written", quiet_gets, part_s)
        self.lines.append(f"the first ratio beside the second: {ratio / quiet_ratio:.2f}")
        if is_judged and ratio > GET_RATIO_MAX:
            self.misses.append(f"the median get of the last minute is {ratio:.2f} times the first's")

    def _get_ratio(self, name: str, gets: Gets, part_s: float) -> float:
        began, ended = gets[0].ended, gets[-1].ended
        first = [get for get in gets if get.ended < began + part_s]
        last = [get for get in gets if get.ended >= ended - part_s]
        medians, p99s = [[_at(part, share) for part in (first, last)] for share in (0.5, 0.99)]
        self.lines.append(
            f"gets of {name}, first and last {part_s:.0f} s: median {medians[0]:.2f} and {medians[1]:.2f} ms, "
            f"ratio {medians[1] / medians[0]:.2f}; p99 {p99s[0]:.2f} and {p99s[1]:.2f} ms, "
            f"ratio {p99s[1] / p99s[0]:.2f}; cells {_cells(first):.1f} and {_cells(last):.1f}"
        )
        over_time = ", ".join(f"{_at(part, 0.5):.2f} ({_cells(part):.1f})" for part in _parts(gets, began, 2 * part_s))
        self.lines.append(f"median get of {name} in each {2 * part_s:.0f} s, in ms (cells): {over_time}")
        return medians[1] / medians[0]

    def add_disk(self, file_bytes: int, live_bytes: int, *, is_judged: bool) -> None:
        ratio = file_bytes / max(1, live_bytes)
        self.lines.append(
            f"disk after a major compaction: {file_bytes / 1e6:.2f} MB of store files for {live_bytes / 1e6:.2f} MB of "
            f"live cells, ratio {ratio:.2f}"
        )
        if is_judged and ratio > DISK_RATIO_MAX:
            self.misses.append(f"store files have {ratio:.2f} times the bytes of the live cells")

    def add_compactions(self, ended: Sequence[rowlock.Compaction], live_file_bytes: int) -> None:
        """Prints how many ran of which kind, and the write amplification that they cause."""
        counts = Counter(
            f"{'by hand' if each.requested_by_hand else 'automatic'} {each.kind} {each.state}" for each in ended
        )
        self.lines.append("compactions: " + ", ".join(f"{count} {name}" for name, count in sorted(counts.items())))
        read = sum(each.bytes_read for each in ended if each.state == "succeeded")
        written = sum(each.bytes_written for each in ended if each.state == "succeeded")
        # Each file is written once, and read by the compaction that replaces it or live at the end.
        flushed = max(1, read + live_file_bytes - written)
        self.lines.append(
            f"write amplification: flushes wrote {flushed / 1e6:.1f} MB, compactions {written / 1e6:.1f} MB: "
            f"{(flushed + written) / flushed:.2f} times"
        )
        failed = [each for each in ended if each.state == "failed" and "cancelled" not in each.error]
        gone = [each for each in failed if "dropped" in each.error or "not the store's any more" in each.error]
        self.leaks += [f"compaction {each} failed" for each in failed if each not in gone]


def _parts(gets: Gets, began: float, part_s: float) -> list[list[Get]]:
    """Returns the gets of each part of the run; parts without gets are left out."""
    parts: dict[int, list[Get]] = defaultdict(list)
    for get in gets:
        parts[int((get.ended - began) / part_s)].append(get)
    return [parts[number] for number in sorted(parts)]


def _at(gets: Gets, share: float) -> float:
    """Returns the milliseconds that this share of the gets do not exceed."""
    ordered = sorted(get.seconds for get in gets)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))] * 1000


def _cells(gets: Gets) -> float:
    """Returns how many cells a get returned, on average."""
    return statistics.fmean(get.cells for get in gets)
