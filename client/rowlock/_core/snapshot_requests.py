"""Snapshots, without I/O: ids, requests, and the attributes of a snapshot."""

from __future__ import annotations

import os

from rowlock_proto.v1 import catalog_pb2

from rowlock._core.catalog import TABLE_NAME
from rowlock.errors import InvalidArgumentError

SNAPSHOT_ID_BYTES = 16
LEASE_S_DEFAULT = 3600.0


class TakenSnapshot:
    """The attributes of a snapshot that a server has made."""

    def __init__(self, message: catalog_pb2.Snapshot) -> None:
        self._message = message

    @property
    def id(self) -> bytes:
        """16 bytes. They can be passed to a scan in place of the snapshot, also in another process."""
        return self._message.snapshot_id

    @property
    def table(self) -> str:
        """The name of its table."""
        return self._message.table

    @property
    def made_ms(self) -> int:
        """When it was made: the server's clock, milliseconds since the epoch. Time to live is judged at this time."""
        return self._message.made_ms

    @property
    def lease_s(self) -> float:
        """The snapshot ends after this many seconds without use."""
        return self._message.lease_ms / 1000


def new_snapshot_id() -> bytes:
    """Returns a random id of 16 bytes."""
    return os.urandom(SNAPSHOT_ID_BYTES)


def checked_name(name: str) -> str:
    """Returns the name of a named snapshot. Raises InvalidArgumentError, and TypeError if it is not a str."""
    if not isinstance(name, str):
        raise TypeError(f"name must be a str, the name of a snapshot, not {type(name).__name__}")
    if TABLE_NAME.fullmatch(name) is None:
        raise InvalidArgumentError(
            f"{name[:300]!r} is not the name of a snapshot: 1 to 255 letters, digits, '_', '-' and '.' of ASCII, "
            "starting with a letter, digit or '_'"
        )
    return name


def make_request(table: str, snapshot_id: bytes, incarnation_id: str, lease_ms: int) -> catalog_pb2.MakeSnapshotRequest:
    """Returns the request that makes a snapshot; see MakeSnapshotRequest."""
    return catalog_pb2.MakeSnapshotRequest(
        table=table, snapshot_id=snapshot_id, incarnation_id=incarnation_id, lease_ms=lease_ms
    )


def snapshot_id_for(table: str, snapshot: TakenSnapshot | bytes | None) -> bytes:
    """Returns the snapshot id for a scan of the table, empty for none.

    Raises InvalidArgumentError for a malformed id or a snapshot of another table, TypeError if it is neither.
    """
    if snapshot is None:
        return b""
    if isinstance(snapshot, TakenSnapshot):
        if snapshot.table != table:
            raise InvalidArgumentError(f"the snapshot is of table {snapshot.table!r}, and the scan of {table!r}")
        return snapshot.id
    return checked_id(snapshot, "snapshot", "a result of db.snapshot(), or its id")


def checked_id(snapshot_id: bytes, argument: str, what: str = "the id of a snapshot") -> bytes:
    """Returns the argument, an id. Raises TypeError unless it is bytes, InvalidArgumentError for another length."""
    if not isinstance(snapshot_id, bytes):
        raise TypeError(f"{argument} must be {what} as bytes, not {snapshot_id!r:.100}")
    if len(snapshot_id) != SNAPSHOT_ID_BYTES:
        raise InvalidArgumentError(f"{argument} must be {what} of {SNAPSHOT_ID_BYTES} bytes, not {snapshot_id!r:.100}")
    return snapshot_id
