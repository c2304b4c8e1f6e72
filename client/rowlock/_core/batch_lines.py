"""The unsent changes of a batch: one mutation per row, with the row's changes in order."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rowlock_proto.v1 import region_pb2

from rowlock._codec.columns import Name, Value, check_int, encoded_row
from rowlock._core.point import ColumnName, Data, add_data, add_deletes
from rowlock.changes import Append, Change, Increment, add_changes
from rowlock.errors import InvalidArgumentError

SIZE_DEFAULT = 1000
MAX_BYTES_DEFAULT = 4 * 1024 * 1024


class BatchLines:
    """Collects changes. Not thread-safe. A call that raises leaves the collected changes as they were."""

    def __init__(self, size: int, max_bytes: int) -> None:
        check_int("size", size)
        check_int("max_bytes of a batch", max_bytes)
        if size < 1 or max_bytes < 1:
            raise InvalidArgumentError(f"a batch's size and max_bytes must be at least 1, not {size} and {max_bytes}")
        self._size = size
        self._max_bytes = max_bytes
        self._mutations: dict[bytes, region_pb2.RowMutation] = {}
        self._count = 0
        self._byte_count = 0

    @property
    def is_full(self) -> bool:
        """Whether `size` changes or max_bytes bytes are collected."""
        return self._count >= self._size or self._byte_count >= self._max_bytes

    def put(self, row: Name, data: Data[ColumnName], timestamp: int | None) -> None:
        added = region_pb2.RowMutation(row=encoded_row(row))
        add_data(added, data, timestamp)
        self._add(added)

    def delete(self, row: Name, columns: Sequence[Name] | None, timestamp: int | None, exact: bool) -> None:
        added = region_pb2.RowMutation(row=encoded_row(row))
        add_deletes(added, columns, timestamp, exact)
        self._add(added)

    def increment(self, row: Name, column: Name, amount: int) -> None:
        self.mutate(row, [Increment(column, amount)])

    def append(self, row: Name, column: Name, suffix: Value) -> None:
        self.mutate(row, [Append(column, suffix)])

    def mutate(self, row: Name, changes: Iterable[Change]) -> None:
        added = region_pb2.RowMutation(row=encoded_row(row))
        add_changes(added.changes, changes)
        if not added.changes:
            raise InvalidArgumentError("no change is given")
        self._add(added)

    def take(self) -> dict[bytes, region_pb2.RowMutation]:
        """Removes and returns the collected mutations, by row."""
        taken = self._mutations
        self._mutations, self._count, self._byte_count = {}, 0, 0
        return taken

    def _add(self, added: region_pb2.RowMutation) -> None:
        collected = self._mutations.get(added.row)
        if collected is None:
            self._mutations[added.row] = added
        else:
            collected.changes.extend(added.changes)
        self._count += 1
        self._byte_count += added.ByteSize()
