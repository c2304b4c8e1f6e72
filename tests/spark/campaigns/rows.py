"""The rows of the campaigns' jobs, and the model of the table after them.

All jobs write the same keys, each with its own numbers; each omits some rows and has nulls in some columns. A
correction is a point write after the start of the job, so it survives every retry of the job's tasks. Its number is
negative; jobs write only positive ones.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

MAPPING = "id STRING :key, number INT f:number, text STRING f:text"
FRAME = "id STRING, number INT, text STRING"
NUMBER, TEXT = b"f:number", b"f:text"
PARTS = 4
DIFFERENCES_SHOWN = 3

Cells = dict[bytes, bytes]


@dataclass(frozen=True, slots=True)
class JobRow:
    """One row of a job."""

    id: str
    number: int | None
    text: str | None


def job_rows(job: int, part: int, count: int) -> Iterator[JobRow]:
    """Yields the rows of one partition of a job, of `count` keys."""
    for index in range(count):
        if (index + job) % 7 == 0:
            continue
        number = None if (index + job) % 11 == 0 else job * 1_000_000 + part * 100_000 + index
        text = None if (index + job) % 5 == 0 else f"job {job} row {index} " + "x" * (index % 50)
        yield JobRow(f"{part}-{index:06d}", number, text)


def correction(job: int, index: int) -> bytes:
    """Returns the number that a correction writes."""
    return (-(job * 1_000_000 + index + 1)).to_bytes(4, "big", signed=True)


@dataclass(slots=True)
class Model:
    """The expected rows of the table; `maybe` has the corrections that were not acknowledged."""

    rows: dict[bytes, Cells] = field(default_factory=dict)
    maybe: dict[bytes, set[bytes]] = field(default_factory=dict)

    def apply_job(self, job: int, count: int) -> None:
        for part in range(PARTS):
            for row in job_rows(job, part, count):
                key = row.id.encode()
                cells = self.rows.setdefault(key, {})
                if row.number is not None:
                    cells[NUMBER] = row.number.to_bytes(4, "big", signed=True)
                    # Earlier writes are older than the job.
                    self.maybe.pop(key, None)
                if row.text is not None:
                    cells[TEXT] = row.text.encode()

    def apply_correction(self, row: bytes, number: bytes, *, is_acknowledged: bool) -> None:
        if is_acknowledged:
            self.rows.setdefault(row, {})[NUMBER] = number
        else:
            self.maybe.setdefault(row, set()).add(number)

    def differences(self, found: dict[bytes, Cells]) -> list[str]:
        """Returns a sentence for each row that differs; none if the table equals the model."""
        problems: list[str] = []
        expected = {row: cells for row, cells in self.rows.items() if cells}
        for row in sorted(expected.keys() | found.keys()):
            must, has = expected.get(row, {}), found.get(row, {})
            if must == has:
                continue
            if has.get(NUMBER) in self.maybe.get(row, ()) and {**must, NUMBER: has[NUMBER]} == has:
                continue
            problems.append(f"row {row!r} is {has}, expected {must}")
        if len(problems) > DIFFERENCES_SHOWN:
            problems = [*problems[:DIFFERENCES_SHOWN], f"and {len(problems) - DIFFERENCES_SHOWN} more rows differ"]
        return problems
