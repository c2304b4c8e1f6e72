"""A soak: a table that is written, flushed, compacted, split and merged all the time, beside a model of it.

Each writer has a slice of the rows to itself, so it knows what each answer must be. Chores (chores.py) run
beside them, sessions that expire (expiring_sessions.py), and readers of the change feed that die (feed_reader.py). At
the end all slices are judged whole: as they are, after a major compaction, and after a restart.
"""

from __future__ import annotations

import itertools
import os
import random
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import psutil
import rowlock
from rowlock.pytest_plugin import RowlockServer

from tests.consistency.live_server import live_server
from tests.consistency.worker_threads import WorkerThreads
from tests.crash.account import Account
from tests.soak.chores import PROPERTIES, Chores, families
from tests.soak.drawn_cells import CellDraw
from tests.soak.expiring_sessions import ExpiringSessions
from tests.soak.feed_reader import FeedReader
from tests.soak.held_moment import HeldMoment
from tests.soak.model import Read, live_bytes
from tests.soak.process_watch import ProcessWatch, growth_problems, lines_of
from tests.soak.report import Get, Report
from tests.soak.turnstile import Turnstile
from tests.soak.writer import Writer

TABLE = "soak"
_CONFIG = {
    "memstore_flush_bytes": 1 << 20,
    "block_cache_bytes": 4 << 20,
    "block_cache_bytes_max": 0,
    "log_segment_bytes": 4 << 20,
    "compaction_check_ms": 200,
    "compaction_threads": 2,
    "compaction_pause_ms": 1000,
    "compaction_history_succeeded_max": 50,
    "compaction_history_failed_max": 50,
    "compaction_history_attempted_max": 50,
    "session_ids_remembered": 100,
}
# So small that each flush and compaction has many windows, at the price of speed.
_SMALL_WINDOWS = {
    "scan_window_bytes": 20_000,
    "flush_window_bytes": 10_000,
    "flush_merge_window_bytes": 20_000,
    "compaction_window_bytes": 20_000,
}
_WAIT_S = 300.0
# A run without one of these shows nothing about it; on a loaded machine they take longer.
_EXPECTED = (
    "alters",
    "splits at a row",
    "splits in the middle",
    "merges",
    "bulk writes committed",
    "bulk writes aborted",
    "bulk writes over several regions",
    "bulk writes that replace a range",
    "bulk writes with a repeated identity",
    "bulk writes to all slices",
    "sessions that expired with a lock",
    "sessions that expired with a bulk write",
    "readers of the change feed that died",
    "times that the change feed was compared",
)
# A run of two minutes and more is judged by its first and last minute; a shorter one by neither.
_MINUTE_S = 60.0


@dataclass(frozen=True, slots=True)
class Settings:
    """A run of `seconds`, after a warm-up.

    warm_up_s: how long the same load runs before. At first each row has few cells of one version; a get is compared
        only when rows are as they remain.
    held_moment_s: how long a moment of the whole table is held, from a quarter of the run on; 0: never.
    """

    seed: int
    seconds: float
    warm_up_s: float = 0.0
    held_moment_s: float = 0.0
    writer_count: int = 4
    rows_per_writer: int = 1500
    time_to_live_ms: int = 20_000
    has_small_windows: bool = False

    @property
    def is_timed(self) -> bool:
        return self.seconds >= 2 * _MINUTE_S


def run(settings: Settings) -> Report:
    """Runs a soak on a fresh server; if it breaks, the server's log is kept."""
    config = {**_CONFIG, **_SMALL_WINDOWS} if settings.has_small_windows else _CONFIG
    has_held = False
    with live_server(config) as server:
        try:
            with rowlock.connect(server.address, timeout=_WAIT_S) as client:
                report = _Soak(settings, server, client).run()
            has_held = report.has_held
            return report
        finally:
            if not has_held:
                print(f"the server's log: {_kept(server.log_path)}", flush=True)


class _Soak:
    def __init__(self, settings: Settings, server: RowlockServer, client: rowlock.Client) -> None:
        self._settings = settings
        self._server = server
        self._client = client
        self._report = Report()
        self._turnstile = Turnstile()
        self._random = random.Random(f"{settings.seed} soak")
        self._writers: Sequence[Writer] = ()
        self._feed: FeedReader
        self._began = 0.0  # when the warm-up had ended

    def run(self) -> Report:
        settings, client, report = self._settings, self._client, self._report
        client.create_table(TABLE, families(settings.time_to_live_ms), durability="os", properties=PROPERTIES)
        client.create_table(f"{TABLE}-quiet", ["f"]).put(b"row", {b"f:a": b"quiet"})
        client.flush(f"{TABLE}-quiet")
        with ExitStack() as connections:
            self._writers = [
                Writer(
                    connections.enter_context(rowlock.connect(self._server.address, timeout=_WAIT_S)),
                    TABLE,
                    number,
                    settings.rows_per_writer,
                    settings.time_to_live_ms,
                    settings.seed,
                )
                for number in range(settings.writer_count)
            ]
            for writer in self._writers:
                writer.fill()
            self._feed = FeedReader(
                lambda: rowlock.connect(self._server.address, timeout=_WAIT_S),
                TABLE,
                [writer.model for writer in self._writers],
                self._turnstile,
                random.Random(f"{settings.seed} feed"),
            )
            client.flush(TABLE)
            watch = ProcessWatch(_process_id(self._server.folder), self._server.folder)
            idle = watch.sample()
            watch.begin()
            chores = self._work()
            watch.stop()
            for writer in self._writers:
                writer.finish()
            self._feed.compare()
            report.differences += self._feed.problems
            self._judge_all("at the end")
            self._compact_all(chores)
            self._judge_all("after a major compaction")
        self._judge_files(idle.descriptors, watch)
        self._add_figures(chores, watch)
        self._server.restart()
        with ExitStack() as connections:
            # Each writer's connection is closed; its table reads through the client of the run.
            for writer in self._writers:
                writer.use(connections.enter_context(rowlock.connect(self._server.address, timeout=_WAIT_S)))
            self._judge_all("after a restart")
        for writer in self._writers:
            report.differences += [*writer.problems, *writer.bulk_writes.problems]
        return report

    # ---- the load

    def _work(self) -> Chores:
        settings = self._settings
        account = Account("soak", "")
        chores = Chores(self._client, TABLE, self._writers, self._turnstile, settings.time_to_live_ms, self._random)
        generator = random.Random(f"{settings.seed} sessions")
        with WorkerThreads(account) as threads:
            sessions = ExpiringSessions(
                self._client,
                self._server.folder,
                TABLE,
                [row for writer in self._writers for row in writer.rows],
                CellDraw(generator, settings.time_to_live_ms),
                threads.problem,
                generator,
            )
            for number, writer in enumerate(self._writers):
                threads.repeat(f"writer-{number}", lambda writer=writer: self._turn(writer))  # type: ignore[misc]
            threads.repeat("chores", chores.turn)
            threads.repeat("expiring sessions", sessions.turn)
            threads.repeat("feed reader", self._feed.turn)
            threads.wait(settings.warm_up_s)
            self._began = time.monotonic()
            if settings.held_moment_s:
                threads.start("held-moment", lambda: self._hold_moment(threads))
            threads.wait(settings.seconds)
            threads.wait_until(lambda: not self._missing(chores, sessions), _WAIT_S)
        self._report.differences += [*account.problems, *chores.problems]
        self._report.differences += [f"there were no {what}" for what in self._missing(chores, sessions)]
        self._report.lines += [f"{what}: {count:,}" for what, count in sessions.counts.most_common()]
        self._report.lines += [f"{what}: {count:,}" for what, count in sorted(account.counts.items())]
        return chores

    def _missing(self, chores: Chores, sessions: ExpiringSessions) -> list[str]:
        """Returns what has not happened yet."""
        counts = self._counts(chores) + Counter(dict(sessions.counts))
        return [what for what in _EXPECTED if not counts[what]]

    def _counts(self, chores: Chores) -> Counter[str]:
        counts = [each for writer in self._writers for each in (writer.counts, writer.bulk_writes.counts)]
        # Their threads may count on, and a copy is made at once.
        return sum([Counter(dict(each)) for each in (*counts, chores.counts, self._feed.counts)], Counter[str]())

    def _turn(self, writer: Writer) -> None:
        with self._turnstile.turn():
            writer.turn()

    def _hold_moment(self, threads: WorkerThreads) -> None:
        settings = self._settings
        threads.wait(min(settings.seconds / 4, settings.seconds - settings.held_moment_s))
        with self._turnstile.alone():
            moment = {row: columns for writer in self._writers for row, columns in writer.model.rows.items()}
            first_ms = _now_ms()
            held = HeldMoment(
                self._client,
                self._client.table(TABLE),
                moment,
                lambda: Read(first_ms, _now_ms(), settings.time_to_live_ms),
                settings.held_moment_s,
                random.Random(settings.seed),
            )
        while not held.is_over and threads.has_work:
            for problem in held.turn():
                threads.problem(problem)
            threads.wait(0.2)
        for problem in held.finish():
            threads.problem(problem)
        threads.count("short scans of the held moment", held.short_scans)
        threads.count("seconds that one moment was held", int(settings.held_moment_s))

    # ---- the end

    def _judge_all(self, when: str) -> None:
        for writer in self._writers:
            before = len(writer.problems)
            for reverse in (False, True):
                writer.scan((writer.prefix, writer.prefix + b"\xff"), reverse=reverse)
            writer.problems[before:] = [f"{when}: {problem}" for problem in writer.problems[before:]]

    def _compact_all(self, chores: Chores) -> None:
        """Ends the change feed, so that only live cells remain, and compacts all files."""
        self._client.alter_table(TABLE, properties={"changes_retained_hours": None})
        self._client.flush(TABLE)
        deadline = time.monotonic() + _WAIT_S
        while not chores.collect() and time.monotonic() < deadline:
            time.sleep(0.1)
        self._client.compact(TABLE, major=True, wait=True, timeout=_WAIT_S)
        chores.collect()

    def _judge_files(self, descriptors_before: int, watch: ProcessWatch) -> None:
        """Waits until what was replaced is gone: its last readers have ended."""
        deadline = time.monotonic() + 60
        while True:
            live = sum(region.store_file_count for region in self._client.describe(TABLE).regions)
            files = sorted(str(path) for path in self._store_files())
            regions = sum(len(self._client.regions(table)) for table in (TABLE, f"{TABLE}-quiet"))
            sample = watch.sample()
            if (
                len(files) == live
                and sample.descriptors <= descriptors_before + 2 * live
                and sample.region_folders == regions
                and not sample.staging_folders
                and not sample.bulk_files
            ):
                return
            if time.monotonic() > deadline:
                break
            time.sleep(0.1)
        self._report.leaks.append(
            f"{live} store files are live, {len(files)} are on the disk: {files}; "
            f"{sample.descriptors} descriptors are open, {descriptors_before} were before the load; "
            f"there are {regions} regions and {sample.region_folders} folders of regions, "
            f"{sample.staging_folders} folders of bulk writes and {sample.bulk_files} bulk files"
        )

    def _store_files(self) -> Iterator[Path]:
        for region in self._client.regions(TABLE):
            yield from (self._server.folder / "regions" / str(region.region_id)).glob("*.store")

    def _add_figures(self, chores: Chores, watch: ProcessWatch) -> None:
        settings, report = self._settings, self._report
        report.lines += [f"{what}: {count:,}" for what, count in self._counts(chores).most_common()]
        report.lines.append(f"bytes of values written: {sum(writer.bytes_written for writer in self._writers):,}")
        part_s = min(_MINUTE_S, settings.seconds / 2)
        gets, quiet_gets = (
            sorted((get for get in itertools.chain.from_iterable(of_writers) if get.ended > self._began), key=_ended)
            for of_writers in zip(*((writer.gets, writer.quiet_gets) for writer in self._writers), strict=True)
        )
        report.add_gets(gets, quiet_gets, part_s, is_judged=settings.is_timed)
        now_ms = _now_ms()
        read = Read(now_ms, now_ms, settings.time_to_live_ms)
        file_bytes = sum(path.stat().st_size for path in self._store_files())
        report.add_disk(
            file_bytes,
            sum(live_bytes(writer.model.rows, read) for writer in self._writers),
            is_judged=settings.is_timed,
        )
        report.add_compactions(list(chores.ended.values()), file_bytes)
        report.lines += lines_of(watch.samples)
        if settings.is_timed:
            report.misses += growth_problems(watch.samples)


def _kept(log: Path) -> str:
    """Copies a log to a new file and returns its name."""
    descriptor, name = tempfile.mkstemp(prefix="rowlock-soak-", suffix=".log")
    with os.fdopen(descriptor, "wb") as copy:
        copy.write(log.read_bytes())
    return name


def _process_id(folder: Path) -> int:
    """Returns the id of the server process of a folder."""
    return next(child.pid for child in psutil.Process().children() if str(folder) in child.cmdline())


def _ended(get: Get) -> float:
    return get.ended


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
