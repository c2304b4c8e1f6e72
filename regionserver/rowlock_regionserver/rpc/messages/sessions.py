"""Sessions and locks: converts messages to values, and values to messages."""

from __future__ import annotations

from collections.abc import Sequence

from rowlock_proto.v1 import catalog_pb2, sessions_pb2, types_pb2

from rowlock_regionserver.errors import InvalidRequestError, LimitExceededError
from rowlock_regionserver.locks.lock import LockInfo, LockKey, LockState, Mode
from rowlock_regionserver.locks.table_locks import Caller
from rowlock_regionserver.sessions.session import HeldKind, SessionInfo, SessionRef, SessionState

# Tables and regions of one lock.
TARGETS_MAX = 1000

_STATES = {
    SessionState.OPEN: sessions_pb2.Session.STATE_OPEN,
    SessionState.ENDING: sessions_pb2.Session.STATE_ENDING,
    SessionState.ENDED: sessions_pb2.Session.STATE_ENDED,
}
_KINDS = {
    HeldKind.LOCK: sessions_pb2.HeldItem.KIND_LOCK,
    HeldKind.BULK_WRITE: sessions_pb2.HeldItem.KIND_BULK_WRITE,
    HeldKind.SNAPSHOT: sessions_pb2.HeldItem.KIND_SNAPSHOT,
    HeldKind.SCAN: sessions_pb2.HeldItem.KIND_SCAN,
}
_MODES = {Mode.SHARED: sessions_pb2.LOCK_MODE_SHARED, Mode.EXCLUSIVE: sessions_pb2.LOCK_MODE_EXCLUSIVE}
_MODES_BY_NUMBER = {number: mode for mode, number in _MODES.items()}


def session_ref(message: types_pb2.SessionRef) -> SessionRef:
    """Returns how a call names its session."""
    return SessionRef(message.session_id, message.number)


def caller_of(options: catalog_pb2.LockOptions, peer: str) -> Caller:
    """Returns who makes a call; `peer`, its connection, stands for an owner that is not named."""
    return Caller(
        options.owner or peer,
        session_ref(options.session) if options.HasField("session") else None,
        options.wait_ms if options.HasField("wait_ms") else None,
    )


def session_message(info: SessionInfo) -> sessions_pb2.Session:
    return sessions_pb2.Session(
        session_id=info.session_id,
        number=info.number,
        owner=info.owner,
        purpose=info.purpose,
        state=_STATES[info.state],
        started_ms=info.started_ms,
        heartbeat_ms=info.heartbeat_ms,
        idle_ms=info.idle_ms,
        held=[sessions_pb2.HeldItem(kind=_KINDS[item.kind], table=item.table, text=item.text) for item in info.held],
        is_implicit=info.is_implicit,
        ended_ms=info.ended_ms,
        reason=info.reason,
    )


def lock_targets(messages: Sequence[sessions_pb2.LockTarget]) -> list[tuple[LockKey, Mode]]:
    """Returns what a call wants to lock. Raises InvalidRequestError for none and for an unknown mode.

    Raises LimitExceededError for more than TARGETS_MAX.
    """
    if len(messages) > TARGETS_MAX:
        raise LimitExceededError(
            f"TakeLockRequest.targets has {len(messages)} entries, more than {TARGETS_MAX}; lock whole tables, or take "
            "several locks in ascending order",
            limit="lock_targets_max",
            limit_value=TARGETS_MAX,
            found=len(messages),
        )
    targets = []
    for message in messages:
        mode = _MODES_BY_NUMBER.get(message.mode)
        if mode is None:
            raise InvalidRequestError(
                f"LockTarget.mode of table {message.table[:256]!r} is {message.mode}; it must be 1 (SHARED) or 2 "
                "(EXCLUSIVE)",
                table=message.table[:256],
            )
        targets.append((LockKey(message.table, message.region_id), mode))
    if not targets:
        raise InvalidRequestError("TakeLockRequest.targets is empty; name at least one table")
    return targets


def lock_message(info: LockInfo, heartbeat_ms: int) -> sessions_pb2.Lock:
    """Converts the lock. `heartbeat_ms`: the last one of its session; 0: it is a call's."""
    return sessions_pb2.Lock(
        table=info.key.table,
        region_id=info.key.region_id,
        mode=sessions_pb2.LockMode.Name(_MODES[info.mode]),
        waits=info.state is LockState.WAITING,
        holder=info.holder.holder_id,
        owner=info.holder.owner,
        purpose=info.holder.purpose,
        number=info.number,
        since_ms=info.since_ms,
        waits_for=info.waits_for,
        waits_until_ms=info.waits_until_ms,
        heartbeat_ms=heartbeat_ms,
    )
