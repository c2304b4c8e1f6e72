"""Sessions: how they are opened, kept by heartbeats and ended, and what becomes of what they hold."""

from __future__ import annotations

import itertools
import logging
import math
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from rowlock_regionserver.clock import ManualClock
from rowlock_regionserver.config import Config
from rowlock_regionserver.errors import (
    InvalidRequestError,
    LimitExceededError,
    RegionTooBusyError,
    SessionEndedError,
    StoppingError,
)
from rowlock_regionserver.sessions.session import HeldItem, HeldKind, SessionRef, SessionState
from rowlock_regionserver.sessions.sessions import Sessions

from tests.threads import wait_until_it_waits
from tests.waiting import WAIT_S, wait_until

CONFIG = Config(session_idle_ms=1000, session_idle_ms_max=9000, sessions_open_max=3, session_ids_remembered=2)


class Held:
    """Something that a session holds; notes its release."""

    def __init__(self, name: str, released: list[str]) -> None:
        self._name = name
        self._released = released
        self.may_end = threading.Event()
        self.may_end.set()

    def item(self) -> HeldItem:
        return HeldItem(HeldKind.LOCK, "t", self._name)

    def release(self, reason: str, *, is_stopping: bool) -> None:
        assert self.may_end.wait(WAIT_S)
        self._released.append(f"{self._name}: {reason}{' (stops)' if is_stopping else ''}")


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def released() -> list[str]:
    return []


@pytest.fixture
def sessions(clock: ManualClock) -> Iterator[Sessions]:
    numbers = itertools.count(7)
    made = Sessions(CONFIG, clock, lambda: next(numbers))
    yield made
    made.stop()


def test_a_session_says_whose_it_is_and_what_for(sessions: Sessions, clock: ManualClock) -> None:
    info = sessions.open("load:42", "ana@db7", "nightly\nload", 5000)
    assert (info.session_id, info.number, info.owner, info.purpose) == ("load:42", 7, "ana@db7", "nightly load")
    assert (info.state, info.started_ms, info.heartbeat_ms) == (SessionState.OPEN, clock.now_ms(), clock.now_ms())
    assert (info.idle_ms, sessions.open("other", "kim").idle_ms) == (5000, 1000)
    assert [each.session_id for each in sessions.infos()] == ["load:42", "other"]


def test_a_repeated_opening_is_the_same_session_and_another_owner_is_refused(sessions: Sessions) -> None:
    first = sessions.open("load", "ana")
    assert sessions.open("load", "ana").number == first.number
    with pytest.raises(InvalidRequestError, match="is open already, by ana; choose another id"):
        sessions.open("load", "kim")


@pytest.mark.parametrize("session_id", ["", "a b", "a/b", "x" * 129, "é"])
def test_malformed_ids_are_refused(sessions: Sessions, session_id: str) -> None:
    with pytest.raises(InvalidRequestError, match="is not a session id"):
        sessions.open(session_id, "ana")


def test_impossible_limits_are_refused_by_name(sessions: Sessions) -> None:
    with pytest.raises(LimitExceededError, match="session_idle_ms_max = 9000"):
        sessions.open("a", "ana", "", 9001)
    with pytest.raises(LimitExceededError, match="the purpose of a session has 1025 characters"):
        sessions.open("a", "ana", "x" * 1025)
    for name in "abc":
        sessions.open(name, "ana")
    with pytest.raises(RegionTooBusyError, match="3 sessions are open, which is sessions_open_max"):
        sessions.open("d", "ana")
    assert sessions.open("c", "ana").session_id == "c"


def test_what_a_session_holds_is_released_newest_first_when_it_ends(sessions: Sessions, released: list[str]) -> None:
    ref = sessions.open("a", "ana").ref
    for name in ("first", "second"):
        sessions.attach(ref, Held(name, released))
    ended = sessions.end(ref, "kim ended it")
    assert released == ["second: kim ended it", "first: kim ended it"]
    assert (ended.state, ended.reason, [item.text for item in ended.held]) == (
        SessionState.ENDED,
        "kim ended it",
        ["first", "second"],
    )
    assert sessions.infos() == []
    assert sessions.infos(ended_too=True) == [ended]
    with pytest.raises(SessionEndedError, match="kim ended it; what it held is gone") as caught:
        sessions.attach(ref, Held("third", released))
    assert (caught.value.reason, caught.value.ended_ms) == ("kim ended it", ended.ended_ms)


def test_a_release_that_fails_ends_neither_the_others_nor_the_thread(
    sessions: Sessions, clock: ManualClock, released: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    class Failing(Held):
        def release(self, reason: str, *, is_stopping: bool) -> None:
            raise OSError("the disk is gone")

    for session_id in ("a", "b"):
        ref = sessions.open(session_id, "ana").ref
        sessions.attach(ref, Held(f"it of {session_id}", released))
        sessions.attach(ref, Failing("the failing one", released))
        clock.advance(1000)
        sessions.infos()
        wait_until(lambda: not sessions.infos())
    assert released == [f"it of {session_id}: it had no heartbeat for 1 s" for session_id in ("a", "b")]
    assert [record.message for record in caplog.records if record.levelname == "ERROR"] == [
        f"unexpected error while the failing one of session {session_id!r} was released" for session_id in ("a", "b")
    ]


def test_a_detached_holding_is_released_by_its_owner_once(sessions: Sessions, released: list[str]) -> None:
    ref, held = sessions.open("a", "ana").ref, Held("it", released)
    sessions.attach(ref, held)
    sessions.attach(ref, held)
    assert sessions.detach(ref, held)
    assert not sessions.detach(ref, held)
    sessions.end(ref, "over")
    assert released == []
    assert not sessions.detach(ref, held)


def test_a_session_without_heartbeats_ends_and_frees_what_it_held(
    sessions: Sessions, clock: ManualClock, released: list[str]
) -> None:
    ref = sessions.open("a", "ana").ref
    sessions.attach(ref, Held("it", released))
    wait_until(lambda: sessions._thread_wakes_at < math.inf)  # The thread waits.
    for _ in range(3):
        clock.advance(999)
        sessions.heartbeat(ref)
    clock.advance(1000)
    for call in (sessions.heartbeat, sessions.check):
        with pytest.raises(SessionEndedError, match="it had no heartbeat for 1 s"):
            call(ref)
    wait_until(lambda: not sessions.infos())
    assert released == ["it: it had no heartbeat for 1 s"]
    assert sessions.statistics().expired_count == 1


def test_a_thread_ends_a_session_that_nobody_asks_about(
    sessions: Sessions, clock: ManualClock, released: list[str]
) -> None:
    ref = sessions.open("a", "ana", "", 20).ref  # The thread looks at the clock when so much time has passed.
    sessions.attach(ref, Held("it", released))
    clock.advance(20)
    wait_until(lambda: bool(released))


def test_a_call_keeps_its_session_and_counts_as_a_heartbeat(sessions: Sessions, clock: ManualClock) -> None:
    ref = sessions.open("a", "ana").ref
    with sessions.using(ref) as info:
        assert info.ref == ref
        clock.advance(50_000)
        sessions.check(ref)
    clock.advance(999)
    sessions.check(ref)
    clock.advance(1)
    with pytest.raises(SessionEndedError), sessions.using(ref):
        pass


def test_an_id_is_used_again_and_the_old_number_is_refused(sessions: Sessions, released: list[str]) -> None:
    old = sessions.open("a", "ana").ref
    sessions.end(old, "over")
    new = sessions.open("a", "kim").ref
    assert new.number > old.number
    for call in (sessions.check, lambda ref: sessions.attach(ref, Held("it", released))):
        with pytest.raises(SessionEndedError, match=f"number {old.number} is an earlier opening"):
            call(old)
    sessions.end(new, "over")
    with pytest.raises(SessionEndedError, match="has no session of that id and number"):
        sessions.check(old)


def test_ended_ids_are_remembered_up_to_a_bound(sessions: Sessions) -> None:
    for name in "abc":
        sessions.end(sessions.open(name, "ana").ref, f"end of {name}")
    assert [info.reason for info in sessions.infos(ended_too=True)] == ["end of b", "end of c"]
    with pytest.raises(SessionEndedError, match="or was restarted since"):
        sessions.end(SessionRef("a"), "again")


def test_only_an_end_names_a_session_by_its_id_alone(sessions: Sessions, released: list[str]) -> None:
    ref = sessions.open("a", "ana").ref
    sessions.attach(ref, Held("it", released))
    for call in (sessions.check, sessions.heartbeat, lambda ref: sessions.attach(ref, Held("other", released))):
        with pytest.raises(InvalidRequestError, match="names session 'a' without its number"):
            call(SessionRef("a"))
    for context in (sessions.using, sessions.uninterrupted):
        with (
            pytest.raises(InvalidRequestError, match="name the number that OpenSession returned"),
            context(SessionRef("a")),
        ):
            pass
    assert sessions.end(SessionRef("a"), "kim ended it").number == ref.number
    assert released == ["it: kim ended it"]


def test_an_end_waits_for_a_commit_and_takes_no_more_calls(sessions: Sessions, released: list[str]) -> None:
    ref = sessions.open("a", "ana").ref
    sessions.attach(ref, Held("it", released))
    with ThreadPoolExecutor(1) as pool:
        with sessions.uninterrupted(ref):
            ending = pool.submit(sessions.end, ref, "over")
            wait_until(lambda: sessions.infos()[0].state is SessionState.ENDING)
            with pytest.raises(SessionEndedError, match="it is being ended"):
                sessions.heartbeat(ref)
            with pytest.raises(RegionTooBusyError, match="is being ended; retry"):
                sessions.open("a", "ana")
            assert released == []
        assert ending.result(WAIT_S).reason == "over"
    assert released == ["it: over"]


def test_an_end_that_overtakes_the_opening_waits_for_it(clock: ManualClock) -> None:
    may_continue = threading.Event()

    def next_number() -> int:
        assert may_continue.wait(WAIT_S)
        return 7

    sessions = Sessions(CONFIG, clock, next_number)
    with ThreadPoolExecutor(2) as threads:
        opening = threads.submit(sessions.open, "a", "ana")
        wait_until(lambda: bool(sessions._opening))
        ending = threads.submit(sessions.end, SessionRef("a", 0), "its client gave it up")
        assert not ending.done()
        may_continue.set()
        assert opening.result(WAIT_S).session_id == "a"
        assert ending.result(WAIT_S).number == 7
    assert (sessions.infos(), sessions._opening) == ([], {})
    sessions.stop()


def test_an_opening_without_a_number_does_not_keep_an_end_waiting(clock: ManualClock) -> None:
    def next_number() -> int:
        raise OSError("the disk is gone")

    sessions = Sessions(CONFIG, clock, next_number)
    with pytest.raises(OSError, match="gone"):
        sessions.open("a", "ana")
    with pytest.raises(SessionEndedError):
        sessions.end(SessionRef("a", 0), "its client gave it up")


def test_two_that_end_a_session_both_return_when_all_is_released(sessions: Sessions, released: list[str]) -> None:
    ref, held = sessions.open("a", "ana").ref, Held("it", released)
    held.may_end.clear()
    sessions.attach(ref, held)
    threads = [threading.Thread(target=sessions.end, args=(ref, "over")) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        wait_until_it_waits(thread)
    assert all(thread.is_alive() for thread in threads)
    held.may_end.set()
    for thread in threads:
        thread.join(WAIT_S)
    assert released == ["it: over"]


def test_a_restored_session_has_its_whole_idle_limit(sessions: Sessions, clock: ManualClock) -> None:
    info = sessions.restore("a", 5, "ana", "load", 2000, started_ms=1)
    assert (info.number, info.started_ms, info.heartbeat_ms) == (5, 1, clock.now_ms())
    clock.advance(1999)
    assert sessions.open("a", "ana").number == 5


def test_a_server_that_stops_ends_all_and_opens_no_more(sessions: Sessions, released: list[str]) -> None:
    ref = sessions.open("a", "ana").ref
    sessions.attach(ref, Held("it", released))
    sessions.stop()
    sessions.stop()
    assert released == ["it: the server is stopping (stops)"]
    with pytest.raises(StoppingError):
        sessions.open("b", "ana")
    with pytest.raises(SessionEndedError):
        sessions.check(ref)


def test_an_end_is_a_line_in_the_log(
    sessions: Sessions, clock: ManualClock, released: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    dead = sessions.open("load:42", "ana@db7", "nightly load", 5000).ref
    for number in range(7):
        sessions.attach(dead, Held(f"it {number}", released))
    sessions.end(sessions.open("job", "kim").ref, "ended by its client")
    clock.advance(5000)
    sessions.infos()
    wait_until(lambda: len(caplog.records) == 2)
    assert [(record.levelname, record.getMessage()) for record in caplog.records] == [
        ("INFO", "session 'job' of kim ended: ended by its client; released: nothing"),
        (
            "WARNING",
            "session 'load:42' of ana@db7 (nightly load) ended: it had no heartbeat for 5 s; "
            "released: it 0, it 1, it 2, it 3, it 4 and 2 more",
        ),
    ]


def test_after_a_lack_of_threads_sessions_end_as_before(
    sessions: Sessions, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as without_threads:
        without_threads.setattr(threading.Thread, "start", fail)
        with pytest.raises(RuntimeError):
            sessions.open("a", "ana")
    sessions.open("b", "ana")
    clock.advance(1000)
    wait_until(lambda: sessions.infos() == [])
