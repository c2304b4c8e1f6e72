"""Planned failures inside the tasks of a job: the function that makes their rows stops, fails or lingers.

It runs in Spark's workers, before the sink in the same task, and records events as empty files in the campaign's
folder, which survive the death of every process.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Literal

import pyarrow as pa

from tests.spark.campaigns.rows import JobRow, correction, job_rows

Trouble = Literal["none", "fail", "linger", "stop", "doom"]
STEP = 100
WAIT_S_MAX = 300.0
_FAILURES_MAX = 3  # of four attempts
_CORRECTIONS = 4
_COLUMNS: dict[str, pa.DataType] = {"id": pa.string(), "number": pa.int32(), "text": pa.string()}


class PlannedFailureError(Exception):
    """A task fails as the campaign planned."""


@dataclass(frozen=True, slots=True)
class Upstream:
    """The source of one job's rows, with planned failures. Picklable.

    fail: tasks fail at random places, at most three times, and at least one does. doom: all attempts of one do. linger:
    the first attempt of one partition continues only after another attempt has yielded all of its rows. stop: each task
    waits half-way until resume(). corrects: other clients correct rows of a task before it fails or continues.
    """

    trouble: Trouble
    folder: Path
    server: str
    job: int
    seed: int
    row_count: int
    corrects: bool = True

    def rows(self) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
        """Returns the function for mapInArrow, over one row per partition."""

        def made(_: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            from pyspark import TaskContext

            context = TaskContext.get()
            assert context is not None, "this runs in a task"
            yield from self.steps(context.partitionId(), context.attemptNumber())

        return made

    def steps(self, part: int, attempt: int) -> Iterator[pa.RecordBatch]:
        """Yields the rows of one attempt, STEP at a time."""
        rows = list(job_rows(self.job, part, self.row_count))
        # Step boundaries, without the first, so that some rows are written before the failure.
        places = range(STEP, len(rows), STEP)
        chance = random.Random(f"{self.seed}/{self.job}/{part}/{attempt}")
        breaks_at = chance.choice(places)
        mark = f"{self.job}.{part}.{attempt}"
        self._note("begun", mark)
        for start in range(0, len(rows), STEP):
            if start == breaks_at:
                self._break(rows[:start], part, attempt, chance)
            step = rows[start : start + STEP]
            yield pa.RecordBatch.from_pylist([asdict(row) for row in step], schema=pa.schema(_COLUMNS))
        self._note("given", mark)

    def _break(self, rows: list[JobRow], part: int, attempt: int, chance: random.Random) -> None:
        # At least one failure in each job.
        is_unlucky = attempt < _FAILURES_MAX and (attempt == part == 0 or chance.random() < 0.6)
        if self.trouble == "doom" and part == 0:
            raise PlannedFailureError(f"part {part}, attempt {attempt}")
        if self.trouble == "fail" and is_unlucky:
            self._correct(rows, part, attempt, chance)
            self._note("failed", f"{self.job}.{part}.{attempt}")
            raise PlannedFailureError(f"part {part}, attempt {attempt}")
        if self.trouble == "linger" and attempt == 0 and part == self.job % 2:
            self._wait(lambda: self._has_noted("given", f"{self.job}.{part}.1"))
            self._correct(rows, part, attempt, chance)
        if self.trouble == "stop":
            self._note("stopped", f"{self.job}.{part}.{attempt}")
            self._wait(lambda: self._has_noted("go", f"{self.job}"))

    def _correct(self, rows: list[JobRow], part: int, attempt: int, chance: random.Random) -> None:
        """Changes some of the rows by point writes, as another client would."""
        if not self.corrects:
            return
        import rowlock

        with rowlock.connect(self.server, timeout=60) as client:
            # Rows with a number only: a null of the job would not overwrite the correction in any case.
            for row in chance.sample([row for row in rows if row.number is not None], _CORRECTIONS):
                number = correction(self.job, rows.index(row))
                mark = f"{self.job}.{part}.{attempt}.{row.id}.{number.hex()}"
                self._note("correcting", mark)
                client.table("t").put(row.id, {"f:number": number})
                self._note("corrected", mark)

    def _wait(self, condition: Callable[[], bool]) -> None:
        stop = time.monotonic() + WAIT_S_MAX
        while not condition():
            assert time.monotonic() < stop, f"{self}: the condition was not true within {WAIT_S_MAX:g} s"
            time.sleep(0.02)

    def _note(self, what: str, mark: str) -> None:
        (self.folder / f"{what}.{mark}").touch()

    def _has_noted(self, what: str, mark: str) -> bool:
        return (self.folder / f"{what}.{mark}").exists()

    def noted(self, what: str) -> list[str]:
        """Returns the marks of this kind of event in this job, sorted."""
        found = self.folder.glob(f"{what}.{self.job}.*")
        return sorted(path.name.removeprefix(f"{what}.") for path in found)

    def resume(self) -> None:
        """Resumes the stopped tasks."""
        self._note("go", f"{self.job}")

    def without_trouble(self) -> Upstream:
        return replace(self, trouble="none")
