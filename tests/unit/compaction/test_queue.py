"""Which compaction starts next, when automatic ones stop, and what is shown: no threads, a clock of the test's own."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest
from rowlock_regionserver.compaction.attempts import AttemptRules, Failure
from rowlock_regionserver.compaction.history import HistoryLimits
from rowlock_regionserver.compaction.job import CompactionJob, Entry, RequestedStore, State, StoreId
from rowlock_regionserver.compaction.picker import Kind, Plan
from rowlock_regionserver.compaction.progress import CompactionCancelledError, CompactionResult
from rowlock_regionserver.compaction.queue import CompactionQueue
from rowlock_regionserver.compaction.settings import CompactionSettings

from tests.seeds import generator_of

F, G, OTHER = StoreId(1, 1), StoreId(1, 2), StoreId(2, 1)
MINOR = Plan(Kind.MINOR, (4, 3), "2 deltas")
PAUSE_S = 60.0


class Case:
    """A queue, with a time that moves by itself on the wall clock, and by `wait` on the monotonic one."""

    def __init__(self, failures_max: int = 2) -> None:
        self.queue = CompactionQueue(AttemptRules(HistoryLimits(3, 3, 2), failures_max, PAUSE_S))
        self.now_ms = 1000
        self.monotonic = 5.0

    def tick(self) -> int:
        self.now_ms += 1
        return self.now_ms

    def wait(self, seconds: float = PAUSE_S) -> None:
        self.monotonic += seconds

    def offer(self, store: StoreId = F, plan: Plan = MINOR) -> CompactionJob | None:
        if not self.queue.may_attempt(store, self.monotonic):
            return None
        return self.queue.offer(store, f"t{store.region_id}", b"f", plan, self.tick())

    def request(
        self, store: StoreId = F, kind: Kind = Kind.MINOR, settings: CompactionSettings | None = None
    ) -> CompactionJob:
        return self.queue.request(RequestedStore(store, f"t{store.region_id}", b"f", kind, settings), self.tick())

    def start(self) -> Entry:
        entry = self.queue.start_next("compaction-1", self.tick())
        assert entry is not None
        return entry

    def fail(self, error: str = "a bug", failure: Failure = Failure.STORE) -> None:
        self.queue.failed(self.start(), failure, error, self.tick(), self.monotonic)

    def succeed(self) -> None:
        self.queue.succeeded(self.start(), self.tick(), self.monotonic)

    def states(self, table: str | None = None) -> list[State]:
        return [job.state for job in self.queue.jobs(table)]


@pytest.fixture
def case() -> Case:
    return Case()


def test_a_store_has_one_queued_and_one_working_job_at_most(case: Case) -> None:
    assert case.offer() is not None
    assert case.offer() is None
    case.start()
    assert case.offer() is None, "an automatic job waits for the end of the one at work"
    queued = case.request()
    assert case.request().job_id == queued.job_id
    assert case.queue.start_next("compaction-2", 0) is None, "no store is compacted twice at once"
    assert case.states() == [State.WORKING, State.QUEUED]


def test_stores_of_one_region_may_be_at_work_at_once(case: Case) -> None:
    case.offer(F)
    case.offer(G)
    assert [case.start().job.store, case.start().job.store] == [F, G]


def test_a_request_joins_the_queued_job_and_makes_it_major_and_one_by_hand(case: Case) -> None:
    automatic = case.offer()
    assert automatic is not None
    settings = CompactionSettings(files_max=7)
    joined = case.request(kind=Kind.MAJOR, settings=settings)
    assert (joined.job_id, joined.kind, joined.is_by_hand) == (automatic.job_id, Kind.MAJOR, True)
    assert joined.why == "requested by hand; 2 deltas"
    assert case.request(kind=Kind.MINOR).kind is Kind.MAJOR
    assert case.start().settings is settings


def test_requests_by_hand_start_first_then_the_older_job(case: Case) -> None:
    case.offer(F)
    case.offer(G)
    case.request(OTHER)
    assert [case.start().job.store for _ in range(3)] == [OTHER, F, G]


def test_after_a_failure_the_next_automatic_job_waits_for_the_pause(case: Case) -> None:
    case.offer()
    case.fail()
    assert case.offer() is None
    assert case.offer(G) is not None, "other stores don't wait"
    case.wait(PAUSE_S - 1)
    assert case.offer() is None
    case.wait(1)
    assert case.offer() is not None


def test_automatic_jobs_stop_after_two_failures_until_a_request_by_hand_succeeds(case: Case) -> None:
    for _ in range(2):
        case.wait()
        assert case.offer() is not None
        case.fail("no luck")
    case.wait()
    attempted = case.offer()
    assert attempted is not None
    assert attempted.state is State.ATTEMPTED
    assert "automatic compaction of this store has stopped: it failed 2 times in a row" in attempted.error
    assert "no luck" in attempted.error
    assert case.offer() is None, "it is recorded once"
    case.request()
    case.fail()
    case.wait()
    assert case.offer() is None
    case.request()
    case.succeed()
    assert case.offer() is not None


def test_a_success_starts_the_count_of_failures_again(case: Case) -> None:
    for end in (case.fail, case.succeed, case.fail, case.succeed, case.fail):
        case.wait()
        case.offer()
        end()
    case.wait()
    job = case.offer()
    assert job is not None
    assert job.state is State.QUEUED


@pytest.mark.parametrize(
    ("result", "is_paused"),
    [
        (CompactionResult(2, 1, 100, 100, 9, 9), False),
        (CompactionResult(1, 1, 100, 90, 9, 8), False),
        (CompactionResult(1, 1, 0, 0, 0, 0), False),  # a file was moved
        (CompactionResult(1, 1, 100, 100, 9, 9), True),
    ],
)
def test_after_an_automatic_job_that_gained_nothing_the_next_one_waits_for_the_pause(
    case: Case, result: CompactionResult, is_paused: bool
) -> None:
    def compact() -> None:
        entry = case.start()
        entry.begin_plan(MINOR)
        entry.end_plan(result)
        case.queue.succeeded(entry, case.tick(), case.monotonic)

    case.request()
    compact()
    assert case.offer() is not None, "a request by hand is no reason to wait"
    compact()
    assert (case.offer() is None) == is_paused
    case.wait()
    assert is_paused == (case.offer() is not None)


def test_damage_stops_automatic_jobs_at_once(case: Case) -> None:
    case.offer()
    case.fail("7.store is damaged at byte 5.", Failure.DAMAGE)
    case.wait()
    attempted = case.offer()
    assert attempted is not None
    assert "a file is damaged: 7.store is damaged at byte 5; it continues after" in attempted.error


def test_failures_for_other_reasons_do_not_count(case: Case) -> None:
    for _ in range(5):
        case.wait()
        case.offer()
        case.fail("cancelled by hand", Failure.OUTSIDE)
        case.wait()
        case.offer()
        case.queue.refused(case.start(), "the disk is full", case.tick(), case.monotonic)
    case.wait()
    job = case.offer()
    assert job is not None
    assert job.state is State.QUEUED


def test_a_queued_job_that_is_cancelled_never_starts(case: Case) -> None:
    job = case.request()
    cancelled = case.queue.cancel(job.job_id, "cancelled by hand", case.tick(), case.monotonic)
    assert cancelled is not None
    assert (cancelled.state, cancelled.error) == (State.ATTEMPTED, "cancelled by hand")
    assert case.queue.start_next("compaction-1", 0) is None
    assert case.offer() is None, "it would be queued again at once"
    assert case.queue.cancel(job.job_id, "cancelled by hand", case.tick(), case.monotonic) is None


def test_a_working_job_that_is_cancelled_stops_at_its_next_check_also_in_a_later_plan(case: Case) -> None:
    job = case.request()
    entry = case.start()
    case.queue.cancel(job.job_id, "cancelled by hand", case.tick(), case.monotonic)
    with pytest.raises(CompactionCancelledError, match="cancelled by hand"):
        entry.progress.check()
    entry.end_plan(CompactionResult(2, 1, 0, 0, 0, 0))
    with pytest.raises(CompactionCancelledError, match="cancelled by hand"):
        entry.progress.check()


def test_a_job_shows_its_progress_and_adds_up_its_plans(case: Case) -> None:
    case.request(kind=Kind.MAJOR)
    entry = case.start()
    progress = entry.begin_plan(Plan(Kind.MAJOR, (3, 2, 1), "the oldest 3 of 5 files", is_continued=True))
    progress.bytes_total, progress.bytes_read = 100, 40
    [job] = case.queue.jobs()
    assert (job.why, job.worker) == ("requested by hand", "compaction-1")
    assert (job.work.bytes_total, job.work.bytes_read) == (100, 40)
    progress.bytes_read, progress.bytes_written = 100, 70
    entry.end_plan(CompactionResult(3, 1, 100, 70, 9, 5))
    progress = entry.begin_plan(Plan(Kind.MAJOR, (5, 4, 6), "3 files"))
    progress.bytes_total, progress.bytes_read, progress.bytes_written = 90, 90, 60
    entry.end_plan(CompactionResult(3, 1, 90, 60, 7, 6))
    case.queue.succeeded(entry, case.tick(), case.monotonic)
    [job] = case.queue.jobs()
    work = job.work
    assert (work.bytes_total, work.bytes_read, work.bytes_written) == (190, 190, 130)
    assert (work.files_in, work.files_out, work.cells_in, work.cells_out) == (6, 2, 16, 11)


def test_a_request_that_finds_nothing_to_do_says_so(case: Case) -> None:
    case.request()
    entry = case.start()
    entry.begin_plan(None)
    case.queue.succeeded(entry, case.tick(), case.monotonic)
    assert case.queue.jobs()[0].why == "requested by hand; there was nothing to compact"


def test_the_history_keeps_the_last_few_of_each_state(case: Case) -> None:
    for _ in range(5):
        case.request()
        case.succeed()
        case.request()
        case.fail(failure=Failure.OUTSIDE)
        job = case.request()
        case.queue.cancel(job.job_id, "cancelled by hand", case.tick(), case.monotonic)
    assert sorted(state.name for state in case.states()) == ["ATTEMPTED"] * 2 + ["FAILED"] * 3 + ["SUCCEEDED"] * 3
    assert min(job.job_id for job in case.queue.jobs()) == 7, "the oldest are gone"
    assert [job.job_id for job in case.queue.jobs_of_ids([1, 2])] == [1, 2], "a client may still wait for them"


def test_jobs_of_a_store_that_is_gone_are_cancelled_and_only_found_by_their_ids(case: Case) -> None:
    case.request(F)
    case.succeed()
    working_id, queued_id = case.request(F).job_id, case.request(G).job_id
    entry = case.start()
    kept_id = case.request(OTHER).job_id
    case.queue.forget(1, [], "its table was dropped", case.tick())
    assert entry.progress.is_cancelled
    case.queue.failed(entry, Failure.OUTSIDE, entry.cancelled, case.tick(), case.monotonic)
    assert [job.job_id for job in case.queue.jobs()] == [kept_id]
    gone = case.queue.jobs_of_ids([queued_id, working_id, 99])
    assert [(job.job_id, job.state, job.error) for job in gone] == [
        (working_id, State.FAILED, "its table was dropped"),
        (queued_id, State.ATTEMPTED, "its table was dropped"),
    ]
    assert case.queue.histories_of(1) == {}


def test_only_the_jobs_of_a_dropped_family_are_cancelled(case: Case) -> None:
    case.request(F)
    kept = case.request(G)
    case.queue.forget(1, [G.family_number], "its column family was dropped", case.tick())
    assert [job.job_id for job in case.queue.jobs()] == [kept.job_id]


def test_a_stopping_server_forgets_automatic_jobs_and_records_those_by_hand(case: Case) -> None:
    case.offer(F)
    by_hand = case.request(OTHER)
    case.request(G)
    entry = case.start()
    assert entry.job.store == OTHER
    recorded = case.queue.cancel_all("the server was stopped", case.tick())
    assert [(job.store, job.state) for job in recorded] == [(G, State.ATTEMPTED)]
    assert entry.progress.is_cancelled
    assert {job.job_id for job in case.queue.jobs()} == {by_hand.job_id, recorded[0].job_id}


def test_failures_and_ids_continue_after_a_restart(case: Case) -> None:
    for _ in range(2):
        case.wait()
        case.offer()
        case.fail()
    after = Case()
    after.queue.restore(1, case.queue.histories_of(1))
    after.queue.next_job_id = case.queue.next_job_id
    assert after.queue.jobs() == case.queue.jobs()
    attempted = after.offer()
    assert attempted is not None
    assert (attempted.state, attempted.job_id) == (State.ATTEMPTED, 3)


def test_invariants_hold_after_random_operations() -> None:
    chance = generator_of("compaction queue")
    for _ in range(30):
        _random_life(chance, Case(failures_max=chance.randrange(1, 4)))


def _random_life(chance: random.Random, case: Case) -> None:
    stores: Sequence[StoreId] = (F, G, OTHER)
    working: list[Entry] = []
    for _ in range(200):
        store = chance.choice(stores)
        match chance.randrange(9):
            case 0 | 1:
                case.offer(store)
            case 2:
                case.request(store, chance.choice(list(Kind)))
            case 3 | 4:
                entry = case.queue.start_next("compaction-1", case.tick())
                working += [] if entry is None else [entry]
            case 5 if working:
                entry = working.pop(chance.randrange(len(working)))
                case.queue.succeeded(entry, case.tick(), case.monotonic)
            case 6 if working:
                entry = working.pop(chance.randrange(len(working)))
                case.queue.failed(entry, chance.choice(list(Failure)), "a bug", case.tick(), case.monotonic)
            case 7:
                job_id = chance.randrange(1, case.queue.next_job_id + 1)
                case.queue.cancel(job_id, "cancelled by hand", case.tick(), case.monotonic)
            case 8:
                case.wait(chance.random() * PAUSE_S)
                if chance.random() < 0.1:
                    case.queue.forget(1, [1], "its column family was dropped", case.tick())
        case.queue._check()
        assert {entry.job.store for entry in working} == {
            job.store for job in case.queue.jobs() if job.state is State.WORKING
        }
