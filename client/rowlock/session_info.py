"""Sessions and locks as values, and their conversion from messages."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from rowlock_proto.v1 import sessions_pb2

SessionState = Literal["open", "ending", "ended"]
HeldKind = Literal["lock", "bulk write", "snapshot", "scan", "other"]
LockMode = Literal["shared", "exclusive"]

_STATES: Mapping[int, SessionState] = {
    sessions_pb2.Session.STATE_OPEN: "open",
    sessions_pb2.Session.STATE_ENDING: "ending",
    sessions_pb2.Session.STATE_ENDED: "ended",
}
_KINDS: Mapping[int, HeldKind] = {
    sessions_pb2.HeldItem.KIND_LOCK: "lock",
    sessions_pb2.HeldItem.KIND_BULK_WRITE: "bulk write",
    sessions_pb2.HeldItem.KIND_SNAPSHOT: "snapshot",
    sessions_pb2.HeldItem.KIND_SCAN: "scan",
}


@dataclass(frozen=True, slots=True)
class HeldItem:
    """Something that a session holds. text: in words, as in "exclusive lock of flights"."""

    kind: HeldKind
    table: str
    text: str


@dataclass(frozen=True, slots=True)
class SessionInfo:
    """A session at one moment. Times are milliseconds since the epoch on the server's clock.

    number: of this opening of the id; 0 for an implicit session.
    heartbeat_ms: the last heartbeat. idle_ms: it ends after this many milliseconds without one.
    held: what it holds; if it has ended, what was released.
    is_implicit: a snapshot or a scan of a client that named no session.
    ended_ms, reason: when and why it ended; None and "" while it is open.
    """

    session_id: str
    number: int
    owner: str
    purpose: str
    state: SessionState
    started_ms: int
    heartbeat_ms: int
    idle_ms: int
    held: tuple[HeldItem, ...] = ()
    is_implicit: bool = False
    ended_ms: int | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class LockInfo:
    """A lock of one table or region that is held or waited for, at one moment. Times as in SessionInfo.

    region_id: None: of the table itself.
    holder: the session's id, or call-1, call-2, ... for a table operation that runs now.
    purpose: what it is for. number: see Lock.number; 0 of a call, and while it waits.
    since_ms: when it was taken, or requested.
    waits_for: the holders that it waits for, and those that wait before it. waits_until_ms: when it is refused.
    heartbeat_ms: the last one of its session; None: of a call.
    """

    table: str
    region_id: int | None
    mode: LockMode
    is_held: bool
    holder: str
    owner: str
    purpose: str
    number: int
    since_ms: int
    waits_for: tuple[str, ...] = ()
    waits_until_ms: int | None = None
    heartbeat_ms: int | None = None


def session_info_from(message: sessions_pb2.Session) -> SessionInfo:
    """Returns a session from its message."""
    return SessionInfo(
        session_id=message.session_id,
        number=message.number,
        owner=message.owner,
        purpose=message.purpose,
        state=_STATES.get(message.state, "open"),
        started_ms=message.started_ms,
        heartbeat_ms=message.heartbeat_ms,
        idle_ms=message.idle_ms,
        held=tuple([HeldItem(_KINDS.get(each.kind, "other"), each.table, each.text) for each in message.held]),
        is_implicit=message.is_implicit,
        ended_ms=message.ended_ms or None,
        reason=message.reason,
    )


def lock_info_from(message: sessions_pb2.Lock) -> LockInfo:
    """Returns a lock from its message."""
    return LockInfo(
        table=message.table,
        region_id=message.region_id or None,
        mode="exclusive" if message.mode == sessions_pb2.LOCK_MODE_EXCLUSIVE else "shared",
        is_held=not message.waits,
        holder=message.holder,
        owner=message.owner,
        purpose=message.purpose,
        number=message.number,
        since_ms=message.since_ms,
        waits_for=tuple(message.waits_for),
        waits_until_ms=message.waits_until_ms or None,
        heartbeat_ms=message.heartbeat_ms or None,
    )
