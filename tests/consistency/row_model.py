"""A sequential model of one row, by which a linearizable server must be explained.

The row has a value (a register, stored in two families at once), a counter and a text. An action is a value; `step`
returns the row after it and its answer. The model knows nothing of servers or of time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class Row:
    """The cells of the row; None means no cell. A row without cells does not exist."""

    value: bytes | None = None
    counter: int | None = None
    text: bytes | None = None

    @property
    def exists(self) -> bool:
        return self != ABSENT


ABSENT = Row()


@dataclass(frozen=True, slots=True)
class Read:
    """Answers the row. `by` is the way to read it, which makes no difference."""

    by: str = "get"


@dataclass(frozen=True, slots=True)
class Put:
    value: bytes


@dataclass(frozen=True, slots=True)
class Create:
    """Puts the value if there is no row; answers whether."""

    value: bytes


@dataclass(frozen=True, slots=True)
class Update:
    """Puts the value if there is a row; answers whether."""

    value: bytes


@dataclass(frozen=True, slots=True)
class CheckAndPut:
    """Puts the value if the stored one is `expected`; answers whether, and the stored one."""

    expected: bytes | None
    value: bytes


@dataclass(frozen=True, slots=True)
class CheckAndDelete:
    """Deletes the row if the stored value is `expected`; answers whether, and the stored one."""

    expected: bytes | None


@dataclass(frozen=True, slots=True)
class DeleteValue:
    pass


@dataclass(frozen=True, slots=True)
class DeleteRow:
    pass


@dataclass(frozen=True, slots=True)
class Increment:
    """Answers the new number."""

    amount: int


@dataclass(frozen=True, slots=True)
class Append:
    """Answers the new text."""

    suffix: bytes


@dataclass(frozen=True, slots=True)
class Replace:
    """Deletes the row, puts the value and increments the counter twice, in one change; answers both new numbers."""

    value: bytes
    amount: int


@dataclass(frozen=True, slots=True)
class Exchange:
    """A procedure: puts the value and adds to the counter; answers the value before and the new number."""

    value: bytes
    amount: int


Action = (
    Exchange
    | Read
    | Put
    | Create
    | Update
    | CheckAndPut
    | CheckAndDelete
    | DeleteValue
    | DeleteRow
    | Increment
    | Append
    | Replace
)
Answer = None | bool | int | bytes | Row | tuple[bool, bytes | None] | tuple[bytes | None, int] | Sequence[int]


def step(action: Action, row: Row) -> tuple[Row, Answer]:
    """Returns the row after the action, and the action's answer."""
    match action:
        case Read():
            return row, row
        case Put(value):
            return replace(row, value=value), None
        case Create(value):
            return (row, False) if row.exists else (Row(value), True)
        case Update(value):
            return (replace(row, value=value), True) if row.exists else (row, False)
        case CheckAndPut(expected, value):
            is_met = row.value == expected
            return replace(row, value=value) if is_met else row, (is_met, row.value)
        case CheckAndDelete(expected):
            is_met = row.value == expected
            return ABSENT if is_met else row, (is_met, row.value)
        case DeleteValue():
            return replace(row, value=None), None
        case DeleteRow():
            return ABSENT, None
        case Increment(amount):
            counter = (row.counter or 0) + amount
            return replace(row, counter=counter), counter
        case Append(suffix):
            text = (row.text or b"") + suffix
            return replace(row, text=text), text
        case Exchange(value, amount):
            counter = (row.counter or 0) + amount
            return replace(row, value=value, counter=counter), (row.value, counter)
        case Replace(value, amount):
            return Row(value, 2 * amount), (amount, 2 * amount)
