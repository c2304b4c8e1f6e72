"""The size of the answer to a mutation, counted cell by cell before anything is changed.

A change of a few bytes may return large cells: those that its checks compare, and the new cells of its appends. The
answer to a request is one message of at most `request_bytes_max`. In a request for many rows, bytes are reserved for
the refusal of each later row.
"""

from __future__ import annotations

from collections.abc import Sequence

from rowlock_regionserver.errors import LimitExceededError
from rowlock_regionserver.operations import AnswerCell, RowMutation, RowResult

# Upper bound of a cell's bytes in a message beyond its names and its value: tags, lengths, timestamp.
_CELL_BYTES = 32
# Upper bound of the bytes of a row's refusal, for an answer that is too large, beyond the row's key.
_REFUSAL_BYTES = 192


def cell_budget(mutations: Sequence[RowMutation], bytes_max: int) -> int:
    """Returns the bytes for cells in the answer to several mutations, if the refusal of each must fit too.

    At least half of `bytes_max`: with that many small rows, refusals would be no smaller than answers.
    """
    return bytes_max - min(sum([len(mutation.row) + _REFUSAL_BYTES for mutation in mutations]), bytes_max // 2)


def bytes_of_cells(result: RowResult) -> int:
    """Returns the bytes of the result's cells in an answer, and of what a procedure returned."""
    return sum([_bytes_of(cell) for cell in (*result.seen, *result.results)], len(result.answer))


class AnswerSize:
    """The bytes of the cells in the answer to one mutation, checked against the budget for them."""

    __slots__ = ("_budget", "_bytes_max", "_row", "byte_count")

    def __init__(self, row: bytes, budget: int, bytes_max: int) -> None:
        """`bytes_max`: the limit of the whole answer, for the error."""
        self._row = row
        self._budget = budget
        self._bytes_max = bytes_max
        self.byte_count = -_REFUSAL_BYTES  # A change that is made needs no refusal.

    def add(self, cell: AnswerCell) -> None:
        """Counts one more cell. Raises LimitExceededError if it exceeds the budget; nothing has changed yet."""
        self.byte_count += _bytes_of(cell)
        if self.byte_count > self._budget:
            found = self._bytes_max - self._budget + self.byte_count
            raise LimitExceededError(
                f"the answer would have at least {found} bytes, more than request_bytes_max = {self._bytes_max}; check "
                "or append to fewer or smaller cells at once",
                limit="request_bytes_max",
                limit_value=self._bytes_max,
                found=found,
                row=self._row,
            )


def _bytes_of(cell: AnswerCell) -> int:
    family, qualifier, _, value = cell
    return len(family) + len(qualifier) + len(value) + _CELL_BYTES
