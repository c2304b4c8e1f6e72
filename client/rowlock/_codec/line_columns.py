"""The columns of rows that a scan answers in columns, and the parts of their cells that are alike in all its messages.

Each row has the same families and qualifiers, and often values of the same lengths. Those of many rows begin with those
of fewer. So they are made once, for the most rows so far, and the cells of all messages share their memory.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
from rowlock_proto.v1 import region_pb2

from rowlock._codec.arrow_buffers import BINARY_BYTES_MAX, Array, repeated_offsets
from rowlock._codec.row_form import FormColumn, RowFormReader
from rowlock.errors import ServerError


class LineColumns:
    """Columns with values, which ascend by family, then qualifier, and with timestamps: one of all, or one of each.

    Not thread-safe. Raises ServerError for other columns.
    """

    def __init__(self, columns: Sequence[FormColumn]) -> None:
        self.form = RowFormReader.of(columns, region_pb2.ScanRequest())
        self.are_timestamps = [column.is_timestamp for column in columns]
        self.names = [(column.family, column.qualifier) for column in columns if not column.is_timestamp]
        timed_names = [(column.family, column.qualifier) for column in columns if column.is_timestamp]
        is_ascending = self.names == sorted(set(self.names))
        if not self.names or not is_ascending or (len(timed_names) != 1 and timed_names != self.names):
            raise ServerError(f"a batch of rows in columns is damaged: columns {columns[:10]}")
        # The bytes of the names of a row that has all of its cells.
        self.name_bytes = sum(len(family) + len(qualifier) for family, qualifier in self.names)
        self.key_offsets = RepeatedOffsets()
        self.value_offsets = RepeatedOffsets()
        self._families = _RepeatedNames([family for family, _ in self.names])
        self._qualifiers = _RepeatedNames([qualifier for _, qualifier in self.names])

    def families(self, row_count: int) -> Array:
        """Returns the families of the cells of `row_count` rows, each with all columns."""
        return self._families.of(row_count)

    def qualifiers(self, row_count: int) -> Array:
        """Returns the qualifiers of the cells of `row_count` rows, each with all columns."""
        return self._qualifiers.of(row_count)


class RepeatedOffsets:
    """Offsets of binary values whose lengths repeat."""

    def __init__(self) -> None:
        self._lengths: Sequence[int] = ()
        self._made = pa.py_buffer(b"")

    def of(self, lengths: Sequence[int], count: int) -> pa.Buffer:
        """Returns the offsets of values that have these lengths one after the other, this many times.

        Raises OverflowError beyond 2 GiB.
        """
        byte_count = sum(lengths) * count
        if byte_count > BINARY_BYTES_MAX:
            raise OverflowError(f"{byte_count} bytes are too many for one Arrow array; use smaller batches")
        size = 4 * (len(lengths) * count + 1)
        if lengths != self._lengths or self._made.size < size:
            self._lengths, self._made = lengths, repeated_offsets(lengths, count)
        return self._made.slice(0, size)


class _RepeatedNames:
    """Names that repeat."""

    def __init__(self, names: Sequence[bytes]) -> None:
        self._lengths = list(map(len, names))
        self._joined = b"".join(names)
        self._offsets = RepeatedOffsets()
        self._made = pa.py_buffer(b"")

    def of(self, count: int) -> Array:
        """Returns the names one after the other, this many times."""
        offsets = self._offsets.of(self._lengths, count)
        size = len(self._joined) * count
        if self._made.size < size:
            self._made = pa.py_buffer(self._joined * count)
        buffers = [None, offsets, self._made.slice(0, size)]
        return pa.Array.from_buffers(pa.binary(), len(self._lengths) * count, buffers)
