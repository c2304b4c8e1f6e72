"""Snapshots that belong to a session: they live as long as it, instead of for a lease. Also: snapshots as sessions.

A snapshot of a client that names no session is listed as a session of its own, and can be ended like one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from rowlock_regionserver.errors import SessionEndedError
from rowlock_regionserver.host.client_state import ClientState
from rowlock_regionserver.host.snapshots import Snapshot, Snapshots
from rowlock_regionserver.locks.lock_matrix import Operation
from rowlock_regionserver.locks.table_locks import Caller
from rowlock_regionserver.region.region import Region
from rowlock_regionserver.sessions.session import HeldItem, HeldKind, SessionInfo, SessionState

_ID_PREFIX = "snapshot-"


class SnapshotHost(Protocol):
    """The region server as snapshots see it."""

    @property
    def snapshots(self) -> Snapshots: ...
    @property
    def clients(self) -> ClientState: ...
    def readable_regions_of(self, name: str) -> Sequence[Region]: ...


@dataclass(frozen=True, slots=True)
class SessionSnapshot:
    """A Holding: the end of the session ends the snapshot."""

    snapshots: Snapshots
    snapshot_id: bytes
    table: str

    def item(self) -> HeldItem:
        return HeldItem(HeldKind.SNAPSHOT, self.table, f"snapshot of {self.table}")

    def release(self, reason: str, *, is_stopping: bool) -> None:
        self.snapshots.end(self.snapshot_id, f"its session ended: {reason}")


def make_snapshot(host: SnapshotHost, name: str, snapshot_id: bytes, lease_ms: int, caller: Caller) -> Snapshot:
    """Takes a read point of every region of a table; see Snapshots.make. It belongs to the caller's session, if any.

    Raises the errors of Snapshots.make, SessionEndedError and LockUnavailableError.
    """
    clients, snapshots, ref = host.clients, host.snapshots, caller.session
    with clients.using(ref), clients.locked(Operation.SNAPSHOT, name, caller):
        if ref is None:
            return snapshots.make(snapshot_id, lambda: host.readable_regions_of(name), lease_ms, owner=caller.owner)
        holding = SessionSnapshot(snapshots, snapshot_id, name)
        made = snapshots.make(
            snapshot_id,
            lambda: host.readable_regions_of(name),
            lease_ms,
            owner=caller.owner,
            on_end=partial(clients.sessions.detach, ref, holding),
        )
        try:
            clients.sessions.attach(ref, holding)
        except SessionEndedError as error:
            snapshots.end(snapshot_id, f"its session ended: {error.reason}")
            raise
        return made


def implicit_sessions(snapshots: Snapshots) -> list[SessionInfo]:
    """Returns the snapshots that belong to no session, each as a session."""
    return [
        SessionInfo(
            _ID_PREFIX + held.snapshot.snapshot_id.hex(),
            0,
            held.owner,
            "snapshot without a session",
            SessionState.OPEN,
            held.snapshot.made_ms,
            held.used_ms,
            held.snapshot.lease_ms,
            (HeldItem(HeldKind.SNAPSHOT, held.snapshot.table, f"snapshot of {held.snapshot.table}"),),
            is_implicit=True,
        )
        for held in snapshots.held()
        if not held.is_of_session
    ]


def snapshot_id_of(session_id: str) -> bytes | None:
    """Returns the id of the snapshot that is listed as this session; None if it is not listed so."""
    if not session_id.startswith(_ID_PREFIX):
        return None
    try:
        return bytes.fromhex(session_id.removeprefix(_ID_PREFIX))
    except ValueError:
        return None
