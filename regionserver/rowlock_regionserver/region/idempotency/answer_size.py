"""How large the answer to a mutation becomes, counted cell by cell before anything is changed.

A change of a few bytes may read, and so answer, large cells: those that its checks see, and the new ones of its
appends. The answer to a request is one message, which must not be larger than `request_bytes_max`; in one to many rows
there is room kept for the refusal of each that comes later.
"""

from __future__ import annotations

from collections.abc import Sequence

from rowlock_regionserver.errors import LimitExceededError
from rowlock_regionserver.operations import AnswerCell, RowMutation, RowResult

# What a cell takes in a message beside its names and its value, generously: tags, lengths, timestamp.
_CELL_BYTES = 32
# What the refusal of a row for want of room takes beside the row's key, generously.
_REFUSAL_BYTES = 192


def room_for_cells(mutations: Sequence[RowMutation], bytes_max: int) -> int:
    """What the answer to several mutations has for cells, when the refusal of each is to have room too.

    Half at least: where so many small rows are asked for, refusals would be no smaller than answers.
    """
    return bytes_max - min(sum([len(mutation.row) + _REFUSAL_BYTES for mutation in mutations]), bytes_max // 2)


def bytes_of_cells(result: RowResult) -> int:
    """What the cells of the result take in an answer."""
    return sum([_bytes_of(cell) for cell in (*result.seen, *result.results)])


class AnswerSize:
    """What the cells in the answer to one mutation take, against the room that is left for them."""

    __slots__ = ("_bytes_max", "_room", "_row", "byte_count")

    def __init__(self, row: bytes, room: int, bytes_max: int) -> None:
        """`bytes_max`: the limit that left so much room, for the error."""
        self._row = row
        self._room = room
        self._bytes_max = bytes_max
        self.byte_count = -_REFUSAL_BYTES  # Which is not needed, if the change is made.

    def add(self, cell: AnswerCell) -> None:
        """Counts one more cell. Raises LimitExceededError when there is no room for it; nothing was changed yet."""
        self.byte_count += _bytes_of(cell)
        if self.byte_count > self._room:
            found = self._bytes_max - self._room + self.byte_count
            raise LimitExceededError(
                f"the answer would have at least {found} bytes, more than request_bytes_max = {self._bytes_max}; check "
                "or append to less at once",
                limit="request_bytes_max",
                limit_value=self._bytes_max,
                found=found,
                row=self._row,
            )


def _bytes_of(cell: AnswerCell) -> int:
    family, qualifier, _, value = cell
    return len(family) + len(qualifier) + len(value) + _CELL_BYTES
