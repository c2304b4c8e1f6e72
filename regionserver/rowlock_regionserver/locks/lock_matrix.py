"""Which operation takes which lock: the one table of it. docs/locks.md shows the same, with the reasons.

An operation that is not here takes none: reading and changing rows, bulk batches, staging, flushes, compactions.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import NamedTuple

from rowlock_regionserver.locks.lock import LockKey, Mode, Wanted, wanted_of


class Operation(enum.Enum):
    """The operations that take locks, by what a list of locks says that they are for."""

    CREATE = "create a table"
    ALTER = "alter a table"
    TRUNCATE = "truncate a table"
    DROP = "drop a table"
    SPLIT = "split a region"
    MERGE = "merge two regions"
    COMMIT = "commit a bulk write"
    COMMIT_REPLACING_ROWS = "commit that replaces a prefix or a range"
    COMMIT_REPLACING_TABLE = "commit that replaces the whole table"
    SNAPSHOT = "take a snapshot"
    CREATE_NAMED_SNAPSHOT = "create a named snapshot"
    RESTORE_NAMED_SNAPSHOT = "restore a named snapshot"


class Modes(NamedTuple):
    """The modes of the table and of the regions concerned; None: those are not locked."""

    table: Mode
    regions: Mode | None = None


MATRIX: Mapping[Operation, Modes] = MappingProxyType(
    {
        Operation.CREATE: Modes(Mode.EXCLUSIVE),
        Operation.ALTER: Modes(Mode.EXCLUSIVE),
        Operation.TRUNCATE: Modes(Mode.EXCLUSIVE),
        Operation.DROP: Modes(Mode.EXCLUSIVE),
        Operation.SPLIT: Modes(Mode.SHARED, Mode.EXCLUSIVE),
        Operation.MERGE: Modes(Mode.SHARED, Mode.EXCLUSIVE),
        Operation.COMMIT: Modes(Mode.SHARED, Mode.SHARED),
        Operation.COMMIT_REPLACING_ROWS: Modes(Mode.SHARED, Mode.EXCLUSIVE),
        Operation.COMMIT_REPLACING_TABLE: Modes(Mode.EXCLUSIVE),
        Operation.SNAPSHOT: Modes(Mode.SHARED),
        Operation.CREATE_NAMED_SNAPSHOT: Modes(Mode.SHARED),
        Operation.RESTORE_NAMED_SNAPSHOT: Modes(Mode.EXCLUSIVE),
    }
)


def wanted_by(operation: Operation, table: str, region_ids: Iterable[int] = ()) -> Wanted:
    """Returns what the operation locks. `region_ids`: the regions concerned, if it locks regions."""
    modes = MATRIX[operation]
    keys = [(LockKey(table), modes.table)]
    if modes.regions is not None:
        keys += [(LockKey(table, region_id), modes.regions) for region_id in region_ids]
    return wanted_of(keys)
