"""The request ids of a record of many rows: one a row, all of one client. docs/wal_format.md has the layout."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass

_COUNT = struct.Struct("<I")
_SEQUENCE_BYTES = 8
_LENGTH_BYTES = 2


@dataclass(frozen=True, slots=True)
class RowRequests:
    """The rows with a request id, in the order of their request, and their sequences; `floor` is the client's."""

    client: bytes  # 16 bytes
    floor: int
    rows: Sequence[bytes]
    sequences: Sequence[int]

    def __post_init__(self) -> None:
        assert len(self.rows) == len(self.sequences), (len(self.rows), len(self.sequences))

    def encode_rows(self) -> bytes:
        """Encodes rows and sequences."""
        count = len(self.rows)
        lengths = struct.pack(f"<{count}H", *map(len, self.rows))
        return b"".join((_COUNT.pack(count), struct.pack(f"<{count}Q", *self.sequences), lengths, *self.rows))

    @staticmethod
    def decode(client: bytes, floor: int, data: bytes) -> RowRequests:
        """Decodes what `encode_rows` returned, from bytes whose checksum was verified."""
        (count,) = _COUNT.unpack_from(data)
        position = _COUNT.size
        sequences = struct.unpack_from(f"<{count}Q", data, position)
        position += _SEQUENCE_BYTES * count
        lengths = struct.unpack_from(f"<{count}H", data, position)
        position += _LENGTH_BYTES * count
        rows = []
        for length in lengths:
            rows.append(data[position : position + length])
            position += length
        return RowRequests(client, floor, rows, sequences)
