"""64 sessions take locks at random in all modes, and die: the server always holds what a plain model holds.

Also with threads: nobody is let in beside an exclusive holder, and everybody gets its turn.
"""

from __future__ import annotations

import asyncio
import random
import threading
from collections.abc import Coroutine
from dataclasses import dataclass, field

from rowlock_regionserver.clock import ManualClock
from rowlock_regionserver.config import Config
from rowlock_regionserver.errors import LockUnavailableError, SessionEndedError
from rowlock_regionserver.host.client_state import ClientState
from rowlock_regionserver.locks.lock import LockKey, LockState, Mode, wanted_of
from rowlock_regionserver.locks.lock_matrix import Operation, wanted_by
from rowlock_regionserver.locks.table_locks import Caller
from rowlock_regionserver.sessions.session import SessionRef

from tests.property.lock_model import LockModel, ModelRequest
from tests.seeds import generator_of
from tests.waiting import WAIT_S

SESSIONS = 64
STEPS = 1500
TABLES = ("a", "b")
REGIONS = (1, 2, 3)
WAIT_MS = 600_000


@dataclass(eq=False)
class Asked:
    """A request of the test: what the model has of it, and the call to the server."""

    model: ModelRequest
    ref: SessionRef
    lock_id: str  # empty: of a table operation
    call: asyncio.Task[object]
    caller: Caller = field(default_factory=Caller)


class Both:
    """The server's locks and the model's."""

    def __init__(self, clients: ClientState, draw: random.Random) -> None:
        self.clients = clients
        self.model = LockModel()
        self.draw = draw
        self.refs: list[SessionRef] = []
        self.asked: list[Asked] = []
        self.opened = self.granted = self.waited = self.refused = self.died = 0
        for _ in range(SESSIONS):
            self.open()

    def open(self) -> None:
        self.opened += 1
        self.refs.append(self.clients.sessions.open(f"s{self.opened}", "somebody").ref)

    async def take(self) -> None:
        """Takes an explicit lock, or those of a table operation, for a session."""
        work: Coroutine[object, object, object]
        ref, table = self.draw.choice(self.refs), self.draw.choice(TABLES)
        lock_id = ""
        regions = self.draw.sample(REGIONS, self.draw.randint(1, 2))
        if self.draw.random() < 0.5:
            lock_id = f"lock-{self.draw.getrandbits(60)}"
            mode = self.draw.choice(list(Mode))
            keys = [(LockKey(each, self.draw.choice((0, *REGIONS))), mode) for each in self.draw.sample(TABLES, 1)]
            wanted = wanted_of(keys)
            self.clients.numbers.prepare()
            work = self.clients.take_lock(ref, lock_id, keys, WAIT_MS, "", lambda: None)
        else:
            operation = self.draw.choice(list(Operation))
            wanted = wanted_by(operation, table, regions)
            work = self.clients.take_for(operation, table, Caller("", ref, WAIT_MS), regions)
        request = ModelRequest(ref.session_id, wanted)
        call = asyncio.ensure_future(work)
        await idle()
        if self.model.ask(request):
            self.asked.append(Asked(request, ref, lock_id, call))
            self.granted += request.is_granted
            self.waited += not request.is_granted
        else:
            self.refused += 1
            assert isinstance(call.exception(), LockUnavailableError)

    async def give_up(self, asked: Asked) -> None:
        """Ends a waiting call, or releases its locks."""
        if not asked.call.done():
            asked.call.cancel()
        elif asked.lock_id:
            self.clients.release_lock(asked.ref, asked.lock_id)
        else:
            caller = asked.call.result()
            assert isinstance(caller, Caller)
            assert caller.held is not None
            self.clients.locks.release(caller.held)
        await idle()
        self.forget(asked)

    async def die(self) -> None:
        """A session ends with all it holds; a table operation that runs for it keeps its locks until it is done."""
        ref = self.refs.pop(self.draw.randrange(len(self.refs)))
        self.died += 1
        for asked in [each for each in self.asked if each.ref == ref and not each.lock_id]:
            await self.give_up(asked)
        self.clients.sessions.end(ref, "its client died")
        await idle()
        for asked in reversed([each for each in self.asked if each.ref == ref]):
            if not asked.model.is_granted:
                assert isinstance(asked.call.exception(), SessionEndedError)
            self.forget(asked)
        self.open()

    def forget(self, asked: Asked) -> None:
        self.asked.remove(asked)
        self.model.leave(asked.model)

    def compare(self) -> None:
        locks = self.clients.locks
        locks._check()
        infos = locks.infos()
        held = {(info.holder.holder_id, info.key, info.mode) for info in infos if info.state is LockState.HELD}
        assert held == self.model.held()
        waiting = sorted((info.key, info.holder.holder_id) for info in infos if info.state is LockState.WAITING)
        assert waiting == sorted((key, session) for session, key in self.model.waiting())
        assert all(each.call.done() == each.model.is_granted for each in self.asked)
        # A circle of sessions that wait for each other would never end.
        waits_for = {info.holder.holder_id: info.waits_for for info in infos if info.state is LockState.WAITING}
        assert_no_circle(waits_for)


def assert_no_circle(waits_for: dict[str, tuple[str, ...]]) -> None:
    """Removes those that wait for nobody who waits, until none is left."""
    left = set(waits_for)
    while left:
        free = {each for each in left if not left.intersection(waits_for[each])}
        assert free, f"a circle: {left}"
        left -= free


async def idle() -> None:
    """Runs what is ready on the loop."""
    for _ in range(8):
        await asyncio.sleep(0)


def test_locks_of_64_sessions_that_die_are_those_of_the_model() -> None:
    async def run() -> Both:
        clients = ClientState(Config(), ManualClock(), 1, lambda _: None)
        draw = generator_of("locks")
        both = Both(clients, draw)
        for _ in range(STEPS):
            kind = draw.random()
            if kind < 0.04:
                await both.die()
            elif kind < 0.5 and both.asked:
                granted = [each for each in both.asked if each.model.is_granted]
                await both.give_up(draw.choice(granted if granted and draw.random() < 0.8 else both.asked))
            else:
                await both.take()
            both.compare()
        while both.asked:  # Each waiting request gets its turn.
            await both.give_up(next(each for each in both.asked if each.model.is_granted))
            both.compare()
        assert clients.locks.infos() == []
        clients.sessions.stop()
        return both

    both = asyncio.run(run())
    assert min(both.granted, both.waited) > 50
    assert min(both.refused, both.died) > 3


def test_threads_never_meet_an_exclusive_holder_and_all_get_their_turn() -> None:
    clients = ClientState(Config(), ManualClock(), 1, lambda _: None)
    inside: dict[LockKey, list[Mode]] = {LockKey(t, r): [] for t in TABLES for r in (0, *REGIONS)}
    looking = threading.Lock()
    wrong: list[str] = []

    def work(number: int) -> None:
        draw = random.Random(number)
        for _ in range(20):
            operation = draw.choice(list(Operation))
            table, regions = draw.choice(TABLES), draw.sample(REGIONS, draw.randint(1, 3))
            with clients.locked(operation, table, Caller(f"thread {number}", wait_ms=WAIT_MS), regions):
                wanted = wanted_by(operation, table, regions)
                with looking:
                    for key, mode in wanted:
                        if inside[key] and Mode.EXCLUSIVE in (mode, *inside[key]):
                            wrong.append(f"{mode} beside {inside[key]} of {key}")
                        inside[key].append(mode)
                with looking:
                    for key, mode in wanted:
                        inside[key].remove(mode)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(SESSIONS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(WAIT_S)
    assert not any(thread.is_alive() for thread in threads)
    assert not wrong
    assert clients.locks.statistics().granted_count == SESSIONS * 20
    assert clients.locks.infos() == []
