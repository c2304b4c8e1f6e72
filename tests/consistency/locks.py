"""64 sessions take locks and make table operations of all kinds at random on a real server; some holders die.

Each holder writes down what it holds, and judges:

1. Nobody holds a lock beside an exclusive holder, and what a dead session held is granted only when that has ended.
2. While a session holds the exclusive lock of a table, its regions, properties and rows stay as they are; while it
   holds that of a region, the region stays; while it holds the shared lock of a table, its properties stay.
3. A request is granted before those that came after it. In particular no shared request passes a waiting exclusive
   one: of an exclusive request that waits, those before it are listed, and until it is granted nobody else is.
4. Every request ends: granted, refused after its time, or withdrawn. At the end no lock is left.
5. Under constant shared load an exclusive request, whose single tries are shorter than the holds, waits no longer than
   the longest hold, and a time that a loaded machine does not need.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Literal

import rowlock

from tests.consistency.live_server import live_server
from tests.consistency.ways import count_ways, judge_direct
from tests.consistency.worker_threads import WorkerThreads
from tests.crash.account import Account, Settings
from tests.waiting import WAIT_S, wait_until

PROMISE = "64 sessions lock tables and change them at random: no exclusive holder meets another, none waits for ever"

SESSIONS, CLIENTS = 64, 8
TABLES = ("a", "b")
_ROWS = [b"%02d" % number for number in range(40)]
_PROPERTY = "split.region_bytes"
_HELD_S_MAX = 0.05
_DYING_SHARE, _DYING_IDLE_S = 0.03, 1.0
# Of the shared load: its table, and how many hold it, for times drawn between these: never all end together.
_LOADED, _LOADING, _LOADED_S = "c", CLIENTS - 1, (0.2, 0.6)
# The exclusive requests beside it give up after 26 s.
_TRY_S, _RETRIES, _WAITED_S_MAX = 0.02, 8, 20.0
_EXCLUSIVE_UNDER_LOAD, _SHARED_OF_LOAD = "exclusive locks under shared load", "shared locks of the load"
_BESIDE = (
    "table locks, shared",
    "table locks, exclusive",
    "region locks, shared",
    "region locks, exclusive",
    "locks of two tables",
    "exclusive requests that waited",
    "sessions that died with a lock",
    "alter",
    "truncate",
    "create and drop",
    "split",
    "merge",
    "bulk write",
    "bulk write that replaces a range",
    "bulk write that replaces the table",
    "snapshot",
    "named snapshot and restore",
)
Mode = Literal["shared", "exclusive"]
# A table, or one of its regions.
Place = tuple[str, int | None]


def run(settings: Settings) -> Account:
    """The long form runs for 60 s."""
    account = Account("locks", PROMISE)
    clients: list[rowlock.Client] = []
    with live_server() as server:
        try:
            for _ in range(CLIENTS):
                clients.append(rowlock.connect(server.address, timeout=WAIT_S, lock_wait_s=WAIT_S, lock_retries=0))
            for table in (*TABLES, _LOADED):
                clients[0].create_table(table, ["f"], durability="os", splits=[b"20"])
            with WorkerThreads(account) as workers:
                holders = _Holders(clients[0])
                for number in range(SESSIONS):
                    draw = random.Random(f"{settings.seed} {number}")
                    session = _Session(clients[number % CLIENTS], number, holders, workers, draw)
                    workers.repeat(f"session {number}", session.turn)
                workers.wait(3.0 if settings.is_short else 60.0)
                workers.wait_until(lambda: all(workers.counted(what) for what in _BESIDE), WAIT_S)
            account.problems += [f"there were no {what}" for what in _BESIDE if not account.counts[what]]
            account.problems += holders.problems
            load = _Load()
            with WorkerThreads(account) as workers:
                for number in range(_LOADING):
                    draw = random.Random(f"{settings.seed} load {number}")
                    workers.repeat(f"shared {number}", partial(load.hold_shared, workers, clients[number], draw))
                workers.wait_until(lambda: workers.counted(_SHARED_OF_LOAD) >= _LOADING, WAIT_S)
                workers.repeat("exclusive", partial(load.take_exclusive, workers, clients[-1]))
                enough = 5 if settings.is_short else 50
                workers.wait_until(lambda: workers.counted(_EXCLUSIVE_UNDER_LOAD) >= enough, WAIT_S)
            if account.counts[_EXCLUSIVE_UNDER_LOAD] < enough:
                account.problems.append(f"of {enough} {_EXCLUSIVE_UNDER_LOAD} not all were granted")
            count_ways(account, [client.statistics() for client in clients])
            judge_direct(account)
            wait_until(lambda: not clients[0].locks())
            account.notes.append(
                f"longest time of a lock: {holders.longest_held_s:.2f} s; longest wait of an exclusive request: "
                f"{holders.longest_wait_s:.2f} s; under shared load {load.longest_wait_s:.2f} s"
            )
        finally:
            for client in clients:
                client.close()
    return account


@dataclass
class _Load:
    """Constant shared load of one table, and exclusive requests beside it, which it judges (5)."""

    longest_wait_s: float = 0.0  # of exclusive ones
    _longest_hold_s: float = 0.0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def hold_shared(self, workers: WorkerThreads, client: rowlock.Client, draw: random.Random) -> None:
        """Holds the lock once."""
        with client.lock(_LOADED, "shared"):
            began = time.monotonic()
            workers.count(_SHARED_OF_LOAD)
            workers.wait(draw.uniform(*_LOADED_S))
        with self._lock:
            self._longest_hold_s = max(self._longest_hold_s, time.monotonic() - began)

    def take_exclusive(self, workers: WorkerThreads, client: rowlock.Client) -> None:
        """Takes the exclusive lock once; one that is refused raises."""
        began = time.monotonic()
        with client.lock(_LOADED, "exclusive", wait_s=_TRY_S, retries=_RETRIES):
            waited_s = time.monotonic() - began
        with self._lock:
            self.longest_wait_s = max(self.longest_wait_s, waited_s)
            longest_s = self._longest_hold_s + _WAITED_S_MAX
        if waited_s > longest_s:
            workers.problem(f"an exclusive request waited for {waited_s:.1f} s, which is more than {longest_s:.1f} s")
        workers.count(_EXCLUSIVE_UNDER_LOAD)


@dataclass(eq=False)
class _Held:
    """What a session has, from after it was granted until before it is released."""

    session_id: str
    places: Sequence[tuple[Place, Mode]]
    number: int
    is_dying: bool = False


@dataclass
class _Holders:
    """All that hold explicit locks, by what they know themselves. Thread-safe."""

    client: rowlock.Client
    problems: list[str] = field(default_factory=list)
    longest_held_s: float = 0.0
    longest_wait_s: float = 0.0
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _held: list[_Held] = field(default_factory=list)
    # (number, session) of all that were granted, by table.
    _granted: dict[str, list[tuple[int, str]]] = field(default_factory=lambda: {table: [] for table in TABLES})

    def enter(self, held: _Held) -> None:
        """Notes a grant, and judges it (1)."""
        with self._lock:
            others = [each for each in self._held if _exclude_each_other(each, held)]
            self._held.append(held)
            for table in {table for (table, _), _ in held.places}:
                self._granted[table].append((held.number, held.session_id))
        open_ids = {info.session_id for info in self.client.sessions()} if others else set()
        for other in others:
            if not other.is_dying or other.session_id in open_ids:
                self.problems.append(f"{held} was granted beside {other}")
            else:
                self.leave(other)

    def leave(self, held: _Held) -> None:
        with self._lock:
            if held in self._held:
                self._held.remove(held)

    def judge_order(self, table: str, number: int, seen: int, before: set[str]) -> None:
        """Judges (3): holders of locks of the table with numbers between two others must be among those before."""
        with self._lock:
            passed = [each for each in self._granted[table] if seen < each[0] < number and each[1] not in before]
        self.problems += [f"{each} was granted before {number} and came after it" for each in passed]

    def note_times(self, *, held_s: float = 0.0, waited_s: float = 0.0) -> None:
        with self._lock:
            self.longest_held_s = max(self.longest_held_s, held_s)
            self.longest_wait_s = max(self.longest_wait_s, waited_s)

    def newest_number(self) -> int:
        with self._lock:
            return max([number for granted in self._granted.values() for number, _ in granted], default=0)


def _exclude_each_other(one: _Held, other: _Held) -> bool:
    modes = dict(other.places)
    return any(place in modes and "exclusive" in (mode, modes[place]) for place, mode in one.places)


class _Session:
    """One of the sessions at a time. Used by one thread."""

    def __init__(
        self, client: rowlock.Client, number: int, holders: _Holders, workers: WorkerThreads, draw: random.Random
    ) -> None:
        self._client = client
        self._number = number
        self._holders = holders
        self._workers = workers
        self._random = draw
        self._operations: Sequence[tuple[str, Callable[[str], object]]] = (
            ("alter", self._alter),
            ("truncate", lambda table: self._client.truncate_table(table)),
            ("create and drop", self._create_and_drop),
            ("split", lambda table: self._client.split(table, self._random.choice(_ROWS))),
            ("merge", lambda table: self._client.merge(table, self._random.choice(self._regions(table)).start)),
            ("bulk write", self._bulk_write),
            ("bulk write that replaces a range", self._replace_range),
            ("bulk write that replaces the table", lambda table: self._bulk_write(table, replace=True)),
            ("snapshot", lambda table: self._client.snapshot(table).end()),
            ("named snapshot and restore", self._snapshot),
        )

    def turn(self) -> None:
        """Makes an operation, or holds an explicit lock for a moment; the session of a lock may die with it."""
        try:
            if self._random.random() < 0.4:
                what, operation = self._random.choice(self._operations)
                operation(self._random.choice(TABLES))
                self._workers.count(what)
            else:
                self._lock()
        except (rowlock.InvalidArgumentError, rowlock.NotServingRegionError, rowlock.LockUnavailableError) as error:
            # A region was split or merged meanwhile, or has a border there; or the request was not to wait for long.
            self._workers.count(f"refused, {type(error).__name__}")

    # ---- explicit locks

    def _lock(self) -> None:
        mode: Mode = self._random.choice(["shared", "shared", "exclusive"])
        tables = [self._random.choice(TABLES)] if self._random.random() < 0.9 else list(TABLES)
        region = None
        if len(tables) == 1 and self._random.random() < 0.4:
            region = self._random.choice(self._regions(tables[0])).region_id
        is_dying = self._random.random() < _DYING_SHARE
        session = self._client.session(f"session {self._number}", idle_s=_DYING_IDLE_S if is_dying else 300)
        try:
            held = self._taken(session, tables, mode, region)
        except rowlock.RowlockError:
            session.end()
            raise
        held.is_dying = is_dying
        self._holders.enter(held)
        began = time.monotonic()
        if is_dying:
            self._workers.count("sessions that died with a lock")
            return  # Nothing refers to the session any more, so it sends no heartbeat.
        with self._unchanged(tables[0], region, mode):
            self._workers.wait(self._random.uniform(0, _HELD_S_MAX))
        self._holders.leave(held)
        self._holders.note_times(held_s=time.monotonic() - began)
        session.end()
        kind = "region locks" if region is not None else "table locks"
        self._workers.count("locks of two tables" if len(tables) > 1 else f"{kind}, {mode}")

    def _taken(self, session: rowlock.Session, tables: Sequence[str], mode: Mode, region: int | None) -> _Held:
        """Takes the lock, and if it is the exclusive one of a table, looks who is before it, and waits."""
        places: list[tuple[Place, Mode]] = [((table, None), mode if region is None else "shared") for table in tables]
        places += [((tables[0], region), mode)] if region is not None else []
        wait_s = self._random.choice([WAIT_S, WAIT_S, WAIT_S, 0])
        if mode == "shared" or len(tables) > 1 or region is not None or not wait_s:
            lock = self._client.lock(tables, mode, region=region, session=session, wait_s=wait_s, retries=0)
            return _Held(session.id, places, lock.number)
        return self._watched(session, tables[0], places)

    def _watched(self, session: rowlock.Session, table: str, places: Sequence[tuple[Place, Mode]]) -> _Held:
        """Takes an exclusive lock in a thread of its own, and notes who was before it."""
        taken: list[rowlock.Lock] = []
        failures: list[BaseException] = []

        def take() -> None:
            try:
                taken.append(self._client.lock(table, "exclusive", session=session, retries=0))
            except BaseException as failure:  # raised again below
                failures.append(failure)

        began = time.monotonic()
        thread = threading.Thread(target=take)
        thread.start()
        before: set[str] | None = None
        seen = 0
        while thread.is_alive() and before is None:
            mine = [each for each in self._client.locks(table) if each.holder == session.id]
            if mine and not mine[0].is_held:
                before = set(mine[0].waits_for)
                # After it was seen to wait: a greater number was granted later.
                seen = self._holders.newest_number()
            thread.join(0.005)
        thread.join()
        if failures:
            raise failures[0]
        if before is not None:
            self._holders.judge_order(table, taken[0].number, seen, before)
            self._holders.note_times(waited_s=time.monotonic() - began)
            self._workers.count("exclusive requests that waited")
        return _Held(session.id, places, taken[0].number)

    @contextmanager
    def _unchanged(self, table: str, region: int | None, mode: Mode) -> Iterator[None]:
        """Judges (2): what the lock keeps from being changed is the same before and after."""
        before = self._kept(table, region, mode)
        yield
        after = self._kept(table, region, mode)
        if before != after:
            self._workers.problem(f"{table}, {region}, {mode}: {before} became {after} under the lock")

    def _kept(self, table: str, region: int | None, mode: Mode) -> object:
        properties = self._client.describe(table).properties
        if mode == "shared":
            return properties
        regions = [(each.region_id, each.start, each.stop) for each in self._regions(table)]
        if region is not None:
            return properties, [each for each in regions if each[0] == region]
        return properties, regions, list(self._client.table(table).scan())

    # ---- table operations

    def _regions(self, table: str) -> Sequence[rowlock.RegionInfo]:
        return self._client.regions(table)

    def _alter(self, table: str) -> None:
        self._client.alter_table(table, properties={_PROPERTY: self._random.randrange(1 << 33, 1 << 34)})

    def _bulk_write(
        self, table: str, *, replace: bool = False, start: bytes | None = None, stop: bytes | None = None
    ) -> None:
        with self._client.bulk_write(table, replace=replace, start=start, stop=stop) as write:
            for row in self._random.sample(_ROWS, 5):
                if (start or b"") <= row < (stop or b"\xff"):
                    write.put(row, {b"f:n": b"%d" % self._random.randrange(1000)})

    def _replace_range(self, table: str) -> None:
        self._bulk_write(table, replace=True, start=b"10", stop=b"30")

    def _create_and_drop(self, table: str) -> None:
        name = f"{table}-{self._number}"
        self._client.create_table(name, ["f"])
        self._client.drop_table(name)

    def _snapshot(self, table: str) -> None:
        name = f"{table}-{self._number}-{self._random.getrandbits(32)}"
        self._client.create_snapshot(name, table)
        self._client.restore_snapshot(name, f"{name}-restored")
        self._client.drop_snapshot(name)
        self._client.drop_table(f"{name}-restored")
