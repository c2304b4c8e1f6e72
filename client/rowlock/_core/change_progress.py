"""How far a change feed was read, without I/O: makes requests, takes answers, and says what the offset is then.

A write number that is too large for one answer comes in parts, each a batch. The offset moves over whole write numbers
alone, so it stays before this one until all parts were returned.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
from rowlock_proto.v1 import region_pb2

from rowlock._codec.arrow_buffers import names_array, primitive_array
from rowlock._codec.arrow_stream import read_stream
from rowlock._core.catalog import check_table_name
from rowlock._core.change_parts import ReturnedParts
from rowlock._core.change_requests import checked_offset, offset_of
from rowlock.errors import InvalidArgumentError

_FIELDS: list[pa.Field[Any]] = [
    pa.field("row", pa.binary(), nullable=False),
    pa.field("family", pa.binary(), nullable=False),
    pa.field("qualifier", pa.binary(), nullable=False),
    pa.field("timestamp", pa.int64(), nullable=False),
    pa.field("write_number", pa.int64(), nullable=False),
    pa.field("kind", pa.int8(), nullable=False),
    pa.field("value", pa.binary(), nullable=False),
]
_SCHEMA = pa.schema(_FIELDS)
_NO_CHANGES = pa.Table.from_batches([], schema=_SCHEMA)  # not empty_table(), which imports pandas
_KIND = 5  # the place of the column
_KINDS = ("put", "delete_version", "delete_column", "delete_family")
# The schema of the batches that a change feed yields.
CHANGE_SCHEMA = _SCHEMA.set(_KIND, pa.field("kind", pa.dictionary(pa.int8(), pa.string()), nullable=False))


class ChangeProgress:
    """The progress of one change feed. Used by one thread or task at a time."""

    def __init__(self, table: str, since: Mapping[int, int] | Mapping[str, int] | None) -> None:
        """Raises InvalidArgumentError for an impossible offset, TypeError if it is not an offset."""
        check_table_name(table)
        self._table = table
        self._offset = None if since is None else checked_offset(since)
        self._row: bytes | None = b""  # in the region that is read next; None: all were read
        # Of the answer before, if the same region is read on.
        self._region_id = 0
        self._until = 0
        self._position = b""
        # Of write numbers that are not complete yet. The last one may be of the region that is read.
        self._parts: list[ReturnedParts] = []
        self._batch: pa.RecordBatch | None = None  # to be returned
        self._offset_after = self._offset  # it

    @property
    def offset(self) -> dict[int, int]:
        """How far the batches go that were returned. Raises InvalidArgumentError if it is not known yet."""
        if self._offset is None:
            raise InvalidArgumentError(
                "the offset is known when the first batch is, or the end; db.changes_offset returns the current one"
            )
        return dict(self._offset)

    @property
    def table(self) -> str:
        return self._table

    @property
    def is_done(self) -> bool:
        """Whether no request is left, unless the feed begins again."""
        return self._row is None

    @property
    def is_partial(self) -> bool:
        """Whether the batches that were returned end within a write number, which the offset does not have."""
        return bool(self._parts)

    def begin_again(self, newest: Mapping[int, int]) -> bool:
        """Begins with the first region again, if there are changes beyond the offset. `newest`: the current offset.

        Only when it is done. Returns whether there are some.
        """
        assert self._row is None, "the feed is not at its end"
        read = self.offset
        if all(number <= read.get(region_id, -1) for region_id, number in newest.items()):
            return False
        self._row = b""
        return True

    def request(self) -> region_pb2.ReadChangesRequest:
        """Returns the next request."""
        assert self._row is not None, "the feed is at its end"
        if self._offset is None:
            request = region_pb2.ReadChangesRequest(start=region_pb2.ReadChangesRequest.START_OLDEST)
        else:
            request = region_pb2.ReadChangesRequest(
                offset=[
                    region_pb2.ChangesRead(region_id=region_id, write_number=number)
                    for region_id, number in self._offset.items()
                ]
            )
        request.table, request.row = self._table, self._row
        request.region_id, request.until, request.position = self._region_id, self._until, self._position
        return request

    def take(self, answer: region_pb2.ReadChangesResponse) -> None:
        """Takes the answer to the request. Raises ServerError if it makes no sense."""
        assert self._row is not None, "an answer without a request"
        changes = read_stream(answer.arrow, _SCHEMA.equals, "a batch of changes") if answer.arrow else _NO_CHANGES
        was_partial = self.is_partial
        is_continued = bool(self._position) and answer.region_id == self._region_id
        new = changes
        # If the region was split or merged between two parts, the others begin their number again.
        for parts in self._parts[:-1] if is_continued else self._parts:
            new = parts.without(new)
        if answer.position:
            if not is_continued:
                self._parts.append(ReturnedParts(self._row, answer.stop))
            self._parts[-1].add(changes)
        elif is_continued:
            self._parts.pop()
        self._region_id, self._until, self._position = answer.region_id, answer.until, answer.position
        self._offset_after = offset_of(answer)  # Of a part it is the one of the request, or where the server began.
        if answer.is_done:
            self._row = answer.stop or None
            self._region_id = self._until = 0
            self._parts = [parts for parts in self._parts if not parts.ends_by(answer.stop)]
        if new.num_rows or (was_partial and not self.is_partial):
            self._batch = _single_batch(new)
        else:
            self._offset = self._offset_after

    def next_batch(self) -> pa.RecordBatch | None:
        """Returns the next batch, after which the offset is that of the batch; None if an answer is needed first.

        It is empty if there turn out to be no further parts of a write number.
        """
        batch, self._batch = self._batch, None
        if batch is None:
            return None
        self._offset = self._offset_after
        return _with_names_of_kinds(batch)


def _single_batch(changes: pa.Table) -> pa.RecordBatch:
    if changes.num_rows:
        (batch,) = changes.combine_chunks().to_batches()
        return batch
    empty = [
        names_array([]) if field.type == pa.binary() else primitive_array(field.type, np.zeros(0, np.int64), None)
        for field in _FIELDS
    ]
    return pa.RecordBatch.from_arrays(empty, schema=_SCHEMA)


def _with_names_of_kinds(batch: pa.RecordBatch) -> pa.RecordBatch:
    ends = np.cumsum([0, *map(len, _KINDS)]).astype(np.int32)
    text = pa.py_buffer("".join(_KINDS).encode())
    names = pa.Array.from_buffers(pa.string(), len(_KINDS), [None, pa.py_buffer(ends.data), text])
    columns = list(batch.columns)
    columns[_KIND] = pa.DictionaryArray.from_arrays(columns[_KIND], names)
    return pa.RecordBatch.from_arrays(columns, schema=CHANGE_SCHEMA)
