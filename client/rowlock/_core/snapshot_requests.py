"""Snapshots without I/O: their ids, what is asked of a server, and what a holder knows of one."""

from __future__ import annotations

import secrets

from rowlock_proto.v1 import catalog_pb2

from rowlock.errors import InvalidArgumentError

SNAPSHOT_ID_BYTES = 16
LEASE_S_DEFAULT = 3600.0


class TakenSnapshot:
    """What is known of a snapshot that a server has made."""

    def __init__(self, message: catalog_pb2.Snapshot) -> None:
        self._message = message

    @property
    def id(self) -> bytes:
        """16 bytes; a scan may be given these instead, also in another process."""
        return self._message.snapshot_id

    @property
    def table(self) -> str:
        return self._message.table

    @property
    def made_ms(self) -> int:
        """When it was made, by the server's clock; time to live is judged by it."""
        return self._message.made_ms

    @property
    def lease_s(self) -> float:
        """It ends when nothing used it for so many seconds."""
        return self._message.lease_ms / 1000


def new_snapshot_id() -> bytes:
    """A random id."""
    return secrets.token_bytes(SNAPSHOT_ID_BYTES)


def lease_ms_of(lease_s: float) -> int:
    """A lease in milliseconds; InvalidArgumentError unless it is a positive number of seconds."""
    if isinstance(lease_s, bool) or not isinstance(lease_s, int | float) or not 0 < lease_s < 1e15:
        raise InvalidArgumentError(f"lease_s is a number of seconds, more than 0 and at most a day; not {lease_s!r}")
    return max(1, round(lease_s * 1000))


def make_request(table: str, snapshot_id: bytes, incarnation_id: str, lease_ms: int) -> catalog_pb2.MakeSnapshotRequest:
    """Asks for a snapshot; see MakeSnapshotRequest."""
    return catalog_pb2.MakeSnapshotRequest(
        table=table, snapshot_id=snapshot_id, incarnation_id=incarnation_id, lease_ms=lease_ms
    )


def snapshot_id_for(table: str, snapshot: TakenSnapshot | bytes | None) -> bytes:
    """The id that a scan of the table names, empty for none; InvalidArgumentError if it is none or another table's."""
    if snapshot is None:
        return b""
    if isinstance(snapshot, TakenSnapshot):
        if snapshot.table != table:
            raise InvalidArgumentError(f"the snapshot is of table {snapshot.table!r}, and the scan of {table!r}")
        return snapshot.id
    if not isinstance(snapshot, bytes) or len(snapshot) != SNAPSHOT_ID_BYTES:
        raise InvalidArgumentError(
            f"snapshot is what db.snapshot() gave, or its id of {SNAPSHOT_ID_BYTES} bytes; not {snapshot!r:.100}"
        )
    return snapshot
