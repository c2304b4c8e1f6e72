"""The commands of a worker process, and its answers.

A worker gets one command a line, of words NAME=VALUE after the command's name, and answers each with a line of JSON:

    create durability=os                                                {"created": "table"}
    load first=0 stop=50000 seed=7                                      {"loaded": 50000}
    prepare operation=get threads=8 warm_s=0.5 measured_s=3.0 seed=11   {"ready": 8}
    measure                                                             {"operations": ..., "rows": ..., ...}
    drop                                                                {"dropped": "table"}

`prepare` connects and makes operations for `warm_s` seconds. `measure` follows it: the callers make operations for
`measured_s` seconds, at least one each. So several workers can be prepared first, and measured at the same time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from bench.histogram import Histogram
from bench.side_process import Answer


@dataclass(frozen=True, slots=True)
class Job:
    """What one worker does in one turn; seeds must differ between the workers and turns of a run."""

    operation: str
    threads: int
    warm_s: float
    measured_s: float
    seed: int

    def command(self) -> str:
        """Returns the line for the worker."""
        return (
            f"prepare operation={self.operation} threads={self.threads} warm_s={self.warm_s} "
            f"measured_s={self.measured_s} seed={self.seed}"
        )


def job_of(words: Mapping[str, str]) -> Job:
    """Returns the job of the words of a command. Raises KeyError or ValueError if they are no job's."""
    return Job(
        words["operation"],
        int(words["threads"]),
        float(words["warm_s"]),
        float(words["measured_s"]),
        int(words["seed"]),
    )


def words_of(line: str) -> tuple[str, dict[str, str]]:
    """Returns the name of a command and its words."""
    name, *words = line.split()
    return name, dict(word.split("=", 1) for word in words)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What callers did: operations and the rows in them, the seconds of the slowest, and the latencies."""

    operations: int
    rows: int
    seconds: float
    latencies: Histogram

    @property
    def rows_a_second(self) -> float:
        return self.rows / self.seconds

    def answer(self) -> Answer:
        """Returns the outcome as a worker's answer."""
        counts = {str(bucket): count for bucket, count in self.latencies.counts.items()}
        return {"operations": self.operations, "rows": self.rows, "seconds": self.seconds, "latencies": counts}


def outcome_of(answer: Answer) -> Outcome:
    """Returns the outcome that a worker answered. Raises KeyError or ValueError if it is none."""
    counts = answer["latencies"]
    if not isinstance(counts, dict):
        raise ValueError(f"latencies are counts by bucket, not {counts!r}")
    latencies = Histogram({int(bucket): int(count) for bucket, count in counts.items()})
    return Outcome(_int(answer["operations"]), _int(answer["rows"]), _float(answer["seconds"]), latencies)


def sum_of(outcomes: Sequence[Outcome]) -> Outcome:
    """Returns the outcome of callers that worked at the same time."""
    latencies = Histogram()
    for outcome in outcomes:
        latencies.add(outcome.latencies)
    return Outcome(
        sum(outcome.operations for outcome in outcomes),
        sum(outcome.rows for outcome in outcomes),
        max(outcome.seconds for outcome in outcomes),
        latencies,
    )


def _int(value: object) -> int:
    if not isinstance(value, int):
        raise ValueError(f"not an integer: {value!r}")
    return value


def _float(value: object) -> float:
    if not isinstance(value, int | float):
        raise ValueError(f"not a number: {value!r}")
    return float(value)
