"""Linearizability: short histories of concurrent operations on few rows, each verified by the checker.

Six clients, each with its own connections, do a dozen random operations each on two rows; meanwhile the table may be
flushed, or the server killed and restarted on the same folder and port. Each attempt goes by gRPC or over a direct
connection at random, through proxies that lose answers (both_ways.py). In half of the histories calls have time to
wait for the server, so that nearly every outcome is known; in the others they time out after a moment, which leaves
unknown outcomes. Every error but "unknown outcome" promises that nothing was changed, and the checker verifies that.

At the end of a history each row is read once more, because what had an effect by then must not be lost.
"""

from __future__ import annotations

import contextlib
import random
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import rowlock
from rowlock.pytest_plugin import RowlockServer

from tests.consistency.both_ways import client_both_ways, lossy_server
from tests.consistency.checker import UNKNOWN_END, Operation, problem_of
from tests.consistency.installed_procedure import exchange_installed
from tests.consistency.live_server import kill_and_restart
from tests.consistency.row_actions import FAMILIES, perform
from tests.consistency.row_model import (
    Action,
    Append,
    CheckAndDelete,
    CheckAndPut,
    Create,
    DeleteRow,
    DeleteValue,
    Exchange,
    Increment,
    Put,
    Read,
    Replace,
    Update,
)
from tests.consistency.ways import count_ways, judge_both, judge_scans
from tests.crash.account import Account, Settings

PROMISE = "operations of concurrent clients on a row have an order that explains every answer, also with SIGKILLs"

CLIENTS, OPERATIONS, ROWS = 6, 12, 2
PATIENT_SECONDS, HASTY_SECONDS = 60.0, 0.25
# One of so many histories has a SIGKILL, and one a flush.
KILL_EVERY, FLUSH_EVERY = 8, 3
# Of each way, in the long form, which has some 200.
SCANS_MIN = 100
# The mean number of answers that a connection brings before it is cut.
ANSWERS_BEFORE_CUT = 100
# Of each way, in the long form, which loses more than a hundred.
LOST_ANSWERS_MIN = 30


@dataclass(slots=True)
class History:
    """A history that is being recorded. Its clients share it, and append to the lists, which is atomic in Python."""

    number: int
    seed: int
    timeout: float
    operations: list[Operation] = field(default_factory=list)
    unchanged: list[rowlock.RowlockError] = field(default_factory=list)
    started: threading.Barrier = field(default_factory=lambda: threading.Barrier(CLIENTS + 1))

    def row(self, number: int) -> bytes:
        return b"%d-%d" % (self.number, number)


def run(settings: Settings) -> Account:
    """The long form: 400 histories, an eighth of them with a SIGKILL."""
    account = Account("linearizability", PROMISE)
    count = 16 if settings.is_short else 400
    with (
        exchange_installed() as options,
        lossy_server(
            ANSWERS_BEFORE_CUT,
            settings.seed,
            {"memstore_flush_bytes": 64 * 1024, "log_segment_bytes": 256 * 1024},
            options,
        ) as lossy,
        # Its answers are not lost: creating a table can't be repeated.
        rowlock.connect(lossy.server.address, timeout=60) as operator,
        contextlib.ExitStack() as connections,
        ThreadPoolExecutor(CLIENTS) as pool,
    ):
        clients = [
            connections.enter_context(client_both_ways(lossy.address, 60, f"{settings.seed} {number}"))
            for number in range(CLIENTS)
        ]
        operator.create_table("rows", FAMILIES, durability="os")
        for number in range(count):
            history = History(
                number,
                settings.seed * count + number,
                PATIENT_SECONDS if number // KILL_EVERY % 2 else HASTY_SECONDS,
            )
            _live(account, lossy.server, clients, pool, history)
            problem = problem_of(history.operations)
            if problem is not None:
                account.problems.append(f"history {number} of --seed {settings.seed}, {problem}")
            account.counts["histories"] += 1
        account.counts["answers lost by gRPC"] += lossy.grpc.lost_answers
        account.counts["answers lost on direct connections"] += lossy.direct.lost_answers
        count_ways(account, [client.statistics() for client in clients])
    judge_both(account, count * CLIENTS * OPERATIONS // 10)
    if not settings.is_short:
        judge_scans(account, SCANS_MIN)
    for what in ("answers lost by gRPC", "answers lost on direct connections"):
        if not settings.is_short and account.counts[what] < LOST_ANSWERS_MIN:
            account.problems.append(f"fewer than {LOST_ANSWERS_MIN} {what}: the campaign has tested little")
    return account


def _live(
    account: Account,
    server: RowlockServer,
    clients: Sequence[rowlock.Client],
    pool: ThreadPoolExecutor,
    history: History,
) -> None:
    """Records one history, and counts its operations."""
    working = [pool.submit(_work, history, number, client) for number, client in enumerate(clients)]
    history.started.wait()
    draw = random.Random(history.seed)
    if history.number % KILL_EVERY == KILL_EVERY // 2:
        time.sleep(draw.uniform(0.0, 0.15))
        kill_and_restart(server)
        account.counts["SIGKILLs and restarts"] += 1
    elif history.number % FLUSH_EVERY == 0:
        account.counts["flushes"] += clients[0].flush("rows").store_file_count > 0
    for work in working:
        error = work.exception()
        if error is not None:
            account.problems.append(f"history {history.number}: a client failed: {error!r}")
    table = clients[0].table("rows", timeout=PATIENT_SECONDS)
    for number in range(ROWS):
        perform_and_note(history, CLIENTS, table, history.row(number), Read())
    account.counts["operations of known outcome"] += sum(operation.is_known for operation in history.operations)
    account.counts["operations of unknown outcome"] += sum(not operation.is_known for operation in history.operations)
    account.counts["refused or given up, nothing changed"] += len(history.unchanged)


def _work(history: History, number: int, client: rowlock.Client) -> None:
    """Runs one client's part of a history."""
    draw = random.Random(history.seed * CLIENTS + number)
    durability: rowlock.Durability = draw.choice(("os", "fsync"))
    table = client.table("rows", durability=durability, timeout=history.timeout)
    history.started.wait()
    for count in range(OPERATIONS):
        value = b"%d.%d" % (number, count)
        perform_and_note(history, number, table, history.row(draw.randrange(ROWS)), draw_action(draw, history, value))


def draw_action(draw: random.Random, history: History, value: bytes) -> Action:
    """Returns a random action, whose expected values were put recently, so that some checks hold."""
    kind = draw.randrange(16)
    match kind:
        case 0:
            return Put(value)
        case 1:
            return Create(value)
        case 2:
            return Update(value)
        case 3 | 4 | 5:
            return CheckAndPut(_some_value(draw, history), value)
        case 6:
            return CheckAndDelete(_some_value(draw, history))
        case 7:
            return DeleteRow() if draw.random() < 0.5 else DeleteValue()
        case 8 | 9:
            return Increment(draw.randrange(1, 1000))
        case 10:
            return Append(value)
        case 11 | 12:
            return Exchange(value, draw.randrange(1, 1000))
        case 13:
            return Replace(value, draw.randrange(1, 1000))
        case _:
            return Read(draw.choice(("get", "get", "rows", "scan")))


def _some_value(draw: random.Random, history: History) -> bytes | None:
    put = [
        operation.action.value
        for operation in history.operations[-8:]
        if isinstance(operation.action, Put | Create | Update | CheckAndPut | Exchange | Replace)
    ]
    return draw.choice([None, *put])


def perform_and_note(history: History, client: int, table: rowlock.Table[bytes], row: bytes, action: Action) -> None:
    """Does an action and records its outcome. An action that surely changed nothing is not part of the history."""
    began = time.monotonic()
    try:
        answer = perform(table, row, action)
    except rowlock.UnknownOutcomeError:
        history.operations.append(Operation(client, row, action, began, UNKNOWN_END))
    except rowlock.RowlockError as error:
        if not error.can_retry:
            raise
        history.unchanged.append(error)
    else:
        history.operations.append(Operation(client, row, action, began, time.monotonic(), answer))
