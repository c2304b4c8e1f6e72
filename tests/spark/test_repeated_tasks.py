"""Tasks that are repeated, or run twice at a time, on a table that others change meanwhile; without Spark.

`make spark-crash` does the same with Spark's own failures and speculation.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
import rowlock
from rowlock.pytest_plugin import RowlockServer
from rowlock.spark.write_options import write_options
from rowlock.spark.write_plan import WritePlan, write_plan
from rowlock.spark.write_task import write_task

from tests.crash.account import Account
from tests.spark.campaigns.jobs import judge
from tests.spark.campaigns.rows import MAPPING, PARTS, Model
from tests.spark.campaigns.upstream import PlannedFailureError, Trouble, Upstream

_COLUMNS: dict[str, pa.DataType] = {"id": pa.string(), "number": pa.int32(), "text": pa.string()}


@pytest.fixture
def seed() -> int:
    found = random.randrange(1_000_000)
    print(f"seed {found}")
    return found


@pytest.fixture
def upstream_of(
    rowlock_server: RowlockServer, rowlock_client: rowlock.Client, tmp_path: Path, seed: int
) -> Callable[[Trouble, int], Upstream]:
    rowlock_client.create_table("t", ["f"])
    return lambda trouble, job: Upstream(trouble, tmp_path, rowlock_server.address, job, seed, 600)


def _plan(upstream: Upstream) -> WritePlan:
    given = {"server": upstream.server, "table": "t", "mapping": MAPPING, "batch_bytes": "16384"}
    return write_plan(write_options(given), pa.schema(_COLUMNS))


def _run(upstream: Upstream, plan: WritePlan, of_attempt: Callable[[WritePlan], WritePlan] = lambda plan: plan) -> None:
    """Runs each part until an attempt succeeds."""
    for part in range(PARTS):
        for attempt in range(4):
            try:
                write_task(of_attempt(plan), upstream.steps(part, attempt), f"partition {part}")
            except PlannedFailureError:
                continue
            break


def test_tasks_that_fail_half_way_leave_the_table_as_if_each_had_run_once(
    upstream_of: Callable[[Trouble, int], Upstream], rowlock_client: rowlock.Client
) -> None:
    model, account = Model(), Account("", "")
    for job in (1, 2):
        upstream = upstream_of("fail", job)
        _run(upstream, _plan(upstream))
        account.counts["failed"] += len(upstream.noted("failed"))
        judge(rowlock_client, model, upstream, account)
    assert account.counts["failed"]
    assert not account.problems, account.problems


def test_a_separate_timestamp_for_each_attempt_is_detected(
    upstream_of: Callable[[Trouble, int], Upstream], rowlock_client: rowlock.Client
) -> None:
    """It overwrites changes of other clients between its attempts."""

    def stamped(plan: WritePlan) -> WritePlan:
        return replace(plan, timestamp=rowlock_client.server_info(plan.options.table).now_ms)

    model, account = Model(), Account("", "")
    for job in (1, 2):
        upstream = upstream_of("fail", job)
        _run(upstream, _plan(upstream), stamped)
        judge(rowlock_client, model, upstream, account)
    assert any(", expected {" in problem for problem in account.problems)


def test_two_attempts_of_a_task_at_a_time_leave_the_table_as_if_one_had_run(
    upstream_of: Callable[[Trouble, int], Upstream], rowlock_client: rowlock.Client
) -> None:
    """The first continues after the second has written, and after other clients have changed its rows."""
    upstream = upstream_of("linger", 1)
    plan = _plan(upstream)
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(write_task, plan, upstream.steps(1, 0), "partition 1")
        for part in range(PARTS):
            write_task(plan, upstream.steps(part, 1), f"partition {part}")
        first.result()
    model, account = Model(), Account("", "")
    judge(rowlock_client, model, upstream, account)
    assert account.counts["corrections meanwhile"]
    assert not account.problems, account.problems


def test_a_job_that_is_run_again_after_it_died_leaves_the_table_as_if_it_had_run_once(
    upstream_of: Callable[[Trouble, int], Upstream], rowlock_client: rowlock.Client
) -> None:
    upstream = upstream_of("none", 1)
    steps = upstream.steps(0, 0)
    write_task(_plan(upstream), [next(steps), next(steps)], "partition 0")
    assert len(list(rowlock_client.table("t").scan())) > 0
    _run(upstream, _plan(upstream))
    account = Account("", "")
    judge(rowlock_client, Model(), upstream, account)
    assert not account.problems, account.problems
