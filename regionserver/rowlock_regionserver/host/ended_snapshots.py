"""The ids of ended snapshots, with the reason for their holders. An id is never reused."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass

from rowlock_regionserver.errors import InvalidRequestError, SnapshotEndedError

SNAPSHOT_ID_BYTES = 16


@dataclass(frozen=True, slots=True)
class _Ended:
    table: str
    reason: str


SNAPSHOT_ID_BYTES = 16


class EndedSnapshots:
    """The last `count_max` ended snapshots. Not thread-safe."""

    def __init__(self, count_max: int) -> None:
        self._count_max = count_max
        self._ended: OrderedDict[bytes, _Ended] = OrderedDict()

    def __len__(self) -> int:
        return len(self._ended)

    def add(self, snapshot_id: bytes, table: str, reason: str) -> None:
        """Adds an id; its first reason counts. Beyond the bound the oldest id is dropped."""
        self._ended.setdefault(snapshot_id, _Ended(table, reason))
        if len(self._ended) > self._count_max:
            self._ended.popitem(last=False)

    def check(self, snapshot_id: bytes) -> None:
        """Raises SnapshotEndedError if the id is known as ended."""
        ended = self._ended.get(snapshot_id)
        if ended is not None:
            raise ended_error(snapshot_id, ended.table, ended.reason)


def ended_error(snapshot_id: bytes, table: str, reason: str) -> SnapshotEndedError:
    """Returns the error for a snapshot that has ended."""
    of_table = f" of table {table!r}" if table else ""
    return SnapshotEndedError(
        f"snapshot {snapshot_id.hex()}{of_table} is not available: {reason}; make a new snapshot",
        table=table,
    )


def check_snapshot_id(snapshot_id: bytes) -> None:
    """Raises InvalidRequestError unless it has the length of an id."""
    if len(snapshot_id) != SNAPSHOT_ID_BYTES:
        raise InvalidRequestError(
            f"a snapshot's id has {SNAPSHOT_ID_BYTES} random bytes, this one has {len(snapshot_id)}; choose another id"
        )
