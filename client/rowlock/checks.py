"""Conditions of a change: checks, their messages and their results."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, Literal

from rowlock_proto.v1 import region_pb2, types_pb2

from rowlock._codec.columns import Name, Text, encoded_value, listed, parse_cell_column
from rowlock.changes import TypedValue
from rowlock.errors import InvalidArgumentError
from rowlock.filters import Filter, columns_of

CompareOp = Literal["=", "!=", "<", "<=", ">", ">="]

_OPS: dict[str, types_pb2.CompareOp] = {
    "=": types_pb2.COMPARE_OP_EQUAL,
    "!=": types_pb2.COMPARE_OP_NOT_EQUAL,
    "<": types_pb2.COMPARE_OP_LESS,
    "<=": types_pb2.COMPARE_OP_LESS_OR_EQUAL,
    ">": types_pb2.COMPARE_OP_GREATER,
    ">=": types_pb2.COMPARE_OP_GREATER_OR_EQUAL,
}


@dataclass(frozen=True, slots=True)
class Check:
    """A condition, "stored op expected", on the newest version of a column.

    It is compared as bytes, in a typed table as the column's type.
    expected: None: the column is absent (op "="), or present (op "!="). b"" is an empty value, not an absent column.
    op: =, !=, <, <=, > or >=. An absent column fails every comparison with a value, even "!=".

    Raises InvalidArgumentError for another operator, and for one of order with None.
    """

    column: Name
    expected: TypedValue
    op: CompareOp = "="

    def __post_init__(self) -> None:
        compare_op(self.op)
        if self.expected is None and self.op not in ("=", "!="):
            raise InvalidArgumentError(
                "an expected value of None means an absent cell, which can only be checked with = and !=, "
                f"not {self.op!r}"
            )


@dataclass(frozen=True, slots=True)
class CheckResult(Generic[Text]):
    """The result of a conditional change. It is true if the condition held, so that the changes of `then` were made.

    applied: whether the condition held.
    stored: {column: value} as bytes, for each Check, and each column of filters; None if the column was absent.
        Servers of protocol 3 and earlier don't send those of filters, so they are missing.
    stored_results: one result per change made: an increment's new number, an append's new value as bytes, else None.

    `current`, `seen` and `results` are the decoded forms: str in a table with an encoding. They decode at each access.
    """

    applied: bool
    decode: Callable[[bytes], Text] = field(repr=False, compare=False)
    stored: Mapping[bytes, bytes | None] = field(default_factory=dict)
    stored_results: Sequence[int | bytes | None] = ()

    @property
    def current(self) -> Text | None:
        """The value that the first Check found, decoded; None if the column was absent.

        Without a Check it is the value of the first column that a filter names.
        """
        value = next(iter(self.stored.values()), None)
        return None if value is None else self.decode(value)

    @property
    def seen(self) -> dict[Text, Text | None]:
        """The values that all checks and filters found, {column: value}, decoded; None for an absent column."""
        decode = self.decode
        return {decode(name): None if value is None else decode(value) for name, value in self.stored.items()}

    @property
    def results(self) -> list[int | Text | None]:
        """One result per change made, as `Table.mutate_row` returns them, with the new values of appends decoded."""
        return decoded_results(self.stored_results, self.decode)

    def __bool__(self) -> bool:
        return self.applied


def decoded_results(results: Iterable[int | bytes | None], decode: Callable[[bytes], Text]) -> list[int | Text | None]:
    """Returns the results of changes with the new values of appends decoded."""
    return [decode(result) if isinstance(result, bytes) else result for result in results]


def compare_op(op: str) -> types_pb2.CompareOp:
    """Returns the operator as an enum value. Raises InvalidArgumentError for an unknown one."""
    if not isinstance(op, str):
        raise TypeError(f"op must be one of =, !=, <, <=, >, >=, not {type(op).__name__}")
    if op not in _OPS:
        raise InvalidArgumentError(f"op, the operator, must be one of =, !=, <, <=, >, >=, not {op!r}")
    return _OPS[op]


def set_condition(condition: region_pb2.Condition, checks: Iterable[Check | Filter]) -> None:
    """Fills in a condition that holds if all checks do.

    Raises InvalidArgumentError for an empty list, TypeError for an object that is not a check.
    """
    filters: list[Filter] = []
    for check in listed("checks", "checks", checks):
        if isinstance(check, Filter):
            filters.append(check)
            continue
        if not isinstance(check, Check):
            raise TypeError(f"a check must be a rowlock.Check or a filter, not {type(check).__name__}")
        message = condition.checks.add()
        message.family, message.qualifier = parse_cell_column(check.column)
        message.op = compare_op(check.op)
        if check.expected is not None:
            message.operand = encoded_value(check.expected, "expected")
    if not condition.checks and not filters:
        raise InvalidArgumentError("no check is given; use mutate_row() for a change without a condition")
    if filters:
        joined = filters[0]
        for following in filters[1:]:
            joined &= following
        condition.filter.CopyFrom(joined.message)


def compared_columns(condition: region_pb2.Condition) -> list[tuple[bytes, bytes]]:
    """Returns the columns that the answer lists: of the Checks, then of the filter if it asks for them, each once."""
    found = [(check.family, check.qualifier) for check in condition.checks]
    filtered = columns_of(condition.filter) if condition.return_filtered else ()
    return list(dict.fromkeys([*found, *filtered]))
