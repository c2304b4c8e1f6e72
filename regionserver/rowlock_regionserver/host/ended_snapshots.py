"""Ids of snapshots that have ended, and what their holders are told; none of them is made again."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass

from rowlock_regionserver.errors import SnapshotEndedError


@dataclass(frozen=True, slots=True)
class _Ended:
    table: str
    reason: str


class EndedSnapshots:
    """The last `count_max` of them. Not thread-safe."""

    def __init__(self, count_max: int) -> None:
        self._count_max = count_max
        self._ended: OrderedDict[bytes, _Ended] = OrderedDict()

    def __len__(self) -> int:
        return len(self._ended)

    def add(self, snapshot_id: bytes, table: str, reason: str) -> None:
        """Remembers an id; the first reason stays. The oldest is forgotten beyond the bound."""
        self._ended.setdefault(snapshot_id, _Ended(table, reason))
        if len(self._ended) > self._count_max:
            self._ended.popitem(last=False)

    def check(self, snapshot_id: bytes) -> None:
        """Raises SnapshotEndedError if it is remembered."""
        ended = self._ended.get(snapshot_id)
        if ended is not None:
            raise ended_error(snapshot_id, ended.table, ended.reason)


def ended_error(snapshot_id: bytes, table: str, reason: str) -> SnapshotEndedError:
    """What a caller is told, and what to do."""
    whose = f" of table {table!r}" if table else ""
    return SnapshotEndedError(
        f"snapshot {snapshot_id.hex()}{whose} is not there any more: {reason}; make a new snapshot",
        table=table,
    )
