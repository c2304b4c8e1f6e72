"""The batches of one put_arrow, and the parts into which they are cut."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import cast

from rowlock_proto.v1 import types_pb2

from rowlock._core.bulk_input import Piece
from rowlock._core.retry import Attempts
from rowlock.bulk_outcome import Portion
from rowlock.schema import Region


@dataclass(frozen=True, slots=True)
class Stage:
    """Where batches are staged: in the bulk write of a session. Collects the numbers of those that were answered.

    The commit names the numbers, so that the server notices if it has lost one of these batches. Servers of protocol 10
    and earlier answer without numbers.
    """

    session: types_pb2.SessionRef
    numbers: set[int] = field(default_factory=set)


class Whole:
    """A batch in doubt that was cut into parts. Its number is in use until all of them have ended."""

    __slots__ = ("parts_left", "sequence")

    def __init__(self, sequence: int) -> None:
        self.sequence = sequence
        self.parts_left = 1


class Bulk:
    """One batch to send. region, message_bytes, is_rows: where, how large and in which form it was last sent.

    wholes: the batches that it is a part of and that are in doubt.
    """

    __slots__ = ("age_ms", "attempts", "batch", "is_rows", "message_bytes", "portion", "region", "sequence", "wholes")

    def __init__(self, batch: Piece, sequence: int, portion: Portion | None = None) -> None:
        self.batch = batch
        self.sequence = sequence
        self.wholes: tuple[Whole, ...] = ()
        self.portion = portion or Portion(batch.rows)
        self.region: Region | None = None
        self.message_bytes = 0
        self.is_rows = False
        self.age_ms = 0
        self.attempts: Attempts | None = None

    @property
    def first_row(self) -> bytes:
        """The first row of the batch."""
        row: bytes = self.batch.data.keys[0].as_py()
        return row

    def shares_row_with(self, other: Bulk) -> bool:
        """Returns whether both batches have a row in common. O(rows or cells) if their key ranges overlap."""
        from rowlock._codec.late_compute import compute as pc

        rows, other_rows = self.batch.data.keys, other.batch.data.keys
        bounds = cast(dict[str, bytes], pc.min_max(rows).as_py())  # a struct of two
        other_bounds = cast(dict[str, bytes], pc.min_max(other_rows).as_py())
        if bounds["max"] < other_bounds["min"] or other_bounds["max"] < bounds["min"]:
            return False
        shared: bool = pc.any(pc.is_in(rows, value_set=other_rows)).as_py()
        return shared
