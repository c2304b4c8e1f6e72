"""Two restarts after a crash: everything that must be there is there, twice, and the server works.

The first restart reads everything, and sends again the step in flight and the writes acknowledged last. It ends as by
SIGKILL, or it has so little memory that it flushes during recovery, and stops in an orderly way. The second must find
exactly what the first left. Each is a separate process.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from rowlock_regionserver.cells import Durability
from rowlock_regionserver.errors import RegionTooBusyError
from rowlock_regionserver.files import Files
from rowlock_regionserver.operations import Put

from tests.crash.children import ChildFailedError, in_child
from tests.crash.driver import REQUESTS_KEPT, WAIT_SECONDS, Driver, small_config, tight_config
from tests.crash.life import DONE, Judge, difference
from tests.crash.orphans import orphans
from tests.crash.simulated_files import UnsyncedFiles
from tests.crash.steps import (
    AlterTable,
    CreateTable,
    DataStep,
    DropTable,
    Flush,
    RestoreSnapshot,
    RowWrite,
    Step,
    Store,
    TruncateTable,
)

_PROBE_TABLE = "probe"


@dataclass(frozen=True, slots=True)
class _Left:
    """The contents that the first restart left, and the problem of what it found."""

    problem: str | None
    store: Store


def problem_after_restarts(
    folder: Path, judge: Judge, *, stops: bool, files: Callable[[], Files] = UnsyncedFiles
) -> str | None:
    """Returns what is wrong with what two restarts find in `folder`; None when all is right.

    `stops`: the first restart has little memory and ends in good order. Changes the folder.
    """
    try:
        left = in_child(lambda: _first(folder, judge, stops, files()))
        if left.problem is not None:
            return f"first restart: {left.problem}"
        problem = in_child(lambda: _second(folder, left.store, files()))
    except ChildFailedError as error:
        return f"restart: {error}"
    return None if problem is None else f"second restart: {problem}"


def _first(folder: Path, judge: Judge, stops: bool, files: Files) -> _Left:
    driver = Driver(folder, files, tight_config() if stops else small_config())
    found = driver.read_all()
    problem = judge.problem(found) or _resent(driver, judge, found)
    if problem is not None:
        return _Left(problem, {})
    _probe(driver, len(judge.steps))
    left = driver.read_all()
    if stops:
        driver.server.stop()
    return _Left(None, left)


def _second(folder: Path, expected: Store, files: Files) -> str | None:
    driver = Driver(folder, files, small_config())
    problem = store_difference(driver.read_all(), expected) or orphans(driver.server, folder, files)
    _probe(driver, 10_000)
    driver.server.stop()
    return problem


def store_difference(found: Store, expected: Store) -> str | None:
    """Returns how two stores differ; None when they are equal."""
    if found == expected:
        return None
    for name in expected.keys() & found.keys():
        if found[name].rows != expected[name].rows:
            return f"table {name}: {difference(found[name].rows, expected[name].rows)}"
    return f"tables {sorted(found)}, expected {sorted(expected)}, or other families"


def _resent(driver: Driver, judge: Judge, found: Store) -> str | None:
    """Sends again the write in flight and those acknowledged last. Updates `found` like the server."""
    in_flight = judge.in_flight()
    newest = max((n for n, state in enumerate(judge.progress) if state), default=-1)
    for number in range(max(0, newest - REQUESTS_KEPT), newest + 1):
        step = judge.steps[number]
        if not isinstance(step, DataStep) or not _is_still_served(judge, number):
            continue
        is_certain = judge.progress[number] == DONE and step.durability >= judge.survives and judge.is_written(number)
        if not is_certain and number != in_flight:
            continue
        is_repeated = _do(driver, number, step)
        if is_certain and not is_repeated:
            return f"step {number}, {step}, was acknowledged, sent again, and applied again"
        if not is_repeated:
            step.apply(found[step.table].rows)
    return store_difference(driver.read_all(), found)


def _is_still_served(judge: Judge, number: int) -> bool:
    """Returns whether no table operation has replaced the table's region, and its saved answers, since the step."""
    table = judge.steps[number].table  # type: ignore[union-attr]  # The caller has only writes.
    replacing = CreateTable | AlterTable | TruncateTable | DropTable | RestoreSnapshot
    return not any(
        isinstance(step, replacing) and step.table == table and state
        for step, state in zip(judge.steps[number:], judge.progress[number:], strict=True)
    )


def _probe(driver: Driver, number: int) -> None:
    """Checks that the server accepts a new table, a write and a flush."""
    if all(table.name != _PROBE_TABLE for table in driver.server.tables()):
        driver.do(number, CreateTable(_PROBE_TABLE, (b"f",)))
    _do(driver, number + 1, RowWrite(_PROBE_TABLE, b"%d" % number, (Put(b"f", b"q", b"v"),), Durability.FSYNC))
    driver.do(number + 2, Flush(_PROBE_TABLE))


def _do(driver: Driver, number: int, step: Step) -> bool:
    """Does a step, again while memstores are full: with little memory they may be, until the first flush."""
    deadline = time.monotonic() + WAIT_SECONDS
    while True:
        try:
            return driver.do(number, step)
        except RegionTooBusyError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.01)
