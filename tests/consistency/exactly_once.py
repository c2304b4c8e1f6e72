"""Exactly once: increments whose answers are lost are retried, and count once.

Processes increment one row through a proxy that loses answers after the change was made (lossy_proxy.py), while the
server is killed and restarted. Each increment must finally be answered with a different number. All numbers are 1, 2,
3, ... without a gap, and the counter equals their count. The server's answers say which request ids it met again.
"""

from __future__ import annotations

import itertools
import multiprocessing
import random
import time
from collections.abc import Sequence
from concurrent.futures import Future, ProcessPoolExecutor, wait
from dataclasses import dataclass

import rowlock
from rowlock._core import point
from rowlock._transport.servers import Servers
from rowlock_proto.v1 import types_pb2

from tests.consistency.live_server import free_address, kill_and_restart, live_server
from tests.consistency.lossy_proxy import LossyProxy
from tests.crash.account import Account, Settings

PROMISE = "with lost answers and SIGKILLs each increment counts once, and each is answered with its own number"

TABLE, ROW, COLUMN = "counters", b"hot", b"f:n"
TIMEOUT_SECONDS = 120.0


@dataclass(frozen=True, slots=True)
class _Counted:
    """The answers that one process got."""

    numbers: list[int]
    repeated: int  # answers that the server had kept from an earlier request with the same id


def run(settings: Settings) -> Account:
    """The long form: 8 processes of 2,000 increments each."""
    processes, increments = (4, 200) if settings.is_short else (8, 2000)
    account = Account("exactly_once", PROMISE)
    random_kills = random.Random(settings.seed)
    address = free_address()
    with (
        LossyProxy(address, 10 if settings.is_short else 60, settings.seed) as proxy,
        # The server advertises the proxy's address; otherwise clients would bypass it.
        live_server(address=address, advertise=proxy.address) as server,
        rowlock.connect(server.address, timeout=TIMEOUT_SECONDS) as db,
        ProcessPoolExecutor(processes, multiprocessing.get_context("spawn")) as pool,
    ):
        db.create_table(TABLE, ["f"])
        working = [pool.submit(_increment, proxy.address, increments) for _ in range(processes)]
        # Processes take long to start, and a kill before the first increment would test nothing.
        _wait_for_more(db.table(TABLE), working)
        kills = 0
        while wait(working, random_kills.uniform(0.3, 1.5)).not_done:
            kill_and_restart(server)
            kills += 1
            _wait_for_more(db.table(TABLE), working)
        total = db.table(TABLE).counter(ROW, COLUMN)
        lost = proxy.lost_answers
    _judge(account, [_result(account, work) for work in working], processes * increments, total)
    account.counts.update({"SIGKILLs of the server": kills, "answers lost by the proxy": lost})
    repeats_min = 10 if settings.is_short else 100
    if account.counts["repeated request ids met"] < repeats_min:
        account.problems.append(f"fewer than {repeats_min} repeated request ids: the campaign has tested little")
    return account


def _wait_for_more(table: rowlock.Table[bytes], working: Sequence[Future[_Counted]]) -> None:
    """Waits until the counter moves or a process is done, so that there is progress between kills on slow machines."""
    before = table.counter(ROW, COLUMN)
    while table.counter(ROW, COLUMN) == before and not any(work.done() for work in working):
        time.sleep(0.05)


def _increment(address: str, count: int) -> _Counted:
    """Makes `count` increments, one after the other, in a process of its own."""
    # Below Table.increment, because only the raw answer says whether it is a saved one.
    servers = Servers((address,))
    numbers: list[int] = []
    repeated = 0
    for _ in range(count):
        request = point.increment(TABLE, ROW, COLUMN, 1, types_pb2.DURABILITY_UNSPECIFIED)
        answer = servers.point(request, TIMEOUT_SECONDS)
        numbers.append(point.new_number(answer))
        repeated += answer.mutate.results[0].repeated_request
    servers.close()
    return _Counted(numbers, repeated)


def _result(account: Account, work: Future[_Counted]) -> _Counted:
    error = work.exception()
    if error is None:
        return work.result()
    account.problems.append(f"a process gave up: {error!r}")
    return _Counted([], 0)


def _judge(account: Account, counted: Sequence[_Counted], expected: int, total: int) -> None:
    numbers = sorted(number for process in counted for number in process.numbers)
    account.counts["increments answered"] = len(numbers)
    account.counts["the counter at the end"] = total
    account.counts["repeated request ids met"] = sum(process.repeated for process in counted)
    if total != expected:
        account.problems.append(f"the counter is {total} after {expected} increments")
    if numbers != list(range(1, expected + 1)):
        twice = sorted({number for number, after in itertools.pairwise(numbers) if number == after})
        missing = sorted(set(range(1, expected + 1)) - set(numbers))
        account.problems.append(f"answered twice: {twice[:10]}, never: {missing[:10]}")
