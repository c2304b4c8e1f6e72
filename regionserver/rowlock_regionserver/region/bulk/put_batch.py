"""Puts of many rows as columns, as the front end received and validated them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import cast

import numpy as np
import pyarrow as pa

from rowlock_regionserver.arrow.columns import integer_array
from rowlock_regionserver.operations import Put, RequestId, RowMutation
from rowlock_regionserver.region.bulk.row_batch import RowBatch

# Of a piece: its puts are made one by one if a row of it is refused, and then take a hundred bytes each.
_PIECE_VALUES_MAX = 50_000


@dataclass(frozen=True, slots=True)
class PutBatch:
    """Rows, each of which is a change of its own: it has a put for each value that is not null."""

    rows: RowBatch
    client: bytes = b""  # 16 bytes, if there are sequences
    sequences: Sequence[int] = ()  # one a row, where 0 means none; or empty: no row has one
    floor: int = 0  # of the client's sequences

    def __post_init__(self) -> None:
        assert not self.rows.nulls_delete, "puts that delete"
        assert len(self.sequences) in (0, len(self.rows)), (len(self.sequences), len(self.rows))

    def __len__(self) -> int:
        return len(self.rows)

    def pieces(self, rows_max: int, bytes_max: int) -> Iterator[PutBatch]:
        """Yields the batch in pieces of about the same size, of at most this many rows, and of about this many bytes.

        Uncopied if it is one.
        """
        count = len(self)
        byte_count = self.rows.rows.nbytes + sum([column.nbytes for column in self.rows.columns])
        rows_of_values = _PIECE_VALUES_MAX // max(1, len(self.rows.columns))
        at_once = max(1, min(rows_max, rows_of_values, count * bytes_max // max(byte_count, 1)))
        if at_once >= count:
            yield self
            return
        piece_count = -(-count // at_once)
        bounds = [count * place // piece_count for place in range(piece_count + 1)]
        for start, stop in pairwise(bounds):
            # Copied, so that a piece does not hold the memory of all others.
            rows = self.rows.take(integer_array(np.arange(start, stop), pa.int64()))
            yield PutBatch(rows, self.client, self.sequences[start:stop], self.floor)

    def mutations(self) -> list[RowMutation]:
        """Returns each row as a mutation, in order. Costs about as much as if the rows had come so."""
        batch = self.rows
        rows = cast(list[bytes], batch.rows.to_pylist())  # never null
        timestamps = batch.timestamps.to_pylist()
        sequences = self.sequences or [0] * len(batch)
        puts: list[list[Put]] = [[] for _ in rows]
        for (family, qualifier), column in zip(batch.names, batch.columns, strict=True):
            for of_row, value, timestamp in zip(puts, column.to_pylist(), timestamps, strict=True):
                if value is not None:
                    of_row.append(Put(family, qualifier, value, timestamp))
        return [
            RowMutation(
                row,
                tuple(of_row),
                request=RequestId(self.client, sequence, self.floor) if sequence else None,
            )
            for row, of_row, sequence in zip(rows, puts, sequences, strict=True)
        ]
