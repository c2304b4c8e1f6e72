"""The file of a region's compaction history."""

from __future__ import annotations

import json

from rowlock_regionserver.compaction.history import HistoryLimits, StoreHistory, decode, encode
from rowlock_regionserver.compaction.job import CompactionJob, State, StoreId, Work
from rowlock_regionserver.compaction.picker import Kind

JOB = CompactionJob(
    job_id=17,
    store=StoreId(3, 2),
    table="t",
    family=b"\xff",
    kind=Kind.MAJOR,
    why="10 deltas",
    is_by_hand=True,
    queued_ms=1,
    state=State.FAILED,
    worker="compaction-1",
    started_ms=2,
    ended_ms=3,
    work=Work(1, 2, 3, 4, 5, 6, 7),
    error="7.store is damaged",
)


def test_histories_are_read_as_they_were_written() -> None:
    history = StoreHistory().with_failure("7.store is damaged").with_ended(JOB, HistoryLimits())
    assert decode(encode({2: history, 5: StoreHistory()}, 18)) == ({2: history, 5: StoreHistory()}, 18)


def test_fields_of_a_later_version_are_ignored() -> None:
    fields = json.loads(encode({2: StoreHistory((JOB,))}, 18))
    fields["later"] = fields["stores"]["2"]["later"] = 1
    [job] = fields["stores"]["2"]["jobs"]
    job["later"] = job["work"]["later"] = 1
    del job["work"]["cells_out"]
    histories, _ = decode(json.dumps(fields).encode())
    assert histories[2].jobs[0].work == Work(1, 2, 3, 4, 5, 6, 0)


def test_no_job_is_kept_if_the_limit_is_0() -> None:
    assert StoreHistory().with_ended(JOB, HistoryLimits(failed_max=0)).jobs == ()
