"""A session as values: how a call names one, what it holds, and how it is listed."""

from __future__ import annotations

import enum
import re
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Protocol

from rowlock_regionserver.errors import InvalidRequestError, LimitExceededError, SessionEndedError

SESSION_ID = re.compile(r"[A-Za-z0-9_.:-]{1,128}")
OWNER_CHARACTERS_MAX = 256
PURPOSE_CHARACTERS_MAX = 1024


@dataclass(frozen=True, slots=True)
class SessionRef:
    """How a call names its session. Number 0 is only for ending it: the open one of this id, whichever it is."""

    session_id: str
    number: int = 0


class SessionState(enum.Enum):
    """OPEN becomes ENDING, in which the session takes no more calls, and then ENDED, when all it held is free."""

    OPEN = "open"
    ENDING = "ending"
    ENDED = "ended"


class HeldKind(enum.Enum):
    """What a session may hold."""

    LOCK = "lock"
    BULK_WRITE = "bulk write"
    SNAPSHOT = "snapshot"
    SCAN = "scan"


@dataclass(frozen=True, slots=True)
class HeldItem:
    """Something that a session holds, or waits for. `text` says it in words, as in "exclusive lock of flights"."""

    kind: HeldKind
    table: str
    text: str
    is_waiting: bool = False


class Holding(Protocol):
    """Something that a session holds and that is released when the session ends."""

    def item(self) -> HeldItem:
        """Describes it, as it is now. From any thread, and without taking a lock."""

    def release(self, reason: str, *, is_stopping: bool) -> None:
        """Releases it; called once, without any lock of the sessions. May block, not for a disk that is full.

        `is_stopping`: the server stops, and what survives a restart stays.
        """


@dataclass(frozen=True, slots=True)
class SessionInfo:
    """A session at one moment, for people. Times are milliseconds since the epoch on the server's clock."""

    session_id: str
    number: int
    owner: str
    purpose: str
    state: SessionState
    started_ms: int
    heartbeat_ms: int  # the last one
    idle_ms: int  # it ends after this long without one
    held: tuple[HeldItem, ...] = ()  # of an ended session: what was released
    is_implicit: bool = False  # a snapshot or scan that names no session
    ended_ms: int = 0
    reason: str = ""  # why it ended

    @property
    def ref(self) -> SessionRef:
        """Names this opening of the session."""
        return SessionRef(self.session_id, self.number)


def check_session_id(session_id: str) -> None:
    """Raises InvalidRequestError unless it is an id."""
    if not SESSION_ID.fullmatch(session_id):
        raise InvalidRequestError(
            f"{session_id[:64]!r} is not a session id: use 1 to 128 letters, digits, '_', '.', ':' and '-'"
        )


def checked_text(text: str, what: str, characters_max: int) -> str:
    """Returns the owner or purpose on one line. Raises LimitExceededError if it is too long."""
    if len(text) > characters_max:
        raise LimitExceededError(
            f"the {what} of a session has {len(text)} characters, more than {characters_max}; shorten it",
            limit=f"session_{what}_characters_max",
            limit_value=characters_max,
            found=len(text),
        )
    return "".join([each if each.isprintable() else " " for each in text])


def time_text(ms: int) -> str:
    """Returns a moment of the server's clock, for messages."""
    return datetime.fromtimestamp(ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def session_ended_error(session_id: str, reason: str, ended_ms: int = 0) -> SessionEndedError:
    """Returns the error for a call that names a session that is not open. `ended_ms` 0: unknown."""
    when = f" at {time_text(ended_ms)}" if ended_ms else ""
    return SessionEndedError(
        f"session {session_id!r} has ended{when}: {reason}; what it held is gone, open a new one",
        ended_ms=ended_ms,
        reason=reason,
    )
