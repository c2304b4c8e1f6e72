"""The sessions of a server: opening, heartbeats, ending. docs/sessions.md has their life as users see it.

Invariants
1. A session is ended in one place, `_end`: first it takes no more calls and holdings, then it waits for calls that must
   not be interrupted, then its holdings are released, the newest first, then it is ended.
2. A holding belongs to a session from `attach` until `detach` or its release, whichever comes first. `attach` is
   refused once the session is ending, so no holding outlives its session.
3. A session with a call under way (`using`) does not end for lack of heartbeats; it may be ended by request.
4. Numbers ascend over all sessions, also over restarts. A call with the number of an earlier opening is refused, and
   so is one without a number, unless it ends the session: an operator may, and nobody else uses a session by its id.

    with sessions.using(ref):                 a call: counts as a heartbeat at its begin and its end
        sessions.attach(ref, holding)         refused if the session is ending: release the holding yourself
    with sessions.uninterrupted(ref):         a commit: an end waits for it

The lock here is a leaf: holdings are released without it, and what describes them under it takes no lock.
"""

from __future__ import annotations

import contextlib
import logging
import math
import threading
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from rowlock_regionserver.clock import Clock
from rowlock_regionserver.config import Config
from rowlock_regionserver.errors import InvalidRequestError, LimitExceededError, RegionTooBusyError, StoppingError
from rowlock_regionserver.sessions.live_session import LiveSession
from rowlock_regionserver.sessions.session import (
    OWNER_CHARACTERS_MAX,
    PURPOSE_CHARACTERS_MAX,
    Holding,
    SessionInfo,
    SessionRef,
    SessionState,
    check_session_id,
    checked_text,
    session_ended_error,
)

logger = logging.getLogger(__name__)

# In the log line of an ended session.
_HELD_SHOWN_MAX = 5


@dataclass(frozen=True, slots=True)
class SessionStatistics:
    """The open sessions, and counts since the start."""

    open_count: int
    opened_count: int
    expired_count: int
    remembered_count: int  # ended ones


class Sessions:
    """All sessions of a server. Thread-safe."""

    def __init__(self, config: Config, clock: Clock, next_number: Callable[[], int]) -> None:
        """`next_number` returns a number greater than all it has returned, also before a restart. It may block."""
        self._config = config
        self._clock = clock
        self._next_number = next_number
        self._changed = threading.Condition(threading.Lock())
        # Guarded by self._changed:
        self._sessions: dict[str, LiveSession] = {}
        self._ended: OrderedDict[str, SessionInfo] = OrderedDict()  # by id, the last opening; the oldest end first
        self._opening: Counter[str] = Counter()  # the ids of openings that wait for a number
        self._opened_count = 0
        self._expired_count = 0
        self._is_stopped = False
        self._thread: threading.Thread | None = None  # started with the first session
        self._thread_wakes_at = math.inf

    def open(self, session_id: str, owner: str, purpose: str = "", idle_ms: int = 0) -> SessionInfo:
        """Opens a session. If this owner has one of this id, that counts as a heartbeat, and it is returned.

        Raises InvalidRequestError, LimitExceededError, RegionTooBusyError and StoppingError, and the errors of
        `next_number`.
        """
        check_session_id(session_id)
        owner = checked_text(owner, "owner", OWNER_CHARACTERS_MAX)
        purpose = checked_text(purpose, "purpose", PURPOSE_CHARACTERS_MAX)
        idle_ms = self._checked_idle_ms(idle_ms)
        with self._changed:
            known = self._open_by(session_id, owner)
            if known is not None:
                return known.info()
            self._opening[session_id] += 1
        try:
            number = self._next_number()
            with self._changed:
                known = self._open_by(session_id, owner)
                if known is None:
                    known = self._add(session_id, number, owner, purpose, idle_ms, self._clock.now_ms())
                return known.info()
        finally:
            with self._changed:
                self._opening[session_id] -= 1
                if not self._opening[session_id]:
                    del self._opening[session_id]
                self._changed.notify_all()

    def restore(
        self, session_id: str, number: int, owner: str, purpose: str, idle_ms: int, started_ms: int
    ) -> SessionInfo:
        """Opens a session from before a restart again; it has its whole idle limit from now on."""
        with self._changed:
            assert session_id not in self._sessions, f"two sessions {session_id!r}"
            return self._add(session_id, number, owner, purpose, idle_ms, started_ms).info()

    def heartbeat(self, ref: SessionRef) -> SessionInfo:
        """Restarts the idle limit. Raises SessionEndedError."""
        with self._changed:
            session = self._find(ref)
            self._renew(session)
            return session.info()

    def check(self, ref: SessionRef) -> None:
        """Raises SessionEndedError unless the session is open."""
        with self._changed:
            self._find(ref)

    def end(self, ref: SessionRef, reason: str) -> SessionInfo:
        """Ends the session and returns it with what was released. Blocks until that is done, and for a commit.

        Raises SessionEndedError if it has ended before.
        """
        with self._changed:
            # A client that gave its opening up may end it before that has a number.
            self._changed.wait_for(lambda: ref.number or self._is_stopped or ref.session_id not in self._opening)
            session = self._find(ref, to_end=True)
            if session.state is SessionState.OPEN:
                session.state = SessionState.ENDING
            else:  # Another thread ends it.
                self._changed.wait_for(lambda: session.state is SessionState.ENDED)
                return self._ended.get(session.session_id) or session.info()
        info = self._end(session, reason)
        logger.info("%s", _ended_text(info))
        return info

    @contextlib.contextmanager
    def using(self, ref: SessionRef) -> Iterator[SessionInfo]:
        """Returns a context for a call of the session, which does not expire meanwhile. Raises SessionEndedError."""
        with self._changed:
            session = self._find(ref)
            session.use_count += 1
            self._renew(session)
            info = session.info(held=())
        try:
            yield info
        finally:
            with self._changed:
                session.use_count -= 1
                if session.state is SessionState.OPEN:
                    self._renew(session)

    @contextlib.contextmanager
    def uninterrupted(self, ref: SessionRef) -> Iterator[SessionInfo]:
        """Returns a context that an end of the session waits for. Raises SessionEndedError."""
        with self.using(ref) as info:
            with self._changed:
                session = self._find(ref)
                session.uninterrupted_count += 1
            try:
                yield info
            finally:
                with self._changed:
                    session.uninterrupted_count -= 1
                    self._changed.notify_all()

    def attach(self, ref: SessionRef, holding: Holding) -> None:
        """Adds something that the end of the session releases. Raises SessionEndedError: the caller must release it.

        Does nothing if the session has an equal one.
        """
        with self._changed:
            session = self._find(ref)
            if holding not in session.holdings:
                session.holdings.append(holding)

    def detach(self, ref: SessionRef, holding: Holding) -> bool:
        """Removes a holding, which the caller releases. False: the session releases it, or has done so."""
        with self._changed:
            session = self._sessions.get(ref.session_id)
            if session is None or session.state is not SessionState.OPEN or holding not in session.holdings:
                return False
            session.holdings.remove(holding)
            return True

    def infos(self, *, ended_too: bool = False) -> list[SessionInfo]:
        """Returns the open sessions, by number, and before them the remembered ended ones, the oldest end first."""
        with self._changed:
            self._wake_if_any_is_over()
            ended = list(self._ended.values()) if ended_too else []
            return [*ended, *sorted((each.info() for each in self._sessions.values()), key=lambda info: info.number)]

    def stop(self) -> None:
        """Ends all sessions, and refuses new ones; what survives a restart stays. Idempotent."""
        with self._changed:
            self._is_stopped = True
            sessions = [each for each in self._sessions.values() if each.state is SessionState.OPEN]
            for session in sessions:
                session.state = SessionState.ENDING
            self._changed.notify_all()
            thread, self._thread = self._thread, None
        for session in sessions:
            self._end(session, "the server is stopping", is_stopping=True)
        if thread is not None:
            thread.join()

    def statistics(self) -> SessionStatistics:
        """From any thread."""
        with self._changed:
            return SessionStatistics(len(self._sessions), self._opened_count, self._expired_count, len(self._ended))

    def _checked_idle_ms(self, idle_ms: int) -> int:
        longest = self._config.session_idle_ms_max
        if idle_ms > longest:
            raise LimitExceededError(
                f"an idle limit of {idle_ms} ms is longer than session_idle_ms_max = {longest}; request a shorter one, "
                "which each call of the session restarts",
                limit="session_idle_ms_max",
                limit_value=longest,
                found=idle_ms,
            )
        return idle_ms or min(self._config.session_idle_ms, longest)

    def _end(self, session: LiveSession, reason: str, *, is_stopping: bool = False) -> SessionInfo:
        """Releases what an ENDING session holds. Called once for each session, by the thread that set this state."""
        with self._changed:
            self._changed.wait_for(lambda: not session.uninterrupted_count)
            holdings, session.holdings = session.holdings, []
            items = tuple([holding.item() for holding in holdings])
        for holding, item in zip(reversed(holdings), reversed(items), strict=True):
            try:
                holding.release(reason, is_stopping=is_stopping)
            except Exception:
                # The session still ends, and the thread continues with the next one.
                logger.exception("unexpected error while %s of session %r was released", item.text, session.session_id)
        with self._changed:
            session.state = SessionState.ENDED
            del self._sessions[session.session_id]
            info = session.info(held=items, ended_ms=self._clock.now_ms(), reason=reason)
            self._ended.pop(session.session_id, None)
            self._ended[session.session_id] = info
            if len(self._ended) > self._config.session_ids_remembered:
                self._ended.popitem(last=False)
            self._changed.notify_all()
        return info

    def _run(self) -> None:
        """The thread: ends sessions without heartbeats."""
        while True:
            with self._changed:
                if self._is_stopped:
                    return
                over = self._take_those_over()
                if not over:
                    ends = [each.ends_at for each in self._sessions.values() if self._may_expire(each)]
                    self._thread_wakes_at = min(ends, default=math.inf)
                    wait_s = self._thread_wakes_at - self._clock.monotonic()
                    self._changed.wait(None if math.isinf(wait_s) else max(0.0, wait_s))
            for session in over:
                logger.warning("%s", _ended_text(self._end(session, session.expiry())))

    # The caller of the methods below holds self._changed.

    def _open_by(self, session_id: str, owner: str) -> LiveSession | None:
        """Renews and returns the open session of this id and owner; None if there is none and one may be opened."""
        if self._is_stopped:
            raise StoppingError("the server is stopping, and its sessions have ended; retry in a moment")
        session = self._sessions.get(session_id)
        if session is not None:
            if session.state is not SessionState.OPEN or self._is_over(session):
                raise RegionTooBusyError(
                    f"session {session_id!r} is being ended; retry", retry_after_ms=self._config.retry_after_ms
                )
            if session.owner != owner:
                raise InvalidRequestError(
                    f"session {session_id!r} is open already, by {session.owner or 'another owner'}; choose another id"
                )
            self._renew(session)
            return session
        if len(self._sessions) >= self._config.sessions_open_max:
            raise RegionTooBusyError(
                f"{len(self._sessions)} sessions are open, which is sessions_open_max; end those you don't need "
                "('rowlock sessions' lists them), and retry",
                retry_after_ms=self._config.retry_after_ms,
            )
        return None

    def _add(
        self, session_id: str, number: int, owner: str, purpose: str, idle_ms: int, started_ms: int
    ) -> LiveSession:
        session = LiveSession(session_id, number, owner, purpose, idle_ms, started_ms, 0, 0.0)
        self._sessions[session_id] = session
        self._opened_count += 1
        self._renew(session)
        if self._thread is None:
            thread = threading.Thread(target=self._run, name="sessions", daemon=True)
            thread.start()  # Raises at the limit of threads; then the next session tries again.
            self._thread = thread
        return session

    def _find(self, ref: SessionRef, *, to_end: bool = False) -> LiveSession:
        """Returns the open session; to end it, also one that is being ended. Raises SessionEndedError.

        Raises InvalidRequestError for number 0, unless it is to be ended.
        """
        if not (ref.number or to_end):
            raise InvalidRequestError(
                f"the call names session {ref.session_id[:128]!r} without its number, so it may be that of another "
                "client; name the number that OpenSession returned (only EndSession takes an id alone)"
            )
        session = self._sessions.get(ref.session_id)
        if session is not None and ref.number in (0, session.number):
            if session.state is SessionState.OPEN and not self._is_over(session):
                return session
            if to_end:
                return session
            why = session.expiry() if session.state is SessionState.OPEN else "it is being ended"
            self._changed.notify_all()
            raise session_ended_error(ref.session_id, why, self._clock.now_ms())
        if session is not None:
            raise session_ended_error(
                ref.session_id, f"number {ref.number} is an earlier opening; the id is now that of {session.number}"
            )
        ended = self._ended.get(ref.session_id)
        if ended is not None and ref.number in (0, ended.number):
            raise session_ended_error(ref.session_id, ended.reason, ended.ended_ms)
        raise session_ended_error(
            ref.session_id, "this server has no session of that id and number, or was restarted since"
        )

    def _wake_if_any_is_over(self) -> None:
        if any(self._is_over(each) for each in self._sessions.values()):
            self._changed.notify_all()

    def _take_those_over(self) -> list[LiveSession]:
        """Marks the sessions without heartbeats as ENDING, and returns them; the caller ends them."""
        over = [each for each in self._sessions.values() if self._is_over(each)]
        for session in over:
            session.state = SessionState.ENDING
        self._expired_count += len(over)
        return over

    def _may_expire(self, session: LiveSession) -> bool:
        return session.state is SessionState.OPEN and not session.use_count

    def _is_over(self, session: LiveSession) -> bool:
        return self._may_expire(session) and session.ends_at <= self._clock.monotonic()

    def _renew(self, session: LiveSession) -> None:
        session.heartbeat_ms = self._clock.now_ms()
        session.ends_at = self._clock.monotonic() + session.idle_ms / 1000
        if session.ends_at < self._thread_wakes_at:
            self._changed.notify_all()


def _ended_text(info: SessionInfo) -> str:
    """Says in a line that a session has ended, why, and what was released."""
    purpose = f" ({info.purpose})" if info.purpose else ""
    held = ", ".join(item.text for item in info.held[:_HELD_SHOWN_MAX]) or "nothing"
    more = f" and {len(info.held) - _HELD_SHOWN_MAX} more" if len(info.held) > _HELD_SHOWN_MAX else ""
    owner = info.owner or "an unknown owner"
    return f"session {info.session_id!r} of {owner}{purpose} ended: {info.reason}; released: {held}{more}"
