"""Named snapshots as values, and their conversion from messages."""

from __future__ import annotations

from dataclasses import dataclass

from rowlock_proto.v1 import catalog_pb2


@dataclass(frozen=True, slots=True)
class NamedSnapshot:
    """A table at one moment, under a name, on the server's disk until it is dropped.

    table: the table's name at that moment; it may be gone. made_ms: the moment, by the server's clock, milliseconds
    since the epoch.
    region_count, store_file_count: what it consists of. store_file_bytes: of its store files, shared or not.
    own_bytes: of store files that no table and no other snapshot has; dropping it frees them.
    error: why it can't be read, and only be dropped: a folder of it is missing. Its sizes are not known then.
    """

    name: str
    table: str
    made_ms: int
    region_count: int
    store_file_count: int
    store_file_bytes: int
    own_bytes: int
    error: str = ""


def named_snapshot_from(message: catalog_pb2.NamedSnapshot) -> NamedSnapshot:
    """Returns a named snapshot from its message."""
    return NamedSnapshot(
        message.name,
        message.table.name,
        message.made_ms,
        message.region_count,
        message.store_file_count,
        message.store_file_bytes,
        message.own_bytes,
        message.error,
    )
