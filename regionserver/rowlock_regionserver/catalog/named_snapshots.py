"""Named snapshots, as the catalog keeps them: each is the entry of a table that is not served.

Pure functions on all named snapshots, which are sorted by name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rowlock_regionserver.catalog.names import check_snapshot_name
from rowlock_regionserver.catalog.table_entry import TableEntry, entry_from_json, entry_to_json
from rowlock_regionserver.config import Config
from rowlock_regionserver.errors import LimitExceededError, SnapshotExistsError, SnapshotNotFoundError


@dataclass(frozen=True, slots=True)
class NamedSnapshot:
    """A table at one moment.

    entry: the table as it was, under an id of its own. Its regions have ids of their own, and folders with hard links
    to the store files of that moment.
    """

    name: str
    entry: TableEntry
    made_ms: int


NamedSnapshots = tuple[NamedSnapshot, ...]


def check_new_snapshot(snapshots: NamedSnapshots, name: str, config: Config) -> None:
    """Raises InvalidRequestError, SnapshotExistsError or LimitExceededError if no snapshot can have this name now."""
    check_snapshot_name(name)
    taken = [each for each in snapshots if each.name == name]
    if taken:
        table = taken[0].entry.table.name
        raise SnapshotExistsError(
            f"there is a snapshot {name!r} already, of table {table!r}; drop it first, or choose another name",
            table=table,
        )
    if len(snapshots) >= config.named_snapshots_max:
        raise LimitExceededError(
            f"there are {len(snapshots)} named snapshots, and named_snapshots_max is {config.named_snapshots_max}; "
            "drop those that you don't need",
            limit="named_snapshots_max",
            limit_value=config.named_snapshots_max,
            found=len(snapshots) + 1,
        )


def with_snapshot(snapshots: NamedSnapshots, added: NamedSnapshot) -> NamedSnapshots:
    """Returns all of them and a new one."""
    return tuple(sorted((*snapshots, added), key=lambda snapshot: snapshot.name))


def snapshot_of_name(snapshots: NamedSnapshots, name: str) -> NamedSnapshot:
    """Returns the snapshot of this name. Raises SnapshotNotFoundError."""
    for snapshot in snapshots:
        if snapshot.name == name:
            return snapshot
    raise SnapshotNotFoundError(f"there is no named snapshot {name[:256]!r}; create it, or list those that there are")


def snapshots_to_json(snapshots: NamedSnapshots) -> dict[str, object]:
    """Returns the fields of the catalog; none without snapshots."""
    if not snapshots:
        return {}
    return {
        "snapshots": [
            {"name": each.name, "made_ms": each.made_ms, "table": entry_to_json(each.entry)} for each in snapshots
        ]
    }


def snapshots_from_json(fields: Mapping[str, Any]) -> NamedSnapshots:  # Any: JSON
    """The inverse of `snapshots_to_json`. Raises KeyError, TypeError or ValueError for fields of another version."""
    return tuple(
        [
            NamedSnapshot(each["name"], entry_from_json(each["table"]), each["made_ms"])
            for each in fields.get("snapshots", ())
        ]
    )
