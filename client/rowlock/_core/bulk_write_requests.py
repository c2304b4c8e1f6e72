"""Bulk writes, without I/O: requests, and single rows gathered into batches."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import pyarrow as pa
from rowlock_proto.prefixes import prefix_stop
from rowlock_proto.shown_names import row_text
from rowlock_proto.v1 import sessions_pb2, types_pb2

from rowlock._codec.arrow_buffers import integers_array, names_array
from rowlock._codec.columns import (
    Name,
    check_number,
    encoded_bound,
    encoded_row,
    encoded_value,
    listed,
    parse_cell_column,
)
from rowlock._core.lock_requests import lock_options
from rowlock._core.point import ColumnName, Data, check_data
from rowlock._core.snapshot_requests import TakenSnapshot, snapshot_id_for
from rowlock.errors import BulkError, InvalidArgumentError, RowlockError

# Rows that are gathered before they are sent.
_CELLS_MAX = 50_000
_BYTES_MAX = 4 << 20
_IDENTITY_CHARACTERS_MAX = 256


@dataclass(frozen=True, slots=True)
class BulkWriteResult:
    """The result of a commit.

    row_count, cell_count: rows and cells of all batches; those in several batches count in each.
    timestamp: of the cells without one. is_repeated: a commit of this identity was made before; nothing was written.
    """

    row_count: int
    cell_count: int
    timestamp: int
    is_repeated: bool = False


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """What the commit of a bulk write is to do."""

    table: str
    replace: bool
    start: bytes
    stop: bytes
    snapshot_id: bytes
    identity: tuple[str, int] | None

    def commit_request(
        self, session: types_pb2.SessionRef, number: int, staged_batches: Iterable[int]
    ) -> sessions_pb2.CommitBulkWriteRequest:
        """Returns the request that commits, without its wait for locks.

        number: of the bulk write. staged_batches: the numbers of the batches that it must have.
        """
        identity = self.identity
        return sessions_pb2.CommitBulkWriteRequest(
            session=session,
            table=self.table,
            number=number,
            start=self.start,
            stop=self.stop,
            replace=self.replace,
            snapshot_id=self.snapshot_id,
            staged_batches=sorted(staged_batches),
            identity=None if identity is None else sessions_pb2.CommitIdentity(text=identity[0], number=identity[1]),
            lock=lock_options(),
        )


def write_options(
    table: str,
    replace: bool,
    start: Name | None,
    stop: Name | None,
    prefix: Name | None,
    snapshot: TakenSnapshot | bytes | None,
    identity: tuple[str, int] | None,
) -> WriteOptions:
    """Returns the options. Raises InvalidArgumentError and TypeError."""
    if prefix is not None and (start is not None or stop is not None):
        raise InvalidArgumentError("a bulk write takes start and stop, or a prefix: only one of them")
    first, last = encoded_bound("start", start), encoded_bound("stop", stop)
    if prefix is not None:
        first = encoded_bound("prefix", prefix)
        last = prefix_stop(first)
    if last and first >= last:
        raise InvalidArgumentError(f"the range of a bulk write is empty: start {row_text(first)} must sort before stop")
    if identity is not None:
        if not isinstance(identity, tuple) or len(identity) != 2 or not isinstance(identity[0], str):
            raise TypeError(f"identity must be a text and a number, as in ('daily', 17), not {identity!r:.100}")
        check_number("the number of an identity", identity[1], -(1 << 63), (1 << 63) - 1)
        if not 1 <= len(identity[0]) <= _IDENTITY_CHARACTERS_MAX:
            raise InvalidArgumentError(f"the text of an identity must have 1 to {_IDENTITY_CHARACTERS_MAX} characters")
    return WriteOptions(table, bool(replace), first, last, snapshot_id_for(table, snapshot), identity)


def result_from(message: sessions_pb2.CommitBulkWriteResponse) -> BulkWriteResult:
    """Returns the result of a commit."""
    return BulkWriteResult(message.row_count, message.cell_count, message.timestamp, message.is_repeated)


def staging_error(error: BulkError) -> RowlockError:
    """Returns the error of batches that could not be staged: nothing was written, so only the first reason counts."""
    causes = [*error.failed, *error.unknown]
    return causes[0][1] if causes else error


class GatheredRows:
    """Puts and deletes of single rows, in their order."""

    def __init__(self) -> None:
        self._cells: list[tuple[bytes, bytes, bytes, int | None, bytes | None]] = []
        self._byte_count = 0

    @property
    def is_full(self) -> bool:
        """Whether they should be sent."""
        return len(self._cells) >= _CELLS_MAX or self._byte_count >= _BYTES_MAX

    def put(self, row: Name, data: Data[ColumnName], timestamp: int | None) -> None:
        """Adds puts. Raises InvalidArgumentError and TypeError."""
        key = encoded_row(row)
        check_data(data)
        cells: list[tuple[bytes, bytes, bytes, int | None, bytes | None]] = []
        for column, value in data.items():
            family, qualifier = parse_cell_column(column)
            cells.append((key, family, qualifier, timestamp, encoded_value(value)))
        self._add(cells)

    def delete(self, row: Name, columns: Iterable[Name], timestamp: int | None) -> None:
        """Adds deletes of columns. Raises InvalidArgumentError, also if there are none, and TypeError."""
        key = encoded_row(row)
        names = list(listed("columns", "columns", columns))
        if not names:
            raise InvalidArgumentError("the list of columns is empty; name the columns to delete")
        self._add([(key, *parse_cell_column(column), timestamp, None) for column in names])

    def _add(self, cells: list[tuple[bytes, bytes, bytes, int | None, bytes | None]]) -> None:
        self._cells += cells
        self._byte_count += sum(
            [len(row) + len(qualifier) + len(value or b"") for row, _, qualifier, _, value in cells]
        )

    def clear(self) -> None:
        """Forgets all of them."""
        self._cells, self._byte_count = [], 0

    def table(self) -> pa.Table | None:
        """Returns all as cells; None: there are none."""
        if not self._cells:
            return None
        rows, families, qualifiers, timestamps, values = zip(*self._cells, strict=True)
        return pa.table(
            {
                "row": names_array(rows),
                "family": names_array(families),
                "qualifier": names_array(qualifiers),
                "timestamp": integers_array(timestamps),
                "value": names_array(values),
            }
        )
