"""The ids of ended snapshots, with the time and the reason for their holders. An id is never reused."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass

from rowlock_regionserver.errors import InvalidRequestError, SnapshotEndedError
from rowlock_regionserver.sessions.session import time_text

SNAPSHOT_ID_BYTES = 16


@dataclass(frozen=True, slots=True)
class _Ended:
    table: str
    reason: str
    ended_ms: int


class EndedSnapshots:
    """The last `count_max` ended snapshots. Not thread-safe."""

    def __init__(self, count_max: int) -> None:
        self._count_max = count_max
        self._ended: OrderedDict[bytes, _Ended] = OrderedDict()

    def __len__(self) -> int:
        return len(self._ended)

    def add(self, snapshot_id: bytes, table: str, reason: str, ended_ms: int) -> None:
        """Adds an id; its first end counts. Beyond the bound the oldest id is dropped."""
        self._ended.setdefault(snapshot_id, _Ended(table, reason, ended_ms))
        if len(self._ended) > self._count_max:
            self._ended.popitem(last=False)

    def check(self, snapshot_id: bytes) -> None:
        """Raises SnapshotEndedError if the id is known as ended."""
        ended = self._ended.get(snapshot_id)
        if ended is not None:
            raise ended_error(snapshot_id, ended.table, ended.reason, ended.ended_ms)


def ended_error(snapshot_id: bytes, table: str, reason: str, ended_ms: int = 0) -> SnapshotEndedError:
    """Returns the error for a snapshot that has ended. `ended_ms` 0: unknown."""
    of_table = f" of table {table!r}" if table else ""
    what = f"ended at {time_text(ended_ms)}" if ended_ms else "is not available"
    return SnapshotEndedError(
        f"snapshot {snapshot_id.hex()}{of_table} {what}: {reason}; make a new snapshot",
        table=table,
        ended_ms=ended_ms,
        reason=reason,
    )


def check_snapshot_id(snapshot_id: bytes) -> None:
    """Raises InvalidRequestError unless it has the length of an id."""
    if len(snapshot_id) != SNAPSHOT_ID_BYTES:
        raise InvalidRequestError(
            f"a snapshot's id has {SNAPSHOT_ID_BYTES} random bytes, this one has {len(snapshot_id)}; choose another id"
        )
