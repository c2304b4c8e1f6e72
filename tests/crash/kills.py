"""SIGKILLs at random moments under concurrent writes over gRPC: nothing acknowledged is lost, no row is half there.

A real `rowlock-server` on a real folder; writer processes with eight threads each (kill_writer.py): puts of two
families, mutations with a counter, shared counters, compare-and-put races, bulk batches. Small limits make it flush and
roll its log all the time. It is killed at a random moment, sometimes before it is ready, and started again on the same
port; the writers just go on. After each start everything is scanned, at one read point:

- a row's columns are equal, and its number lies between what was acknowledged before the scan and sent after it;
- the rows of a bulk batch are equal;
- a counter's number is at least what was answered before the scan, and no number is ever answered twice;
- a row's own counter of changes is its number: what the client had to repeat was applied once.

At the end all numbers are exact, over one more orderly stop.
"""

from __future__ import annotations

import random
import re
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import mkdtemp
from typing import IO, TYPE_CHECKING

import numpy as np

from tests.crash.account import Account, Settings
from tests.crash.children import ChildFailedError, in_child
from tests.crash.kill_ledger import COUNTERS, ROWS_A_THREAD, SLOTS_A_WRITER, THREADS, Bytes, Int64s, Ledger

if TYPE_CHECKING:
    from rowlock import Client

PROMISE = (
    "a server killed again and again under concurrent writers: nothing acknowledged lost, no half row, exact counters"
)
KILLS, KILLS_SHORT = 200, 3
OPERATIONS, OPERATIONS_SHORT = 100_000, 500
WRITERS = 3
START_SECONDS_MAX = 60.0
# The longest life; one in eight kills comes before the server is ready.
LIFE_SECONDS_MAX = 1.6
CONFIG = {
    "memstore_flush_bytes": "512KiB",
    "log_segment_bytes": "256KiB",
    "log_segment_count_max": "4",
    "bulk_file_bytes_min": "4KiB",
    "log_idle_marker_ms": "20",
    "disk_free_bytes_min": "1MiB",
}


def run(settings: Settings) -> Account:
    """The campaign. It has a process of its own, because gRPC's threads would spoil the forks of the others."""
    account = Account("kills", PROMISE)
    try:
        told = in_child(lambda: Campaign(settings).run())
    except ChildFailedError as error:
        account.problems.append(str(error))
        return account
    account.counts, account.problems = told.counts, told.problems
    return account


@dataclass(slots=True)
class Told:
    """What the campaign did and found."""

    counts: Counter[str] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)


class Server:
    """The server's process. Always on the same port once it had one."""

    def __init__(self, folder: Path) -> None:
        self.address = "127.0.0.1:0"
        self._folder = folder
        self._errors = folder.with_name("server.log")
        self._process: subprocess.Popen[str] | None = None

    def launch(self) -> None:
        """Starts it, and does not wait."""
        command = [sys.executable, "-m", "rowlock_regionserver", "--data", str(self._folder), "--listen", self.address]
        command += [word for name, value in CONFIG.items() for word in ("--config", f"{name}={value}")]
        with self._errors.open("a") as errors:
            self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True)

    def wait_until_ready(self) -> None:
        """Until it serves; ChildFailedError with its words when it does not."""
        assert self._process is not None
        found = re.search(r"ready on (\S+:\d+)", _line(self._process.stdout))
        if found is None:
            raise ChildFailedError(f"the server did not start: {self._errors.read_text()[-2000:]}")
        self.address = found[1]

    def kill(self) -> None:
        """SIGKILL. ChildFailedError when it had ended before, by itself."""
        self._end(signal.SIGKILL, -signal.SIGKILL)

    def stop(self) -> None:
        """An orderly stop."""
        self._end(signal.SIGTERM, 0)

    def end(self) -> None:
        """Ends it, however it is; for when the campaign is over."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def _end(self, number: signal.Signals, expected: int) -> None:
        assert self._process is not None
        self._process.send_signal(number)
        code = self._process.wait(START_SECONDS_MAX)
        assert self._process.stdout is not None
        self._process.stdout.close()
        if code != expected:
            raise ChildFailedError(f"the server ended with {code}: {self._errors.read_text()[-2000:]}")


class Campaign:
    """One run. All is in a folder of its own, on a real disk."""

    def __init__(self, settings: Settings) -> None:
        self._chance = random.Random(settings.seed)
        self._kills = KILLS_SHORT if settings.is_short else KILLS
        self._operations = OPERATIONS_SHORT if settings.is_short else OPERATIONS
        self._root = Path(mkdtemp(prefix="rowlock-kills-"))
        self._server = Server(self._root / "data")
        self._ledger_path = self._root / "ledger"
        Ledger.make(self._ledger_path, WRITERS)
        self._ledger = Ledger(self._ledger_path, WRITERS)
        self._told = Told()

    def run(self) -> Told:
        writers: list[subprocess.Popen[str]] = []
        try:
            self._make_table()
            writers += [self._writer(place) for place in range(WRITERS)]
            self._wait_for_all(writers)
            while not self._told.problems and not self._is_done():
                self._one_life(writers)
            self._finish(writers)
        except ChildFailedError as error:
            self._told.problems.append(str(error))
        finally:
            self._server.end()
            for process in writers:
                process.kill()
        self._told.counts["operations acknowledged"] = self._ledger.operation_count
        if not self._told.problems:
            shutil.rmtree(self._root)
        else:
            self._told.problems.append(f"what is left is in {self._root}")
        return self._told

    def _is_done(self) -> bool:
        return self._told.counts["SIGKILLs"] >= self._kills and self._ledger.operation_count >= self._operations

    def _make_table(self) -> None:
        from rowlock import Family

        self._server.launch()
        self._server.wait_until_ready()
        with self._client() as client:
            client.create_table("kills", {"info": Family(), "stats": Family(versions=2)})

    def _writer(self, place: int) -> subprocess.Popen[str]:
        arguments = [self._server.address, str(self._ledger_path), str(WRITERS), str(place)]
        command = [sys.executable, "-m", "tests.crash.kill_writer", *arguments]
        with self._root.joinpath("writers.log").open("a") as log:
            return subprocess.Popen(command, stderr=log, text=True)

    def _wait_for_all(self, writers: list[subprocess.Popen[str]]) -> None:
        """Every writer is connected: connecting is the only call that needs a server at once."""
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
        """Lets the server live for a random time, kills it, starts it again, and looks at everything."""
        time.sleep(self._chance.uniform(0, LIFE_SECONDS_MAX))
        self._kill("after it was ready")
        self._server.launch()
        while self._chance.random() < 1 / 8:
            time.sleep(self._chance.uniform(0, 1))
            self._kill("perhaps before it was ready")
            self._server.launch()
        started = time.monotonic()
        self._server.wait_until_ready()
        self._told.counts["restarts"] += 1
        self._told.counts["longest restart in ms"] = max(
            self._told.counts["longest restart in ms"], round(1000 * (time.monotonic() - started))
        )
        self._check_all()
        self._check_writers(writers)

    def _kill(self, when: str) -> None:
        self._server.kill()
        self._told.counts["SIGKILLs"] += 1
        self._told.counts[f"  {when}"] += 1

    def _finish(self, writers: list[subprocess.Popen[str]]) -> None:
        """The writers end; then everything is exact, also after an orderly stop."""
        self._ledger.stop()
        for process in writers:
            if process.wait(START_SECONDS_MAX):
                raise ChildFailedError(f"a writer ended: {self._root.joinpath('writers.log').read_text()[-3000:]}")
        if not np.array_equal(self._ledger.sent, self._ledger.acknowledged):
            self._told.problems.append("a call was not answered")
        self._check_all()
        self._server.stop()
        self._server.launch()
        self._server.wait_until_ready()
        self._check_all()
        for kind, marks in (("increments", self._ledger.increment_marks), ("races", self._ledger.race_marks)):
            self._told.counts[f"{kind} answered, each number once"] = int(marks.sum())
        self._server.stop()

    def _client(self) -> Client:
        import rowlock

        return rowlock.connect(self._server.address, timeout=START_SECONDS_MAX)

    def _check_all(self) -> None:
        """Scans everything at one read point and compares it with the ledger of before and after."""
        acknowledged = self._ledger.acknowledged.copy()
        marks = [(array.copy(), kind) for array, kind in self._counters()]
        with self._client() as client:
            rows = dict(client.table("kills").scan())
        found = Found(rows)
        self._told.problems += found.row_problems(acknowledged, self._ledger.sent.copy())
        for (before, kind), (after, _) in zip(marks, self._counters(), strict=True):
            self._told.problems += found.counter_problems(kind, before, after, is_final=self._ledger.is_stopping)
        self._told.counts["rows read and judged"] += len(rows)

    def _counters(self) -> list[tuple[Bytes, str]]:
        return [(self._ledger.increment_marks, "counter"), (self._ledger.race_marks, "race")]


class Found:
    """What a scan found, judged."""

    def __init__(self, rows: dict[bytes, dict[bytes, bytes]]) -> None:
        self._rows = rows

    def row_problems(self, acknowledged: Int64s, sent: Int64s) -> list[str]:
        """Rows that are in part, lost or invented. Numbers of slots: acknowledged before the scan, sent after it."""
        from tests.crash.kill_writer import BULK_ROWS, bulk_row, row_of

        problems = []
        for slot in range(len(sent)):
            kind = slot % SLOTS_A_WRITER // ROWS_A_THREAD
            is_bulk = kind == THREADS - 1
            names = [bulk_row(slot, place) for place in range(BULK_ROWS)] if is_bulk else [row_of(slot)]
            numbers = {number for name in names for number in self._numbers(name)}
            if len(numbers) != 1:
                problems.append(f"{names[0]!r} is there in part: numbers {sorted(numbers)}")
            elif not acknowledged[slot] <= min(numbers) <= sent[slot]:
                lost = "LOST" if min(numbers) < acknowledged[slot] else "never written"
                problems.append(
                    f"{names[0]!r} is {numbers}, {lost}: {acknowledged[slot]} acknowledged, {sent[slot]} sent"
                )
        return problems

    def _numbers(self, name: bytes) -> list[int]:
        """The numbers in the row's columns, with its counter of changes if it has one; an absent row is 0."""
        from tests.crash.kill_writer import COLUMNS

        cells = self._rows.get(name)
        if cells is None:
            return [0]
        numbers = [int(cells.get(column, b"-1").split()[0]) for column in COLUMNS]
        if b"stats:changes" in cells:
            numbers.append(int.from_bytes(cells[b"stats:changes"], "big"))
        return numbers

    def counter_problems(self, kind: str, before: Bytes, after: Bytes, *, is_final: bool) -> list[str]:
        """Counters below an answer given before the scan; at the end, numbers that nobody was answered."""
        from tests.crash.kill_writer import counter_row

        problems = []
        for place in range(COUNTERS):
            cells = self._rows.get(counter_row(kind, place), {})
            found = int(cells.get(b"info:n", b"0")) + int.from_bytes(cells.get(b"stats:n", b""), "big")
            answered = int(before[place].nonzero()[0].max(initial=0))
            if found < answered:
                problems.append(f"{kind} {place} is {found}, LOST: {answered} was answered")
            if is_final and not (found == after[place].sum() and after[place][1 : found + 1].all()):
                problems.append(f"{kind} {place} is {found}, but {after[place].sum()} numbers were answered")
        return problems


def _line(stream: IO[str] | None) -> str:
    assert stream is not None
    return stream.readline()
