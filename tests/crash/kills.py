"""SIGKILLs at random moments under concurrent direct writes: nothing acknowledged is lost, and no row is incomplete.

A real `rowlock-server` runs on a real folder, with writer processes of eight threads each (kill_writer.py): puts of two
families, mutations with a counter, shared counters, compare-and-put races, bulk batches. Small limits make it flush and
roll its log all the time. It is killed at a random moment, sometimes before it is ready, and restarted on the same
port, while the writers continue. After each start everything is scanned, at one read point:

- a row's columns are equal, and its number lies between what was acknowledged before the scan and sent after it;
- the rows of a bulk batch are equal;
- a counter's number is at least what was answered before the scan, and no number is ever answered twice;
- a row's own counter of changes equals its number: changes that the client retried were applied once.

At the end all numbers are exact, also after an orderly stop.
"""

from __future__ import annotations

import random
import shutil
import subprocess
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import mkdtemp
from typing import TYPE_CHECKING

import numpy as np

from tests.crash.account import Account, Settings
from tests.crash.children import ChildFailedError, in_child
from tests.crash.kill_judge import Found
from tests.crash.kill_ledger import TABLE, Bytes, Ledger
from tests.crash.kill_server import START_SECONDS_MAX, Server

if TYPE_CHECKING:
    from rowlock import Client

PROMISE = (
    "a server killed again and again under concurrent writers: nothing acknowledged lost, no half row, exact counters"
)
KILLS, KILLS_SHORT = 200, 3
OPERATIONS, OPERATIONS_SHORT = 100_000, 500
WRITERS = 3
# The longest life; one in eight kills comes before the server is ready.
LIFE_SECONDS_MAX = 1.6


def run(settings: Settings) -> Account:
    """Runs the campaign, in a separate process, because gRPC's threads would make the forks of others unsafe."""
    account = Account("kills", PROMISE)
    try:
        outcome = in_child(lambda: Campaign(settings).run(), seconds_max=None)
    except ChildFailedError as error:
        account.problems.append(str(error))
        return account
    account.counts, account.problems = outcome.counts, outcome.problems
    return account


@dataclass(slots=True)
class RunResult:
    """The result of the campaign."""

    counts: Counter[str] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)


class Campaign:
    """One run, in its own folder on a real disk."""

    def __init__(self, settings: Settings) -> None:
        self._chance = random.Random(settings.seed)
        self._kills = KILLS_SHORT if settings.is_short else KILLS
        self._operations = OPERATIONS_SHORT if settings.is_short else OPERATIONS
        self._root = Path(mkdtemp(prefix="rowlock-kills-"))
        self._server = Server(self._root / "data")
        self._ledger_path = self._root / "ledger"
        Ledger.make(self._ledger_path, WRITERS)
        self._ledger = Ledger(self._ledger_path, WRITERS)
        self._result = RunResult()

    def run(self) -> RunResult:
        writers: list[subprocess.Popen[str]] = []
        try:
            self._make_table()
            writers += [self._writer(place) for place in range(WRITERS)]
            self._wait_for_all(writers)
            while not self._result.problems and not self._is_done():
                self._one_life(writers)
            self._finish(writers)
        except ChildFailedError as error:
            self._result.problems.append(str(error))
        finally:
            self._server.end()
            for process in writers:
                process.kill()
        self._result.counts["operations acknowledged"] = self._ledger.operation_count
        if not self._result.problems:
            shutil.rmtree(self._root)
        else:
            self._result.problems.append(f"what is left is in {self._root}")
        return self._result

    def _is_done(self) -> bool:
        return self._result.counts["SIGKILLs"] >= self._kills and self._ledger.operation_count >= self._operations

    def _make_table(self) -> None:
        from rowlock import Family

        self._server.launch()
        self._server.wait_until_ready()
        with self._client() as client:
            client.create_table(TABLE, {"info": Family(), "stats": Family(versions=2)}, durability="os")

    def _writer(self, place: int) -> subprocess.Popen[str]:
        arguments = [self._server.address, str(self._ledger_path), str(WRITERS), str(place)]
        command = [sys.executable, "-m", "tests.crash.kill_writer", *arguments]
        with self._root.joinpath("writers.log").open("a") as log:
            return subprocess.Popen(command, stderr=log, text=True)

    def _wait_for_all(self, writers: list[subprocess.Popen[str]]) -> None:
        """Waits until every writer is connected, because only connecting needs a running server."""
        deadline = time.monotonic() + START_SECONDS_MAX
        while not all(self._ledger.has_begun(place) for place in range(WRITERS)):
            self._check_writers(writers)
            if time.monotonic() > deadline:
                raise ChildFailedError("the writers did not begin")
            time.sleep(0.01)

    def _check_writers(self, writers: list[subprocess.Popen[str]]) -> None:
        if any(process.poll() is not None for process in writers):
            raise ChildFailedError(f"a writer ended: {self._root.joinpath('writers.log').read_text()[-3000:]}")

    def _one_life(self, writers: list[subprocess.Popen[str]]) -> None:
        """Kills the server after a random time, restarts it, and checks everything."""
        time.sleep(self._chance.uniform(0, LIFE_SECONDS_MAX))
        self._kill("after it was ready")
        self._server.launch()
        while self._chance.random() < 1 / 8:
            time.sleep(self._chance.uniform(0, 1))
            self._kill("perhaps before it was ready")
            self._server.launch()
        started = time.monotonic()
        self._server.wait_until_ready()
        self._result.counts["restarts"] += 1
        self._result.counts["longest restart in ms"] = max(
            self._result.counts["longest restart in ms"], round(1000 * (time.monotonic() - started))
        )
        self._check_all()
        self._check_writers(writers)

    def _kill(self, when: str) -> None:
        self._server.kill()
        self._result.counts["SIGKILLs"] += 1
        self._result.counts[f"  {when}"] += 1

    def _finish(self, writers: list[subprocess.Popen[str]]) -> None:
        """Stops the writers, and checks that everything is exact, also after an orderly stop."""
        self._ledger.stop()
        for process in writers:
            if process.wait(START_SECONDS_MAX):
                raise ChildFailedError(f"a writer ended: {self._root.joinpath('writers.log').read_text()[-3000:]}")
        if not np.array_equal(self._ledger.sent, self._ledger.acknowledged):
            self._result.problems.append("a call was not answered")
        self._check_all()
        self._server.stop()
        self._server.launch()
        self._server.wait_until_ready()
        self._check_all()
        for kind, marks in (("increments", self._ledger.increment_marks), ("races", self._ledger.race_marks)):
            self._result.counts[f"{kind} answered, each number once"] = int(marks.sum())
        self._server.stop()

    def _client(self) -> Client:
        import rowlock

        return rowlock.connect(self._server.address, timeout=START_SECONDS_MAX)

    def _check_all(self) -> None:
        """Scans everything at one read point and compares it with the ledger before and after the scan."""
        acknowledged = self._ledger.acknowledged.copy()
        marks = [(array.copy(), kind) for array, kind in self._counters()]
        with self._client() as client:
            rows = dict(client.table(TABLE).scan())
        found = Found(rows)
        self._result.problems += found.row_problems(acknowledged, self._ledger.sent.copy())
        for (before, kind), (after, _) in zip(marks, self._counters(), strict=True):
            self._result.problems += found.counter_problems(kind, before, after, is_final=self._ledger.is_stopping)
        self._result.counts["rows read and judged"] += len(rows)

    def _counters(self) -> list[tuple[Bytes, str]]:
        return [(self._ledger.increment_marks, "counter"), (self._ledger.race_marks, "race")]
