"""What clients ask a region to do, as values: changes, conditions, selections, results.

They know nothing of the wire; rpc/ makes them from messages. Which columns a filter reads and how it judges is in
scan/filters.py. What is made for every request is a named tuple, which takes half the time of a frozen dataclass.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import NamedTuple

from rowlock_regionserver.cells import Durability
from rowlock_regionserver.errors import RegionServerError


class CompareOp(enum.IntEnum):
    """Reads "stored op operand". The numbers are the protocol's."""

    EQUAL = 0
    NOT_EQUAL = 1
    LESS = 2
    LESS_OR_EQUAL = 3
    GREATER = 4
    GREATER_OR_EQUAL = 5


class DeleteKind(enum.IntEnum):
    """What a delete removes. The numbers are the protocol's."""

    COLUMN = 0  # the column's versions up to the timestamp
    VERSION = 1  # the version at the timestamp; without one, the newest
    FAMILY = 2
    ROW = 3


class Put(NamedTuple):
    family: bytes
    qualifier: bytes
    value: bytes
    timestamp: int | None = None


@dataclass(frozen=True, slots=True)
class Delete:
    kind: DeleteKind
    family: bytes = b""
    qualifier: bytes = b""
    timestamp: int | None = None


@dataclass(frozen=True, slots=True)
class Increment:
    family: bytes
    qualifier: bytes
    amount: int


@dataclass(frozen=True, slots=True)
class Append:
    family: bytes
    qualifier: bytes
    suffix: bytes


Change = Put | Delete | Increment | Append


class ValueType(enum.IntEnum):
    """How bytes are read before they are compared. The numbers are the protocol's."""

    BYTES = 0
    STRING = 1
    INT64 = 2
    INT32 = 3
    INT16 = 4
    INT8 = 5
    FLOAT64 = 6
    FLOAT32 = 7
    BOOLEAN = 8
    TEXT_INT = 9
    TEXT_FLOAT = 10


class PatternKind(enum.IntEnum):
    """Where a pattern must stand in the value. The numbers are the protocol's."""

    STARTS_WITH = 0
    ENDS_WITH = 1
    CONTAINS = 2


@dataclass(frozen=True, slots=True)
class AllOf:
    filters: tuple[RowFilter, ...]


@dataclass(frozen=True, slots=True)
class AnyOf:
    filters: tuple[RowFilter, ...]


@dataclass(frozen=True, slots=True)
class NotOf:
    filter: RowFilter


@dataclass(frozen=True, slots=True)
class ColumnComparison:
    """The column's newest visible value compared; an absent column never matches."""

    family: bytes
    qualifier: bytes
    op: CompareOp
    operand: bytes
    type: ValueType = ValueType.BYTES


@dataclass(frozen=True, slots=True)
class ColumnPresence:
    family: bytes
    qualifier: bytes
    present: bool


@dataclass(frozen=True, slots=True)
class ColumnPattern:
    family: bytes
    qualifier: bytes
    kind: PatternKind
    operand: bytes


@dataclass(frozen=True, slots=True)
class ColumnIn:
    family: bytes
    qualifier: bytes
    operands: frozenset[bytes]


@dataclass(frozen=True, slots=True)
class RowComparison:
    op: CompareOp
    operand: bytes


@dataclass(frozen=True, slots=True)
class RowPrefix:
    prefix: bytes


RowFilter = (
    AllOf | AnyOf | NotOf | ColumnComparison | ColumnPresence | ColumnPattern | ColumnIn | RowComparison | RowPrefix
)


@dataclass(frozen=True, slots=True)
class Check:
    """The column's newest cell compared, as bytes; operand None: absent (EQUAL) or present (NOT_EQUAL)."""

    family: bytes
    qualifier: bytes
    op: CompareOp = CompareOp.EQUAL
    operand: bytes | None = None


class Existence(enum.IntEnum):
    """What a condition asks of the whole row. The numbers are the protocol's."""

    ANY = 0
    ABSENT = 1
    PRESENT = 2


@dataclass(frozen=True, slots=True)
class Condition:
    """Holds when everything in it holds of the row's newest state."""

    checks: tuple[Check, ...] = ()
    existence: Existence = Existence.ANY
    filter: RowFilter | None = None


class RequestId(NamedTuple):
    """Makes a retry apply once. `floor`: the lowest sequence that this client still waits for."""

    client: bytes  # 16 bytes
    sequence: int
    floor: int
    age_ms: int = 0  # how long ago the client first sent it; 0: it sends it now, or does not say


class RowMutation(NamedTuple):
    """Changes of one row, made together, in order."""

    row: bytes
    changes: tuple[Change, ...]
    condition: Condition | None = None
    otherwise: tuple[Change, ...] = ()
    request: RequestId | None = None


# One version as answered: (family, qualifier, timestamp, value).
AnswerCell = tuple[bytes, bytes, int, bytes]


class RowResult(NamedTuple):
    """What became of one row mutation."""

    condition_met: bool = True
    seen: tuple[AnswerCell, ...] = ()  # what the checks compared; absent ones are left out
    results: tuple[AnswerCell, ...] = ()  # new cells of increments and appends, in order
    timestamp: int = 0  # the stamp; 0: nothing was changed
    repeated_request: bool = False


RowOutcome = RowResult | RegionServerError


@dataclass(frozen=True, slots=True)
class ColumnSelector:
    family: bytes
    qualifier: bytes | None = None  # None: the whole family


@dataclass(frozen=True, slots=True)
class CellFilter:
    """Which cells of a matching row are answered; all that is set must hold."""

    qualifier_prefix: bytes | None = None
    qualifier_start: bytes | None = None
    qualifier_stop: bytes | None = None
    value_op: CompareOp | None = None
    value_operand: bytes = b""
    value_type: ValueType = ValueType.BYTES
    keys_only: bool = False
    first_key_only: bool = False
    cell_offset: int = 0
    cell_limit: int = 0  # 0: none


EVERY_CELL = CellFilter()


@dataclass(frozen=True, slots=True)
class Selection:
    """What a read answers of each row it reads."""

    columns: tuple[ColumnSelector, ...] = ()  # empty: all
    time_start: int = 0
    time_stop: int = 0  # 0: no bound
    versions: int = 1
    where: RowFilter | None = None
    cells: CellFilter = EVERY_CELL


# What is answered when nothing is chosen.
EVERYTHING = Selection()


class FormPart(enum.IntEnum):
    """What of a column's newest answered version stands in the row form. The numbers are the protocol's."""

    VALUE = 0
    TIMESTAMP = 1


class FormColumn(NamedTuple):
    """One column of the row form."""

    family: bytes
    qualifier: bytes
    part: FormPart = FormPart.VALUE


@dataclass(frozen=True, slots=True)
class ScanPlan:
    """A scan of one region."""

    selection: Selection = EVERYTHING
    ranges: tuple[tuple[bytes, bytes], ...] = ()  # (start, stop); empty: everything
    row_limit: int = 0  # 0: none
    reverse: bool = False
    batch_bytes: int = 1 << 20
    batch_rows: int = 50_000
    row_form: tuple[FormColumn, ...] | None = None  # None: one cell a line; else one row a line, with these columns


class WriteOptions(NamedTuple):
    """How a write is made. `deadline` is on Clock.monotonic; durability None: the table's.

    `is_alone`: nobody else is being served, so the caller may wait for a quick sync, for a moment.
    """

    deadline: float
    durability: Durability | None = None
    is_alone: bool = False
