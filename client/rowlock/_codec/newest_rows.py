"""Reads rows with the newest value of each column, as a server sends the first rows of a scan.

The layout is that of NewestRows in region.proto. Nothing in a message is trusted: a message that contradicts itself
raises ServerError.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate

from rowlock_proto.v1 import region_pb2

from rowlock._codec.columns import Text
from rowlock.errors import ServerError


@dataclass(frozen=True, slots=True)
class NewestRows:
    """At least one row. Each has columns, which are its element of column_sets, and as many values."""

    rows: Sequence[bytes]
    column_sets: Sequence[tuple[bytes, ...]]
    sets_of_rows: Sequence[int]
    values: Sequence[Sequence[bytes]]

    def expanded(self, decode: Callable[[bytes], Text]) -> Iterator[tuple[Text, dict[Text, Text]]]:
        """Yields (row, {column: value})."""
        names_of_sets = [list(map(decode, columns)) for columns in self.column_sets]
        all_values: Iterable[Iterable[Text]]
        if decode is bytes:
            # To decode to bytes is to do nothing, but would take as long as the rest.
            all_values = self.values  # type: ignore[assignment]  # then Text is bytes
        else:
            all_values = (map(decode, values) for values in self.values)
        for row, place, values in zip(self.rows, self.sets_of_rows, all_values, strict=True):
            yield decode(row), dict(zip(names_of_sets[place], values))  # noqa: B905  # as many, and it takes time


def read_newest_rows(message: region_pb2.NewestRows) -> NewestRows:
    """Returns the rows of a message. Raises ServerError unless it is valid and has a row."""
    column_sets = [tuple(each.columns) for each in message.column_sets]
    lengths, data = list(message.lengths), message.data
    piece_counts = [1 + len(columns) for columns in column_sets]
    if 1 in piece_counts or not lengths or sum(lengths) != len(data):
        raise _damaged(f"{len(column_sets)} lists of columns, {len(lengths)} lengths, {len(data)} bytes")
    sets_of_rows = list(message.sets_of_rows) or [0] * (len(lengths) // max(piece_counts, default=1))
    if max(sets_of_rows, default=0) >= len(column_sets):
        raise _damaged(f"{len(column_sets)} lists of columns, and a row with list {max(sets_of_rows, default=0)}")
    counts = [piece_counts[place] for place in sets_of_rows]
    if sum(counts) != len(lengths):
        raise _damaged(f"{len(lengths)} lengths for {len(counts)} rows of {sum(counts)} keys and values")
    pieces = _pieces_of_rows(counts, lengths, data)
    return NewestRows([of_row[0] for of_row in pieces], column_sets, sets_of_rows, [of_row[1:] for of_row in pieces])


def _pieces_of_rows(counts: list[int], lengths: list[int], data: bytes) -> Sequence[Sequence[bytes]]:
    """Returns the key and the values of each row, given the number of them and the length of each."""
    first = lengths[: counts[0]]
    if len(set(counts)) == 1 and lengths == first * len(counts) and data:
        # Rows of one form are unpacked in a quarter of the time.
        return list(struct.Struct("%ds" * len(first) % tuple(first)).iter_unpack(data))
    start, pieces = 0, []
    for stop in accumulate(lengths):
        pieces.append(data[start:stop])
        start = stop
    stops = list(accumulate(counts))
    return [pieces[stop - count : stop] for stop, count in zip(stops, counts, strict=True)]


def _damaged(problem: str) -> ServerError:
    return ServerError(f"a batch of newest rows is damaged: {problem}")
