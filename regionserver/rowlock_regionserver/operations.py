"""The operations of a region as values: changes, conditions, selections, results.

They do not depend on the protocol; rpc/ makes them from messages. scan/filters.py evaluates the filters. A value that
is made for every request is a named tuple, which takes half the time of a frozen dataclass.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from rowlock_regionserver.cells import Durability
from rowlock_regionserver.errors import RegionServerError


class CompareOp(enum.IntEnum):
    """Stands between the stored value and the operand. The numbers are the protocol's."""

    EQUAL = 0
    NOT_EQUAL = 1
    LESS = 2
    LESS_OR_EQUAL = 3
    GREATER = 4
    GREATER_OR_EQUAL = 5


class DeleteKind(enum.IntEnum):
    """The scope of a delete. The numbers are the protocol's."""

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


class Increment(NamedTuple):
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
    """How bytes are decoded before a comparison. The numbers are the protocol's."""

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
    """How a pattern matches a value. The numbers are the protocol's."""

    STARTS_WITH = 0
    ENDS_WITH = 1
    CONTAINS = 2
    MATCHES = 3  # a regular expression over bytes
    MATCHES_TEXT = 4  # one over UTF-8; what is not UTF-8 does not match


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
    """Compares the column's newest visible value; an absent column never matches."""

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


@dataclass(frozen=True, slots=True)
class RowPattern:
    kind: PatternKind
    operand: bytes


RowFilter = (
    AllOf
    | AnyOf
    | NotOf
    | ColumnComparison
    | ColumnPresence
    | ColumnPattern
    | ColumnIn
    | RowComparison
    | RowPrefix
    | RowPattern
)


@dataclass(frozen=True, slots=True)
class Check:
    """Compares the column's newest cell, as bytes. With operand None: absent (EQUAL) or present (NOT_EQUAL)."""

    family: bytes
    qualifier: bytes
    op: CompareOp = CompareOp.EQUAL
    operand: bytes | None = None


class Existence(enum.IntEnum):
    """What a condition requires of the whole row. The numbers are the protocol's."""

    ANY = 0
    ABSENT = 1
    PRESENT = 2


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition on the row's newest state; all its parts must hold."""

    checks: tuple[Check, ...] = ()
    existence: Existence = Existence.ANY
    filter: RowFilter | None = None
    returns_filtered: bool = False  # whether the answer lists the cells that the filter reads, too


class RequestId(NamedTuple):
    """Identifies a request, so that it is applied once. `floor`: the lowest sequence that the client waits for."""

    client: bytes  # 16 bytes
    sequence: int
    floor: int
    age_ms: int = 0  # how long ago the client first sent it; 0: just now, or unknown
    parts_of: tuple[
        int, ...
    ] = ()  # of a bulk batch: the batches in doubt that it is a part of, since a region was split


class RowMutation(NamedTuple):
    """Changes of one row, applied atomically and in order."""

    row: bytes
    changes: Sequence[Change]
    condition: Condition | None = None
    otherwise: tuple[Change, ...] = ()
    request: RequestId | None = None


class ProcedureCall(NamedTuple):
    """The call of a row procedure, by its name, for one row."""

    row: bytes
    name: str
    argument: bytes
    request: RequestId | None = None


class ProcedureReply(NamedTuple):
    """What a row procedure returned. `row`: the one that it changed."""

    row: bytes
    answer: bytes
    changes: tuple[Change, ...] = ()


# One version in an answer: (family, qualifier, timestamp, value).
AnswerCell = tuple[bytes, bytes, int, bytes]


class RowResult(NamedTuple):
    """The result of one row mutation."""

    condition_met: bool = True
    seen: tuple[AnswerCell, ...] = ()  # the cells that the condition compared; absent ones are left out
    results: tuple[AnswerCell, ...] = ()  # new cells of increments and appends, in order
    timestamp: int = 0  # the stamp; 0: nothing was changed
    repeated_request: bool = False
    answer: bytes = b""  # of a row procedure


RowOutcome = RowResult | RegionServerError


@dataclass(frozen=True, slots=True)
class ColumnSelector:
    family: bytes
    qualifier: bytes | None = None  # None: the whole family


@dataclass(frozen=True, slots=True)
class CellFilter:
    """Selects the cells of a matching row; all that is set must hold."""

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
    """Selects the rows and cells of a read."""

    columns: tuple[ColumnSelector, ...] = ()  # empty: all
    time_start: int = 0
    time_stop: int = 0  # 0: no bound
    versions: int = 1
    where: RowFilter | None = None
    cells: CellFilter = EVERY_CELL


# Selects all columns, one version each.
EVERYTHING = Selection()


class FormPart(enum.IntEnum):
    """The part of a column's newest version in the row form. The numbers are the protocol's."""

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
    fixed_size: bool = False  # a value column of the row form may have a type of fixed size, batch by batch
    compressed: bool = False  # rows of the row form may be compressed, batch by batch
    without_keys: bool = False  # compressed rows need no keys
    newest_rows: bool = False  # without a row form: an answer may have the newest value of each column instead of cells
    lines: bool = False  # without a row form: an answer may have rows in columns instead of cells, also compressed


class WriteOptions(NamedTuple):
    """The options of a write. `deadline` is on Clock.monotonic; durability None: the table's.

    `is_alone`: no other call is active, so the thread may block for a quick sync.
    """

    deadline: float
    durability: Durability | None = None
    is_alone: bool = False
