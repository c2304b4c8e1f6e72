"""Which part of each row a read returns: columns, versions, times and cells."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rowlock_proto.v1 import region_pb2, types_pb2

from rowlock._codec.columns import (
    UINT32_MAX,
    Name,
    Value,
    check_number,
    check_timestamp,
    encoded_bound,
    encoded_value,
    is_pair,
    listed,
    parse_column,
)
from rowlock.checks import CompareOp, compare_op
from rowlock.errors import InvalidArgumentError
from rowlock.filters import Filter

TimeRange = tuple[int | None, int | None]
VERSIONS_ALL = (1 << 31) - 1


@dataclass(frozen=True, slots=True)
class CellFilter:
    """Chooses the cells of a row that a scan returns. A cell must pass every condition that is set.

    qualifier_prefix: the qualifier starts with this.
    qualifier_start, qualifier_stop: the qualifier lies in [start, stop).
    value: (op, operand): "stored op operand" holds for the cell's value, compared as bytes.
    first_key_only: return only the first cell of each row.
    offset, limit: skip and return this many of the row's cells that pass all other conditions; limit None: no limit.

    A row without any cell left is not returned. Raises InvalidArgumentError for a negative offset or a limit below 1,
    TypeError for a malformed value.
    """

    qualifier_prefix: Name | None = None
    qualifier_start: Name | None = None
    qualifier_stop: Name | None = None
    value: tuple[CompareOp, Value] | None = None
    first_key_only: bool = False
    offset: int = 0
    limit: int | None = None

    def __post_init__(self) -> None:
        check_number("offset", self.offset, 0, UINT32_MAX)
        if self.limit is not None:
            check_number("limit", self.limit, 1, UINT32_MAX)
        if self.value is not None and not is_pair(self.value):
            raise TypeError(f"the value of a CellFilter must be a pair (op, operand), not {self.value!r:.100}")


@dataclass(frozen=True, slots=True)
class Selection:
    """The options of a read, apart from its rows."""

    columns: Sequence[Name] | None = None
    timestamp: int | None = None
    time_range: TimeRange | None = None
    versions: int = 1
    where: Filter | None = None
    cells: CellFilter | None = None
    keys_only: bool = False

    def write(self, message: region_pb2.Get | region_pb2.ScanRequest) -> None:
        """Writes the options into a request. Raises InvalidArgumentError for a malformed column, time or versions."""
        if self.columns is not None:
            add_columns(message, self.columns)
        if self.timestamp is not None or self.time_range is not None:
            self._write_time(message)
        check_number("versions", self.versions, 1, VERSIONS_ALL)
        if self.versions != 1:
            message.versions = self.versions
        if self.where is not None:
            if not isinstance(self.where, Filter):
                raise TypeError(f"where must be a filter made from rowlock.column(), not {type(self.where).__name__}")
            message.where.CopyFrom(self.where.message)
        if self.keys_only:
            message.cells.keys_only = True
        if self.cells is not None:
            if not isinstance(self.cells, CellFilter):
                raise TypeError(f"cells must be a rowlock.CellFilter, not {type(self.cells).__name__}")
            _write_cell_filter(message.cells, self.cells)

    def _write_time(self, message: region_pb2.Get | region_pb2.ScanRequest) -> None:
        if self.time_range is None:
            check_timestamp(self.timestamp)
            assert self.timestamp is not None, "one of the two is given"
            message.time_range.stop = self.timestamp + 1
            return
        if self.timestamp is not None:
            raise InvalidArgumentError("give a timestamp or a time_range, not both")
        if not is_pair(self.time_range):
            raise TypeError(f"time_range must be a pair (start, stop) of milliseconds, not {self.time_range!r:.100}")
        start, stop = self.time_range
        check_timestamp(start)
        check_timestamp(stop)
        if stop is not None and (start or 0) >= stop:
            raise InvalidArgumentError(f"the time range [{start}, {stop}) is empty: stop must be after start")
        message.time_range.start = start or 0
        message.time_range.stop = stop or 0


def add_columns(message: region_pb2.Get | region_pb2.ScanRequest, columns: Sequence[Name]) -> None:
    """Adds columns and families to a request. Raises InvalidArgumentError for an empty list or malformed names."""
    count = 0
    for column in listed("columns", "columns", columns):
        family, qualifier = parse_column(column)
        added = message.columns.add()
        added.family = family
        if qualifier is not None:
            added.qualifier = qualifier
        count += 1
    if count == 0:
        raise InvalidArgumentError("the list of columns is empty; leave it out to read all of them")


def _write_cell_filter(message: types_pb2.CellFilter, cells: CellFilter) -> None:
    if cells.qualifier_prefix is not None:
        message.qualifier_prefix = encoded_bound("qualifier_prefix", cells.qualifier_prefix)
    if cells.qualifier_start is not None:
        message.qualifier_start = encoded_bound("qualifier_start", cells.qualifier_start)
    if cells.qualifier_stop is not None:
        message.qualifier_stop = encoded_bound("qualifier_stop", cells.qualifier_stop)
    if cells.value is not None:
        op, operand = cells.value
        message.value.op = compare_op(op)
        message.value.operand = encoded_value(operand)
    message.first_key_only = cells.first_key_only
    message.cell_offset = cells.offset
    message.cell_limit = cells.limit or 0
