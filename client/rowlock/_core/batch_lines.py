"""The unsent changes of a batch: one line per row, with the row's changes in order."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rowlock_proto.v1 import region_pb2

from rowlock._codec.columns import Name, Value, check_int, check_timestamp, encoded_row, listed
from rowlock._core.point import ColumnName, Data, add_deletes, check_data, puts_of
from rowlock._core.put_rows import Line, PutRow, put_row, put_row_of
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
        self._lines: dict[bytes, Line] = {}
        self._count = 0
        self._byte_count = 0

    @property
    def is_full(self) -> bool:
        """Whether `size` changes or max_bytes bytes are collected."""
        return self._count >= self._size or self._byte_count >= self._max_bytes

    def put(self, row: Name, data: Data[ColumnName], timestamp: int | None) -> None:
        encoded = encoded_row(row)
        if timestamp is not None:
            check_timestamp(timestamp)
        check_data(data)
        added = put_row(encoded, tuple(data), data.values(), timestamp)
        if added is None:
            self._add(_mutation(encoded, puts_of(data, timestamp)))
        else:
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
        encoded = encoded_row(row)
        given = list(listed("changes", "changes", changes, Change))
        if not given:
            raise InvalidArgumentError("no change is given")
        self._add(put_row_of(encoded, given) or _mutation(encoded, given))

    def take(self) -> dict[bytes, Line]:
        """Removes and returns the collected lines, by row."""
        taken = self._lines
        self._lines, self._count, self._byte_count = {}, 0, 0
        return taken

    def _add(self, added: Line) -> None:
        collected = self._lines.setdefault(added.row, added)
        if collected is not added:
            self._lines[added.row] = _joined(collected, added)
        self._count += 1
        self._byte_count += added.byte_count if isinstance(added, PutRow) else added.ByteSize()


def _joined(earlier: Line, later: Line) -> Line:
    """Returns one line that does what two do to one row, in this order. It may be `earlier`, changed."""
    if isinstance(earlier, PutRow):
        puts = earlier.then(later) if isinstance(later, PutRow) else None
        if puts is not None:
            return puts
        earlier = earlier.mutation()
    earlier.changes.extend((later.mutation() if isinstance(later, PutRow) else later).changes)
    return earlier


def _mutation(row: bytes, changes: Iterable[Change]) -> region_pb2.RowMutation:
    mutation = region_pb2.RowMutation(row=row)
    add_changes(mutation.changes, changes)
    return mutation
