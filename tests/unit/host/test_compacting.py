"""The compaction threads: what they queue, how jobs end, and what is found after a restart. Regions are fakes."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from rowlock_regionserver import generations
from rowlock_regionserver.cells import Family
from rowlock_regionserver.clock import ManualClock
from rowlock_regionserver.compaction.job import CompactionJob, RequestedStore, State, StoreId
from rowlock_regionserver.compaction.picker import FileFacts, Kind, Plan
from rowlock_regionserver.compaction.progress import CompactionCancelledError, CompactionResult, Progress
from rowlock_regionserver.compaction.tombstone_flushes import NOTHING_IN_MEMORY, MemoryFacts
from rowlock_regionserver.config import Config
from rowlock_regionserver.errors import (
    CorruptionError,
    DiskFullError,
    InvalidRequestError,
    NotServingRegionError,
    OutOfMemoryError,
    StoppingError,
    UnknownOutcomeError,
)
from rowlock_regionserver.files import Files
from rowlock_regionserver.host.compacting import CompactionThreads
from rowlock_regionserver.host.compaction_history import NAME
from rowlock_regionserver.region.compacting import StoreFacts
from rowlock_regionserver.table import Table

from tests.threads import is_at, wait_until_it_ends_or
from tests.waiting import WAIT_S

CONFIG = Config(compaction_check_ms=60_000)
TABLE = Table("t", 1, (Family(1, b"f"),))
# What a compaction does: an error to raise, or None for a success.
Outcome = Exception | None


def file_facts(number: int) -> FileFacts:
    return FileFacts(
        number=number,
        byte_count=1000,
        cell_count=10,
        tombstone_count=0,
        expired_count=0,
        is_all_expired=False,
        is_protected=False,
        is_base=False,
        age_ms=0,
        first_row=b"a%d" % number,
        last_row=b"z",
    )


@dataclass(eq=False)
class FakeRegion:
    """A region with one family whose files become one when a compaction has ended as the script says."""

    region_id: int
    files: list[int] = field(default_factory=lambda: [4, 3, 2, 1])
    table: Table = TABLE
    memory: MemoryFacts = NOTHING_IN_MEMORY
    gains_nothing: bool = False  # its compactions leave the files as they were, so the next one is due at once
    look_count: int = 0

    def has_been_looked_at(self, times: int) -> bool:
        return self.look_count >= times

    def compaction_facts(self) -> Sequence[StoreFacts]:
        self.look_count += 1
        return [StoreFacts(self.table.families[0], tuple(map(file_facts, self.files)), self.memory)]


class Case:
    """Compaction threads whose compactions end when the test says so."""

    def __init__(self, folder: Path, config: Config = CONFIG, regions: int = 1) -> None:
        self.folder = folder
        self.clock = ManualClock()
        self.regions = {number: FakeRegion(number) for number in range(1, regions + 1)}
        for number in self.regions:
            (folder / str(number)).mkdir(exist_ok=True)
        self.outcomes: deque[Outcome] = deque()
        self.may_end = threading.Event()
        self.may_end.set()
        self.failures: list[BaseException] = []
        self.begun: list[Plan] = []
        self.changed = threading.Condition()
        shared: Any = SimpleNamespace(config=config, clock=self.clock, files=Files(), on_fatal=self.failures.append)
        regions_of: Any = self.regions
        self.flushes_requested: list[int] = []
        self.threads = CompactionThreads(
            regions_of,
            self._compact,
            lambda number: folder / str(number),
            shared,
            self.flushes_requested.append,
        )

    def _compact(self, region_id: int, family_number: int, plan: Plan, progress: Progress) -> CompactionResult:
        progress.bytes_total = 1000 * len(plan.inputs)
        with self.changed:
            self.begun.append(plan)
            self.changed.notify_all()
        while not self.may_end.wait(0.001):
            progress.check()
        outcome = self.outcomes.popleft() if self.outcomes else None
        if outcome is not None:
            raise outcome
        progress.bytes_read = progress.bytes_total
        region = self.regions[region_id]
        if region.gains_nothing:
            return CompactionResult(len(plan.inputs), len(plan.inputs), progress.bytes_total, 1000, 40, 40)
        region.files = [number for number in region.files if number not in plan.inputs] + [max(region.files) + 1]
        return CompactionResult(len(plan.inputs), 1, progress.bytes_total, 500, 40, 30)

    def request(self, region_id: int = 1, kind: Kind = Kind.MINOR) -> int:
        [job_id] = self.threads.request([RequestedStore(StoreId(region_id, 1), "t", b"f", kind)])
        return job_id

    def job(self, job_id: int) -> CompactionJob:
        [job] = self.threads.jobs_of_ids([job_id])
        return job

    def until(self, holds: Callable[[], bool]) -> None:
        ends_at = time.monotonic() + WAIT_S
        while not holds():
            assert not self.failures, self.failures
            assert time.monotonic() < ends_at, self.threads.jobs()
            threading.Event().wait(0.001)

    def ended(self, job_id: int) -> CompactionJob:
        self.until(lambda: any(job.state.is_over for job in self.threads.jobs_of_ids([job_id])))
        self.until(lambda: self.threads.statistics().working_count == 0)
        return self.job(job_id)

    def until_working(self) -> None:
        with self.changed:
            assert self.changed.wait_for(lambda: self.begun, WAIT_S)

    def look(self) -> None:
        """Has the initiator look at region 1 once, from beginning to end. No job may be queued or working."""
        region = self.regions[1]
        for _ in range(2):  # The second look begins after the end of the first one.
            target = region.look_count + 1
            self.threads.wake(1)
            self.until(partial(region.has_been_looked_at, target))

    def automatic(self) -> CompactionJob:
        """Has the initiator look until there is one more job; returns it when it is over."""
        before = {job.job_id for job in self.threads.jobs()}
        self.threads.wake(1)
        self.until(lambda: bool({job.job_id for job in self.threads.jobs()} - before))
        return self.ended(max(job.job_id for job in self.threads.jobs()))


@pytest.fixture
def begun() -> Iterator[list[Case]]:
    """Ends the threads of cases after the test."""
    cases: list[Case] = []
    yield cases
    for case in cases:
        case.may_end.set()
        case.threads.stop()


@pytest.fixture
def make(tmp_path: Path, begun: list[Case]) -> Callable[..., Case]:
    def made(config: Config = CONFIG, regions: int = 1, *, is_automatic: bool = False) -> Case:
        case = Case(tmp_path, config, regions)
        if not is_automatic:
            for region in case.regions.values():
                region.table = replace(region.table, properties=(("compaction.automatic", "false"),))
        begun.append(case)
        case.threads.begin()
        return case

    return made


Make = Callable[..., Case]


def test_a_request_is_carried_out_and_kept_over_a_restart(make: Make) -> None:
    case = make()
    ended = case.ended(case.request())
    assert (ended.state, ended.kind, ended.worker, ended.is_by_hand) == (
        State.SUCCEEDED,
        Kind.MINOR,
        "compaction-1",
        True,
    )
    assert (ended.work.files_in, ended.work.files_out, ended.work.bytes_read) == (4, 1, 4000)
    assert case.regions[1].files == [5]
    case.threads.stop()
    after = make()
    assert after.threads.jobs() == [ended]
    assert after.request() == 1001, "jobs that had not ended are not on the disk, and their ids are not used again"


def test_a_flush_is_requested_of_a_region_with_many_tombstones_in_memory(make: Make) -> None:
    case = make(is_automatic=True, regions=2)
    case.ended(2)
    assert case.flushes_requested == []
    case.regions[2].memory = MemoryFacts(row_count=1000, tombstone_count=1000)
    case.threads.wake(2)
    case.until(lambda: case.flushes_requested == [2])


def test_what_is_due_is_queued_without_a_request_also_when_a_flush_wakes_the_initiator(make: Make) -> None:
    case = make(is_automatic=True)
    first = case.ended(1)
    assert (first.state, first.is_by_hand) == (State.SUCCEEDED, False)
    assert first.why
    assert case.regions[1].files == [5]
    wait_until_it_ends_or(case.threads.initiator, lambda: is_at(case.threads.initiator, "self._wake.wait("))
    case.regions[1].files = [24, 23, 22, 21]
    assert case.automatic().state is State.SUCCEEDED


def test_an_automatic_compaction_that_gained_nothing_is_not_repeated_before_the_pause_is_over(
    begun: list[Case], tmp_path: Path
) -> None:
    case = Case(tmp_path)
    begun.append(case)
    case.regions[1].gains_nothing = True
    case.threads.begin()
    assert case.ended(1).state is State.SUCCEEDED
    case.clock.advance(CONFIG.compaction_pause_ms - 1)
    case.look()
    assert len(case.threads.jobs()) == 1
    case.clock.advance(1)
    assert case.automatic().state is State.SUCCEEDED
    assert len(case.begun) == 2


def test_a_table_may_switch_automatic_compaction_off(make: Make) -> None:
    case = make()
    case.threads.wake(1)
    case.ended(case.request())
    assert [job.is_by_hand for job in case.threads.jobs()] == [True]


def test_damage_is_named_and_stops_automatic_compaction_until_a_request_succeeds(make: Make) -> None:
    case = make(replace(CONFIG, compaction_pause_ms=1))
    case.outcomes.append(CorruptionError("1-7.store", 5, "a block", "zeros"))
    ended = case.ended(case.request(kind=Kind.MAJOR))
    assert ended.state is State.FAILED
    assert "1-7.store is damaged at byte 5" in ended.error
    assert case.regions[1].files == [4, 3, 2, 1], "the store is served as before"
    case.clock.advance(10)
    case.regions[1].table = replace(case.regions[1].table, properties=())
    attempted = case.automatic()
    assert attempted.state is State.ATTEMPTED
    assert "automatic compaction of this store has stopped: a file is damaged: 1-7.store" in attempted.error
    assert len(case.begun) == 1
    case.ended(case.request(kind=Kind.MAJOR))
    case.regions[1].files = [24, 23, 22, 21]
    case.clock.advance(10)
    assert case.automatic().state is State.SUCCEEDED


def test_a_bug_is_logged_and_fails_one_job_only(make: Make, caplog: pytest.LogCaptureFixture) -> None:
    case = make()
    case.outcomes.append(ValueError("off by one"))
    with caplog.at_level(logging.ERROR):
        ended = case.ended(case.request())
    assert ended.state is State.FAILED
    assert ended.error.startswith("unexpected ValueError: off by one")
    assert "off by one" in caplog.text
    assert case.ended(case.request()).state is State.SUCCEEDED


def test_a_disk_that_is_too_full_refuses_the_job_before_it_starts(make: Make) -> None:
    case = make()
    case.outcomes.append(DiskFullError("a compaction of 4000 bytes needs 5000 bytes of free disk space"))
    ended = case.ended(case.request())
    assert (ended.state, ended.error) == (
        State.ATTEMPTED,
        "a compaction of 4000 bytes needs 5000 bytes of free disk space",
    )


def test_a_lack_of_memory_is_no_failure_of_the_store(make: Make) -> None:
    """It was reported as a bug, and two of them stopped automatic compaction."""
    case = make()
    case.outcomes.append(OutOfMemoryError("the process lacks memory"))
    ended = case.ended(case.request())
    assert (ended.state, ended.error) == (State.ATTEMPTED, "the process lacks memory")


def test_a_working_job_is_cancelled_within_a_piece(make: Make) -> None:
    case = make()
    case.may_end.clear()
    job_id = case.request()
    case.until_working()
    [cancelled] = case.threads.cancel([job_id, 99])
    assert cancelled.job_id == job_id
    ended = case.ended(job_id)
    assert (ended.state, ended.error) == (State.FAILED, "cancelled by hand")
    assert case.regions[1].files == [4, 3, 2, 1]


def test_a_queued_job_is_cancelled_and_recorded(make: Make) -> None:
    case = make(regions=2)
    case.may_end.clear()
    case.request(1)
    case.until_working()
    queued = case.request(2)
    [cancelled] = case.threads.cancel([queued])
    assert (cancelled.state, cancelled.error) == (State.ATTEMPTED, "cancelled by hand")
    assert generations.generation_numbers(Files(), case.folder / "2", NAME) == [1]


def test_a_stop_cancels_what_works_and_waits_for_it(make: Make) -> None:
    case = make(regions=2)
    case.may_end.clear()
    working = case.request(1)
    case.until_working()
    queued = case.request(2)
    case.threads.stop()
    assert [(case.job(number).state, case.job(number).error) for number in (working, queued)] == [
        (State.FAILED, "the server was stopped"),
        (State.ATTEMPTED, "the server was stopped"),
    ]
    with pytest.raises(StoppingError):
        case.request()
    after = make(regions=2)
    assert [job.job_id for job in after.threads.jobs()] == [working, queued]


def test_jobs_of_a_dropped_region_are_cancelled_and_nothing_is_written_any_more(make: Make) -> None:
    case = make()
    case.may_end.clear()
    job_id = case.request()
    case.until_working()
    case.threads.forget(1, (), "its table was dropped")
    del case.regions[1]
    case.threads.forget(1, (), "its table was dropped")
    ended = case.ended(job_id)
    assert (ended.state, ended.error) == (State.FAILED, "its table was dropped")
    assert case.threads.jobs() == []
    case.threads.stop()
    assert list((case.folder / "1").iterdir()) == []


@pytest.mark.parametrize("error", [NotServingRegionError("the region is closed"), CompactionCancelledError("gone")])
def test_a_region_that_is_closed_meanwhile_ends_its_job(make: Make, error: Exception) -> None:
    case = make()
    case.outcomes.append(error)
    ended = case.ended(case.request())
    assert (ended.state, ended.error) == (State.FAILED, str(error))


def test_an_unknown_outcome_ends_the_threads_and_is_not_recorded(make: Make) -> None:
    case = make()
    case.outcomes.append(UnknownOutcomeError("the manifest is written, but its folder could not be synced"))
    case.request()
    for thread in case.threads.workers:
        thread.join(WAIT_S)
    assert [job.state for job in case.threads.jobs()] == [State.WORKING]
    case.threads.stop()


def test_a_damaged_history_is_ignored(make: Make, caplog: pytest.LogCaptureFixture) -> None:
    case = make()
    case.ended(case.request())
    case.threads.stop()
    [path] = (case.folder / "1").iterdir()
    path.write_bytes(path.read_bytes()[:-1] + b"!")
    after = make()
    assert after.threads.jobs() == []
    assert "can't be read and is ignored" in caplog.text
    after.ended(after.request())
    after.threads.stop()
    assert [job.job_id for job in make().threads.jobs()] == [1], "the next write replaces it"


def test_a_family_that_was_dropped_before_a_restart_has_no_history(make: Make) -> None:
    case = make()
    case.ended(case.request())
    case.threads.stop()
    after = Case(case.folder)
    after.regions[1].table = replace(TABLE, families=(Family(2, b"g"),))
    after.threads.begin()
    after.threads.stop()
    assert not any(job.family == b"f" for job in after.threads.jobs())


def test_a_history_that_can_not_be_written_is_no_failure(make: Make, caplog: pytest.LogCaptureFixture) -> None:
    case = make()
    (case.folder / "1").rmdir()
    assert case.ended(case.request()).state is State.SUCCEEDED
    case.threads.stop()
    assert "could not be written" in caplog.text
    assert case.failures == []


def test_a_region_that_can_not_be_looked_at_delays_no_other(
    make: Make, begun: list[Case], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    case = Case(tmp_path, regions=2)
    begun.append(case)
    case.regions[1].table = replace(case.regions[1].table, properties=(("compaction.automatic", "maybe"),))
    case.threads.begin()
    assert case.ended(1).store.region_id == 2
    assert "region 1 of table 't' can't be looked at" in caplog.text


def test_a_server_without_compaction_threads_refuses_requests(make: Make) -> None:
    case = make(replace(CONFIG, compaction_threads=0), is_automatic=True)
    with pytest.raises(InvalidRequestError, match="compaction_threads is 0"):
        case.request()


def test_more_files_than_one_compaction_takes_are_compacted_in_steps(make: Make) -> None:
    case = make()
    case.regions[1].table = replace(
        case.regions[1].table,
        properties=(("compaction.automatic", "false"), ("compaction.files_max", "4")),
    )
    case.regions[1].files = list(range(10, 0, -1))
    ended = case.ended(case.request(kind=Kind.MAJOR))
    assert ended.state is State.SUCCEEDED
    assert len(case.begun) > 1
    assert ended.work.files_in == sum(len(plan.inputs) for plan in case.begun)
    assert ended.work.files_out == len(case.begun)
