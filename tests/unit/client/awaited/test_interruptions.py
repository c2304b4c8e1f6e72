"""What is interrupted while it opens or ends something on the server leaves nothing there (asyncio)."""

from __future__ import annotations

import pytest
import rowlock
from google.protobuf.message import Message
from rowlock._transport import methods
from rowlock._transport.methods import Method
from rowlock.aio._transport.servers import Servers
from rowlock_proto.v1 import catalog_pb2, sessions_pb2


class Interruption(BaseException):
    """Stands for KeyboardInterrupt and CancelledError."""


class AnsweredCalls:
    """Answers every call as the server would, but interrupts the first one of a method."""

    def __init__(self, interrupted: Method[Message, Message]) -> None:
        self._interrupted = interrupted.path
        self._has_interrupted = False
        self.made: list[tuple[str, Message]] = []

    async def call(
        self, method: Method[Message, Message], request: Message, timeout_s: float, *_: object, work_s: float = 0
    ) -> Message:
        self.made.append((method.path.rpartition("/")[2], request))
        if method.path == self._interrupted and not self._has_interrupted:
            self._has_interrupted = True
            raise Interruption
        if isinstance(request, sessions_pb2.OpenSessionRequest):
            session = sessions_pb2.Session(session_id=request.session_id, number=1, idle_ms=request.idle_ms)
            return sessions_pb2.OpenSessionResponse(session=session)
        if isinstance(request, catalog_pb2.MakeSnapshotRequest):
            return catalog_pb2.MakeSnapshotResponse(snapshot=catalog_pb2.Snapshot(snapshot_id=request.snapshot_id))
        return sessions_pb2.TakeLockResponse(number=7)


def calls_of(servers: Servers, monkeypatch: pytest.MonkeyPatch, interrupted: object) -> AnsweredCalls:
    assert isinstance(interrupted, Method)
    calls = AnsweredCalls(interrupted)
    monkeypatch.setattr(servers, "call", calls.call)
    return calls


@pytest.mark.parametrize("method", [methods.OPEN_SESSION, methods.END_SESSION])
async def test_a_session_is_ended(
    db: rowlock.aio.Client, servers: Servers, monkeypatch: pytest.MonkeyPatch, method: object
) -> None:
    calls = calls_of(servers, monkeypatch, method)
    with pytest.raises(Interruption):
        async with db.session("work"):
            pass
    opening, ending = calls.made[0][1], calls.made[-1][1]
    assert isinstance(opening, sessions_pb2.OpenSessionRequest)
    assert isinstance(ending, sessions_pb2.EndSessionRequest)
    assert ending.session.session_id == opening.session_id
    assert len(calls.made) == 2 + (method is methods.END_SESSION)


async def test_a_session_that_may_have_been_open_before_stays(
    db: rowlock.aio.Client, servers: Servers, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = calls_of(servers, monkeypatch, methods.OPEN_SESSION)
    with pytest.raises(Interruption):
        await db.session("work", session_id="nightly")
    assert [name for name, _ in calls.made] == ["OpenSession"]


@pytest.mark.parametrize("method", [methods.MAKE_SNAPSHOT, methods.END_SNAPSHOT])
async def test_a_snapshot_is_ended(
    db: rowlock.aio.Client, servers: Servers, monkeypatch: pytest.MonkeyPatch, method: object
) -> None:
    calls = calls_of(servers, monkeypatch, method)
    with pytest.raises(Interruption):
        async with db.snapshot("t"):
            pass
    making, ending = calls.made[0][1], calls.made[-1][1]
    assert isinstance(making, catalog_pb2.MakeSnapshotRequest)
    assert isinstance(ending, catalog_pb2.EndSnapshotRequest)
    assert ending.snapshot_id == making.snapshot_id
    assert len(calls.made) == 2 + (method is methods.END_SNAPSHOT)


@pytest.mark.parametrize("is_own", [False, True])
async def test_a_lock_is_released(
    db: rowlock.aio.Client, servers: Servers, monkeypatch: pytest.MonkeyPatch, *, is_own: bool
) -> None:
    calls = calls_of(servers, monkeypatch, methods.RELEASE_LOCK if is_own else methods.END_SESSION)
    session = await db.session("work") if is_own else None
    with pytest.raises(Interruption):
        async with db.lock("t", "exclusive", session=session):
            pass
    ending = "ReleaseLock" if is_own else "EndSession"
    assert [name for name, _ in calls.made] == ["OpenSession", "TakeLock", ending, ending]


async def test_a_bulk_write_in_a_session_of_the_caller_is_aborted(
    db: rowlock.aio.Client, servers: Servers, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = calls_of(servers, monkeypatch, methods.ABORT_BULK_WRITE)
    session = await db.session("work")
    write = await db.bulk_write("t", session=session)
    with pytest.raises(Interruption):
        await write.abort()
    assert [name for name, _ in calls.made][-2:] == ["AbortBulkWrite", "AbortBulkWrite"]


async def test_a_release_that_is_interrupted_before_its_call_can_be_repeated(
    db: rowlock.aio.Client, servers: Servers, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = calls_of(servers, monkeypatch, methods.OPEN_BULK_WRITE)
    lock = await db.lock("t", "exclusive")

    def interrupt() -> None:
        raise Interruption

    with monkeypatch.context() as patched:
        patched.setattr(lock.session, "check", interrupt)
        with pytest.raises(Interruption):
            await lock.release()
    assert lock.is_held
    for _ in range(2):
        await lock.release()
        assert not lock.is_held
    assert [name for name, _ in calls.made] == ["OpenSession", "TakeLock", "EndSession"]


async def test_closing_a_client_ends_the_sessions_with_ids_of_its_own(
    db: rowlock.aio.Client, servers: Servers, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = calls_of(servers, monkeypatch, methods.OPEN_BULK_WRITE)
    lock = await db.lock("t", "exclusive")
    own = await db.session("own")
    named = await db.session("named", session_id="load-42")
    over = await db.session("over")
    await over.end()
    del calls.made[:]
    for _ in range(2):
        await db.close()
    ended = [
        request.session.session_id for _, request in calls.made if isinstance(request, sessions_pb2.EndSessionRequest)
    ]
    assert sorted(ended) == sorted([lock.session.id, own.id])
    assert (lock.is_held, own.is_open, named.is_open) == (False, False, True)


async def test_closing_a_client_ends_a_session_that_is_being_opened(
    db: rowlock.aio.Client, servers: Servers, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = calls_of(servers, monkeypatch, methods.OPEN_BULK_WRITE)
    with servers.sessions.opening("opening"):
        await db.close()
    [(name, ending)] = calls.made
    assert isinstance(ending, sessions_pb2.EndSessionRequest)
    assert (name, ending.session.session_id, ending.session.number) == ("EndSession", "opening", 0)
    with pytest.raises(rowlock.ClosedError):
        await db.session("too late")
    assert len(calls.made) == 1


async def test_two_calls_may_release_a_lock_at_once(
    db: rowlock.aio.Client, servers: Servers, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = calls_of(servers, monkeypatch, methods.OPEN_BULK_WRITE)
    lock = await db.lock("t", "exclusive")

    async def released_by_another(*_: object, **__: object) -> Message:
        monkeypatch.setattr(servers, "call", calls.call)
        await lock.release()
        raise rowlock.SessionEndedError("its owner ended it")

    monkeypatch.setattr(servers, "call", released_by_another)
    await lock.release()
    assert not lock.is_held


async def test_a_lock_that_was_lost_says_so_when_it_is_released(
    db: rowlock.aio.Client, servers: Servers, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls_of(servers, monkeypatch, methods.OPEN_BULK_WRITE)
    lock = await db.lock("t", "exclusive")

    async def lost(*_: object, **__: object) -> Message:
        raise rowlock.SessionEndedError("it had no heartbeat")

    monkeypatch.setattr(servers, "call", lost)
    with pytest.raises(rowlock.SessionEndedError):
        await lock.release()
    await lock.release()


async def test_a_commit_during_which_the_client_is_closed_has_an_unknown_outcome(
    db: rowlock.aio.Client, servers: Servers, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls_of(servers, monkeypatch, methods.ABORT_BULK_WRITE)
    session = await db.session("work")
    write = await db.bulk_write("t", session=session)

    async def closed(*_: object, **__: object) -> Message:
        raise rowlock.ClosedError("the client was closed")

    monkeypatch.setattr(servers, "call", closed)
    with pytest.raises(rowlock.UnknownOutcomeError, match="closed during the commit of a bulk write of table 't'"):
        await write.commit()
    servers.sessions.close()
    with pytest.raises(rowlock.ClosedError):
        await write.commit()
