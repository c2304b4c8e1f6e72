"""Compactions as values, and their conversion from messages."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from rowlock_proto.v1 import catalog_pb2

CompactionKind = Literal["minor", "major"]
CompactionState = Literal["queued", "working", "succeeded", "failed", "attempted"]

_KINDS: Mapping[int, CompactionKind] = {
    catalog_pb2.Compaction.KIND_MINOR: "minor",
    catalog_pb2.Compaction.KIND_MAJOR: "major",
}
_STATES: Mapping[int, CompactionState] = {
    catalog_pb2.Compaction.STATE_QUEUED: "queued",
    catalog_pb2.Compaction.STATE_WORKING: "working",
    catalog_pb2.Compaction.STATE_SUCCEEDED: "succeeded",
    catalog_pb2.Compaction.STATE_FAILED: "failed",
    catalog_pb2.Compaction.STATE_ATTEMPTED: "attempted",
}


@dataclass(frozen=True, slots=True)
class Compaction:
    """The compaction of one store, which is one family of one region, at one moment.

    compaction_id: ascending on the server, also over restarts.
    kind: "minor": the files since the last major compaction become one. "major": all files do, and what is deleted or
        expired is removed.
    state: "queued"; "working"; "succeeded"; "failed": the store has its old files; "attempted": it did not start,
        because it was cancelled, the disk was too full, or automatic compaction of the store has stopped.
    requested_by_hand: by a client, and not by the server itself.
    why: what made it due, in words. error: why it failed or did not start; it names a damaged file.
    worker: the server's thread that runs it; empty before it starts.
    queued_ms, started_ms, ended_ms: the server's clock, milliseconds since the epoch; None: not yet.
    bytes_total, bytes_read: of the files that it reads. While it works, bytes_read is an estimate.
    bytes_written: of the new files.
    files_in, files_out: files that it replaced, and that replaced them. cells_in, cells_out: cells read and written.
    """

    compaction_id: int
    table: str
    family: str
    region_id: int
    kind: CompactionKind
    state: CompactionState
    requested_by_hand: bool = False
    why: str = ""
    error: str = ""
    worker: str = ""
    queued_ms: int = 0
    started_ms: int | None = None
    ended_ms: int | None = None
    bytes_total: int = 0
    bytes_read: int = 0
    bytes_written: int = 0
    files_in: int = 0
    files_out: int = 0
    cells_in: int = 0
    cells_out: int = 0

    @property
    def is_over(self) -> bool:
        """Whether it has ended, or will never start."""
        return self.state not in ("queued", "working")


def compaction_from(message: catalog_pb2.Compaction) -> Compaction:
    """Returns a compaction from its message."""
    return Compaction(
        compaction_id=message.id,
        table=message.table,
        family=message.family.decode("utf-8", "backslashreplace"),
        region_id=message.region_id,
        kind=_KINDS.get(message.kind, "minor"),
        state=_STATES.get(message.state, "working"),
        requested_by_hand=message.requested_by_hand,
        why=message.why,
        error=message.error,
        worker=message.worker,
        queued_ms=message.queued_ms,
        started_ms=message.started_ms or None,
        ended_ms=message.ended_ms or None,
        bytes_total=message.bytes_total,
        bytes_read=message.bytes_read,
        bytes_written=message.bytes_written,
        files_in=message.files_in,
        files_out=message.files_out,
        cells_in=message.cells_in,
        cells_out=message.cells_out,
    )
