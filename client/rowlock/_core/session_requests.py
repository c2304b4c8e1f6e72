"""Sessions, without I/O: requests, and what a client knows of a session that it has opened."""

from __future__ import annotations

import functools
import getpass
import os
import platform
import re
import sys
import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager

from rowlock_proto.v1 import sessions_pb2, types_pb2

from rowlock._core.view import milliseconds_of
from rowlock.errors import ClosedError, InvalidArgumentError, SessionEndedError
from rowlock.session_info import SessionInfo, session_info_from

IDLE_S_DEFAULT = 300.0
# Of the idle limit, between two heartbeats; and after a heartbeat that failed.
_BEAT_PART, _RETRY_PART = 3, 20
_SESSION_ID = re.compile(r"[A-Za-z0-9_.:-]{1,128}")
_OWNER_CHARACTERS_MAX = 256


def default_owner() -> str:
    """Returns who calls, for operators: user and host, process and program."""
    return _owner_of(os.getpid())


@functools.lru_cache(maxsize=1)
def _owner_of(process: int) -> str:
    try:
        user = getpass.getuser()
    except (OSError, KeyError, ImportError):  # A user id without a name.
        user = str(os.getuid()) if hasattr(os, "getuid") else "unknown"
    program = os.path.basename(sys.argv[0]) if sys.argv and sys.argv[0] not in ("", "-c") else ""
    return f"{user}@{platform.node()} pid {process} {program}".strip()[:_OWNER_CHARACTERS_MAX]


def new_id() -> str:
    """Returns a random id for a session or a lock."""
    return os.urandom(8).hex()


def open_request(
    purpose: str, session_id: str | None, owner: str | None, idle_s: float
) -> sessions_pb2.OpenSessionRequest:
    """Returns the request that opens a session. Raises InvalidArgumentError and TypeError."""
    if session_id is None:
        session_id = new_id()
    return sessions_pb2.OpenSessionRequest(
        session_id=checked_id(session_id),
        owner=default_owner() if owner is None else checked_text("owner", owner),
        purpose=checked_text("purpose", purpose),
        idle_ms=milliseconds_of("idle_s", idle_s),
    )


def checked_text(name: str, text: str) -> str:
    """Returns the argument `name`. Raises TypeError unless it is a str."""
    if not isinstance(text, str):
        raise TypeError(f"{name} must be a str, not {type(text).__name__}")
    return text


def checked_id(session_id: str) -> str:
    """Returns the id. Raises InvalidArgumentError if it is malformed."""
    if not isinstance(session_id, str) or not _SESSION_ID.fullmatch(session_id):
        raise InvalidArgumentError(
            f"{session_id!r:.100} is not a session id: use 1 to 128 letters, digits, '_', '.', ':' and '-'"
        )
    return session_id


class OwnSessions:
    """The sessions that a client has opened, with random ids, as long as something refers to them. Thread-safe."""

    def __init__(self) -> None:
        # Without a lock: each method of a set is atomic.
        self._known: set[weakref.ref[OpenedSession]] = set()
        self._opening: set[str] = set()  # the ids of those that are being opened
        self.is_closed = False

    @contextmanager
    def opening(self, session_id: str) -> Iterator[None]:
        """While a session is being opened. Raises ClosedError if the client was closed."""
        self._opening.add(session_id)
        try:
            if self.is_closed:
                raise ClosedError("the client was closed")
            yield
        finally:
            self._opening.discard(session_id)

    def close(self) -> list[str]:
        """Lets no more be opened; returns the ids of those that are being opened. Call it before `open_ones`."""
        self.is_closed = True
        return list(self._opening)

    def add(self, session: OpenedSession) -> None:
        """Adds a session."""
        self._known.add(weakref.ref(session, self._known.discard))

    def open_ones(self) -> list[OpenedSession]:
        """Returns those that are open, as far as this client knows."""
        found = [known() for known in list(self._known)]
        return [session for session in found if session is not None and session.is_open]


class OpenedSession:
    """A session that this client has opened. Thread-safe: heartbeats and calls note when it has ended."""

    def __init__(self, message: sessions_pb2.Session) -> None:
        self._info = session_info_from(message)
        self._lock = threading.Lock()
        # Guarded by self._lock:
        self._ended: SessionEndedError | None = None
        self._is_over = False

    @property
    def id(self) -> str:
        """The session's id. With it, other processes and the command line name the session."""
        return self._info.session_id

    @property
    def number(self) -> int:
        """Of this opening: greater than that of every session before it, also over restarts."""
        return self._info.number

    @property
    def owner(self) -> str:
        """Who opened it."""
        return self._info.owner

    @property
    def purpose(self) -> str:
        """What it is for."""
        return self._info.purpose

    @property
    def idle_s(self) -> float:
        """It ends after this many seconds without a heartbeat."""
        return self._info.idle_ms / 1000

    @property
    def is_open(self) -> bool:
        """Whether it is open, as far as this client knows; a heartbeat or call finds out that it has ended."""
        return not self._is_over

    @property
    def ref(self) -> types_pb2.SessionRef:
        """Names the session in requests; for use inside rowlock."""
        return types_pb2.SessionRef(session_id=self.id, number=self.number)

    def note_ended(self, error: SessionEndedError | None) -> None:
        """Notes the end of the session; for use inside rowlock. error: the server's; None: this client ended it."""
        with self._lock:
            self._is_over = True
            self._ended = self._ended or error

    @contextmanager
    def noting_its_end(self) -> Iterator[None]:
        """Notes the end of the session if the block raises SessionEndedError; for use inside rowlock."""
        try:
            yield
        except SessionEndedError as error:
            self.note_ended(error)
            raise

    def check(self) -> None:
        """Raises SessionEndedError if it has ended, as far as this client knows."""
        with self._lock:
            if self._ended is not None:
                raise self._ended.with_traceback(None)  # Each raise would add the frames of its caller.
            if self._is_over:
                raise SessionEndedError(f"session {self.id!r} was ended by its client", reason="its client ended it")

    def pause_s(self, *, has_failed: bool) -> float:
        """Returns the seconds until the next heartbeat; for use inside rowlock."""
        return self.idle_s / (_RETRY_PART if has_failed else _BEAT_PART)


def ref_of(session: OpenedSession | None) -> types_pb2.SessionRef | None:
    """Returns how a request names the session; None for none. Raises as `checked_ref`."""
    return None if session is None else checked_ref(session)


def checked_ref(session: OpenedSession) -> types_pb2.SessionRef:
    """Returns how a request names the session. Raises SessionEndedError if it has ended, TypeError if it is not one."""
    if not isinstance(session, OpenedSession):
        raise TypeError(f"session must be a result of db.session(), not {session!r:.100}")
    session.check()
    return session.ref


def infos_from(message: sessions_pb2.ListSessionsResponse) -> list[SessionInfo]:
    """Returns the sessions of an answer."""
    return [session_info_from(each) for each in message.sessions]
