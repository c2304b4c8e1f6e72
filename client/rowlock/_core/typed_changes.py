"""Changes and checks of typed rows as changes and checks of bytes, and their results. No I/O."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from rowlock_proto.v1 import region_pb2

from rowlock._codec.columns import listed
from rowlock._core.conversation import Request
from rowlock._core.point import results_of
from rowlock._core.typed_filters import compared, has_exact_bytes
from rowlock._core.typed_rows import EncodedRow, RowCodec, TypedCell
from rowlock.changes import Append, Change, Delete, Increment, Put
from rowlock.checks import Check, CompareOp
from rowlock.errors import MappingError
from rowlock.filters import Filter, columns_of
from rowlock.typed_checks import TypedCheckResult

_EQUALITY = ("=", "!=")


def changes_of(encoded: EncodedRow) -> list[Change]:
    """Returns the changes of a put."""
    puts = [Put(column, value, encoded.timestamp) for column, value in encoded.puts.items()]
    return [*puts, *(Delete(column, encoded.timestamp) for column in encoded.deletes)]


def deletes_of(codec: RowCodec, names: Iterable[str] | None, timestamp: int | None) -> list[Change]:
    """Returns a delete of each column, or of the row if names is None."""
    if names is None:
        return [Delete(None, timestamp)]
    return [Delete(column, timestamp) for column in codec.targets(names)]


def encoded_changes(codec: RowCodec, changes: Iterable[Change], name: str = "changes") -> list[Change]:
    """Returns the changes with the table's columns and bytes. name: the argument's, for messages."""
    return [_encoded(codec, change) for change in listed(name, "changes", changes, Change)]


def _encoded(codec: RowCodec, change: Change) -> Change:
    if isinstance(change, Put):
        cell = codec.cell(change.column)
        if change.value is None:
            return Delete(cell.target, change.timestamp)
        return Put(cell.target, cell.encode(change.value), change.timestamp)
    if isinstance(change, Delete):
        column = None if change.column is None else codec.cell(change.column).target
        return Delete(column, change.timestamp, change.exact)
    if isinstance(change, Increment):
        return Increment(counter_of(codec, change.column).target, change.amount)
    if isinstance(change, Append):
        cell = appendable(codec, change.column)
        return Append(cell.target, cell.encode(change.suffix))
    raise TypeError(
        f"a change must be a rowlock.Put, Delete, Increment or Append, as in [rowlock.Put('name', 1)], not "
        f"{type(change).__name__}"
    )


def counter_of(codec: RowCodec, name: object) -> TypedCell:
    """Returns a column that can be incremented. Raises MappingError for another one."""
    cell = codec.cell(name)
    if (cell.mapped.type, cell.mapped.encoding) != ("bigint", "binary"):
        raise MappingError(
            f"the column {cell.mapped.name!r} is {cell.mapped.type_text} as {cell.mapped.encoding!r}; only a BIGINT as "
            "'binary' is a counter"
        )
    return cell


def appendable(codec: RowCodec, name: object) -> TypedCell:
    """Returns a column whose values can be appended to. Raises MappingError for another one."""
    cell = codec.cell(name)
    if not cell.mapped.is_bytes:
        raise MappingError(
            f"the column {cell.mapped.name!r} is {cell.mapped.type_text}; only a STRING or BINARY can be appended to"
        )
    return cell


def appended(cell: TypedCell, value: bytes) -> Any:
    """Returns the new value of an append, which was made: so a byte that is not UTF-8 becomes a lone surrogate."""
    return value.decode(errors="surrogateescape") if cell.mapped.type == "string" else value


def encoded_check(codec: RowCodec, check: Check | Filter) -> Check | Filter:
    """Returns a check of bytes where that means the same, else a filter."""
    if isinstance(check, Filter):
        return check
    if not isinstance(check, Check):
        raise TypeError(f"a check must be a rowlock.Check or a filter, not {type(check).__name__}")
    cell = codec.cell(check.column)
    if check.expected is None:
        return Check(cell.target, None, check.op)
    if _compares_as_bytes(cell, check.op):
        return Check(cell.target, cell.encode(check.expected), check.op)
    return compared(cell, check.op, check.expected)


def _compares_as_bytes(cell: TypedCell, op: CompareOp) -> bool:
    if cell.mapped.is_bytes:
        return True
    return op in _EQUALITY and has_exact_bytes(cell.mapped) and not cell.mapped.formers


def encoded_checks(codec: RowCodec, checks: Iterable[Check | Filter] | Check | Filter) -> list[Check | Filter]:
    """Returns the checks with the table's columns and bytes."""
    given = [checks] if isinstance(checks, Check | Filter) else listed("checks", "checks", checks)
    return [encoded_check(codec, check) for check in given]


@dataclass(frozen=True, slots=True)
class TypedCheckAnswer:
    """The answer to a conditional change. checks: the encoded ones, in the caller's order."""

    codec: RowCodec
    checks: Sequence[Check | Filter]
    row: bytes
    request: Request
    answer: region_pb2.PointAnswer

    @property
    def is_unfit(self) -> bool:
        """Whether nothing was changed, and a value that was found does not fit the mapping."""
        result = self.answer.mutate.results[0]
        if result.condition_met or self.request.point.mutate.mutations[0].otherwise:
            return False
        try:
            for cell in result.seen:
                self._decode(cell.family + b":" + cell.qualifier, cell.value)
        except MappingError:
            return True
        return False

    def result(self) -> TypedCheckResult:
        """Returns the result for the caller."""
        result = self.answer.mutate.results[0]
        mutation = self.request.point.mutate.mutations[0]
        found = {cell.family + b":" + cell.qualifier: cell.value for cell in result.seen}
        changes = mutation.changes if result.condition_met else mutation.otherwise
        return TypedCheckResult(
            applied=result.condition_met,
            name_of=self._name_of,
            decode=self._decode,
            stored={
                column: found.get(column)
                for column in dict.fromkeys(_compared(self.checks, with_filters=mutation.condition.return_filtered))
            },
            results=typed_results(self.codec, changes, self.answer),
        )

    def _name_of(self, column: bytes) -> str:
        cell = _cell_of(self.codec, column)
        return column.decode(errors="surrogateescape") if cell is None else cell.mapped.name

    def _decode(self, column: bytes, value: bytes) -> Any:
        cell = _cell_of(self.codec, column)
        return value if cell is None else cell.decode(value, self.row)


def typed_results(codec: RowCodec, changes: Iterable[Any], answer: region_pb2.PointAnswer) -> list[Any]:
    """Returns one result per change that was made. changes: messages."""
    made = list(changes)
    results: list[Any] = []
    for change, result in zip(made, results_of(made, answer), strict=True):
        if isinstance(result, bytes):
            cell = codec.find(change.append.family, change.append.qualifier)
            assert cell is not None, "encoded_changes appends to the mapping's columns only"
            results.append(appended(cell, result))
        else:
            results.append(result)
    return results


def _compared(checks: Iterable[Check | Filter], *, with_filters: bool) -> Iterator[bytes]:
    for check in checks:
        if isinstance(check, Filter):
            if with_filters:
                yield from (b":".join(column) for column in columns_of(check.message))
        else:
            assert isinstance(check.column, bytes), check
            yield check.column


def _cell_of(codec: RowCodec, column: bytes) -> TypedCell | None:
    family, _, qualifier = column.partition(b":")
    return codec.find(family, qualifier)
