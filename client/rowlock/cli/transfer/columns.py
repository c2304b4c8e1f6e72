"""The columns of a file: those of a mapping, or those of cells."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import pyarrow as pa
from rowlock_proto.nearest import did_you_mean

from rowlock import Mapping
from rowlock.cli.arguments import ArgumentError
from rowlock.mapping import MappedColumn, TimestampColumn

FileColumn = MappedColumn | TimestampColumn

# The columns of a file of cells, described as a mapping, so that every format reads and writes them. Nothing is stored
# by it: put_arrow takes cells as they are.
_CELLS = Mapping(
    "row BINARY :key, family BINARY cell:family, qualifier BINARY cell:qualifier, timestamp BIGINT cell:timestamp, "
    "value BINARY cell:value"
)


class TooLargeError(ArgumentError):
    """A number is too large for its column's type."""

    def __init__(self, number: object, kind: str) -> None:
        super().__init__(f"{number} is too large for a {kind}")


@dataclass(frozen=True, slots=True)
class FileColumns:
    """Columns to read or write, in order.

    required: names of those that have a value in every row. is_partial: a file may lack columns that are not required.
    optional: a column that a file to read may have besides. ignores_others: further columns of a file are ignored. Else
    they are refused where a misspelled name would not be missed: if the file may lack columns.
    """

    columns: tuple[FileColumn, ...]
    required: frozenset[str]
    is_partial: bool = False
    optional: FileColumn | None = None
    ignores_others: bool = True

    @property
    def schema(self) -> pa.Schema:
        """The schema of batches that are read."""
        return pa.schema([(column.name, column.arrow) for column in self.columns])

    @property
    def names(self) -> list[str]:
        """The columns' names."""
        return [column.name for column in self.columns]

    @property
    def known(self) -> list[str]:
        """The names of all columns that a file may have."""
        return self.names if self.optional is None else [*self.names, self.optional.name]

    def only(self, columns: Sequence[FileColumn]) -> FileColumns:
        """Returns these of the columns, all of which are read."""
        return FileColumns(tuple(columns), self.required, ignores_others=self.ignores_others)


# A timestamp may be null, for the server's clock. A null value would delete.
CELL_COLUMNS = FileColumns(tuple(_CELLS.columns), frozenset({"row", "family", "qualifier", "value"}))


def columns_of(mapping: Mapping, *, is_partial: bool = False, ignores_others: bool = False) -> FileColumns:
    """Returns the columns of a file of a mapping's rows. is_partial, ignores_others: as in FileColumns."""
    required = frozenset(column.name for column in mapping.keys)
    return FileColumns(tuple(mapping.columns), required, is_partial, mapping.timestamp, ignores_others)


def columns_among(name: str, wanted: FileColumns, present: Sequence[str], hint: str = "") -> FileColumns:
    """Returns the columns to read from a file that has the columns `present`.

    name: of the file. Raises ArgumentError for a column that is missing, or that the file has twice.
    """
    if wanted is not CELL_COLUMNS and CELL_COLUMNS.required <= set(present) and not set(present) & set(wanted.known):
        raise ArgumentError(f"{name} has the columns of cells, and none of the mapping: give --cells")
    if wanted.is_partial and not wanted.ignores_others:
        other = next((column for column in present if column not in wanted.known), None)
        if other is not None:
            raise ArgumentError(f"{name} has {other_column(other, wanted, present)}{hint}")
    chosen = [
        column
        for column in wanted.columns
        if column.name in present or column.name in wanted.required or not wanted.is_partial
    ]
    if wanted.optional is not None and wanted.optional.name in present:
        chosen.append(wanted.optional)
    missing = [column.name for column in chosen if column.name not in present]
    if missing:
        raise ArgumentError(
            f"{name} has no column {missing[0]!r}, which {_owner(wanted)}; "
            + (f"its columns are {', '.join(map(_printable, present))}{hint}" if present else "it has no columns")
        )
    twice = [column.name for column in chosen if present.count(column.name) > 1]
    if twice:
        raise ArgumentError(f"{name} has the column {twice[0]!r} twice, so the mapping is ambiguous")
    optional = [column.name for column in wanted.columns if column.name not in wanted.required]
    if optional and not any(column.name not in wanted.required for column in chosen):
        raise ArgumentError(
            f"{name} has no column of the mapping besides the key; those are {', '.join(optional)}{hint}"
        )
    return wanted.only(chosen)


def other_column(other: str, wanted: FileColumns, present: Collection[str]) -> str:
    """Returns the end of a message about a column that the mapping does not name. present: the file's columns."""
    what = f"the column {other!r}" if other else "a column without a name"
    meant = did_you_mean(other, set(wanted.known) - set(present))
    return (
        f"{what}, which the mapping does not name{meant}: rename it, or give --ignore-others to omit such columns. "
        f"The mapping has {', '.join(wanted.known)}"
    )


def missing_value(column: FileColumn, shown: str) -> str:
    """Returns the message for a null in a column that requires values."""
    if isinstance(column, MappedColumn) and column.is_key:
        return f"{shown} is not a valid key; every row needs one"
    return f"the {column.name} is null; every cell needs one"


def _owner(wanted: FileColumns) -> str:
    return "every file of cells has" if wanted is CELL_COLUMNS else "the mapping names"


def _printable(name: str) -> str:
    """The name of a column for a message. A file that is not CSV may have control characters there."""
    return name if name.replace("\t", " ").isprintable() else repr(name)
